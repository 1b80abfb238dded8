"""`ebb-controller place`: where tenants' VMs go, and the bounds of their packets' delay."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from ebb_topologies.arguments import Parser
from ebb_topologies.files import InputError
from ebb_topologies.model import load_topology
from ebb_topologies.nearest import hint
from ebb_topologies.text import printable

from ebb_controller.placement.explain import as_json, as_text, decide
from ebb_controller.placement.search import Algorithm
from ebb_controller.placement.tenants import load_tenants, prepare

REFUSED = 3
"""Exit code if some tenant was refused."""


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    """The options of the command."""
    parser = Parser(prog="ebb-controller place", description=__doc__)
    parser.add_argument("tenants", type=Path, metavar="TENANTS.toml", help="docs/silo.md")
    parser.add_argument("--topology", type=Path, required=True, metavar="FILE", help="topology")
    parser.add_argument(
        "--algorithm", choices=get_args(Algorithm), default="silo", help="default: %(default)s"
    )
    parser.add_argument("--explain", action="store_true", help="each bound, port by port")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument(
        "--tenant", action="append", metavar="NAME", help="show only these; repeat for more"
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    """Places all tenants of the file in their order; prints in which way."""
    try:
        return _place(arguments(argv))
    except InputError as error:
        print(f"ebb-controller: {printable(error)}", file=sys.stderr)
        return 1


def _place(options: argparse.Namespace) -> int:
    file = load_tenants(options.tenants)
    known = [tenant.name for tenant in file.tenant]
    for name in options.tenant or ():
        if name not in known:
            raise InputError(f"{options.tenants}: unknown tenant '{name}'; {hint(name, known)}")
    network, requests = prepare(file, load_topology(options.topology), str(options.tenants))
    decisions = [decide(network, request, options.algorithm) for request in requests]
    shown = [d for d in decisions if not options.tenant or d.request.name in options.tenant]
    if options.json:
        found = [as_json(network, each, explain=options.explain) for each in shown]
        print(json.dumps({"algorithm": options.algorithm, "tenants": found}, indent=1))
    else:
        for decision in shown:
            for line in as_text(network, decision, explain=options.explain):
                print(printable(line))
    return REFUSED if any(decision.hosts is None for decision in decisions) else 0
