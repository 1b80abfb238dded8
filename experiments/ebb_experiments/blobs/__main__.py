"""`python -m ebb_experiments.blobs`: the blob store on a fat-tree of Mininet, with faults: is what
its clients see linearizable? As root. Exit code 1: something was wrong."""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
from pathlib import Path
from typing import Any

from ebb_controller.errors import ControllerError
from ebb_controller.fabric_admin import FabricAdmin
from ebb_controller.program import Program
from ebb_controller.scheme import load_scheme
from ebb_controller.tracts import GroupNumbers, follow
from ebb_topologies.files import InputError
from ebb_topologies.installation import compiled, programs, results
from ebb_topologies.model import from_table
from ebb_topologies.processes import ProcessDied, interrupted_by_all
from ebb_topologies.targets import target
from ebb_topologies.text import printable

from ebb_experiments.blobs.plan import REPLICAS, plan
from ebb_experiments.blobs.runs import Report, run
from ebb_experiments.blobs.store import Store
from ebb_experiments.run.agents import AgentError, agent_parameters
from ebb_experiments.run.fabric import Fabric
from ebb_experiments.run.loop import LoopThread

RATE_BPS = 100_000_000
TOPOLOGY = {
    "fat_tree": {"k": 4},
    "link_defaults": {"rate_bps": RATE_BPS, "delay_ns": 100_000},
}
"""Slow enough for a fabric under the wall clock without dilation: agents' times are as they are."""
GIVE_UP_NS = 1_500_000_000
"""When agents give up a host that is silent; by default after 4 s, which makes runs long."""
EXPECTED = (InputError, ControllerError, AgentError, ProcessDied, TimeoutError)


def main() -> int:
    """Runs the seeds that are asked for; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m ebb_experiments.blobs", description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="how many (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the first (default %(default)s)")
    options = parser.parse_args()
    logging.getLogger("finsy").setLevel(logging.CRITICAL + 1)
    interrupted_by_all()
    folder = results() / "blobs"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        with LoopThread() as loop:
            wrong = sum(
                not _one(seed, folder, loop)
                for seed in range(options.seed, options.seed + options.runs)
            )
    except EXPECTED as error:
        print(f"ebb_experiments.blobs: {printable(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("ebb_experiments.blobs: interrupted; everything was taken down", file=sys.stderr)
        return 130
    print(f"{options.runs - wrong} of {options.runs} runs are sound (histories: {folder})")
    return int(wrong > 0)


def _one(seed: int, folder: Path, loop: LoopThread) -> bool:
    """Runs a seed on a fabric of its own and prints a line; whether it is sound."""
    made, build = plan(seed), programs()
    scheme = load_scheme(made.scheme)
    program = Program.of(compiled(), scheme.fabric)
    topology = from_table(TOPOLOGY, "ebb_experiments.blobs")
    where = folder / f"seed-{seed}"
    where.mkdir(parents=True)
    fabric = Fabric(topology, target("ebb", build, fused=True), program, where / "fabric", loop)
    with fabric:
        fabric.configure(scheme.fabric)
        admin = FabricAdmin(fabric.net.fabric_socket)
        agent = build / "ebb-agent"
        parameters = _parameters(agent, made.scheme)
        store = Store(fabric, agent, where / "store", scheme.transport, REPLICAS, parameters)
        said: list[str] = []
        try:
            store.start()
            numbers = GroupNumbers(topology, ())
            following = loop.start(
                follow(str(store.socket), numbers, fabric.controller, scheme.fabric, said.append)
            )
            try:
                report = run(store, admin, loop.run, made)
            finally:
                following.cancel()
                (where / "controller.txt").write_text("\n".join(said))
        finally:
            store.stop()
            loop.run(admin.close())
    _say(report)
    return not report.wrong


def _parameters(agent: Path, name: str) -> dict[str, Any]:
    parameters = agent_parameters(agent, load_scheme(name), rate_bps=RATE_BPS)
    parameters[name]["give_up_ns"] = GIVE_UP_NS
    return parameters


def _say(report: Report) -> None:
    kinds = [each.did for each in report.history]
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
    verdict = "sound" if not report.wrong else "WRONG: " + "; ".join(report.wrong)
    print(
        f"seed {report.plan.seed} ({report.plan.scheme}, {report.seconds:.0f} s): {verdict}; "
        f"{counts}, {report.failed} failed; faults: {', '.join(report.done)}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
