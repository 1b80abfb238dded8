"""Options of commands that reach a switch with TLS. No other module of this package is loaded for
them."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds `cacert`, `cert` and `key`, each a path or none: the last three of a `Place`."""
    add = parser.add_argument
    add("--cacert", type=Path, metavar="PEM", help="authority of its certificate: TLS")
    add("--cert", type=Path, metavar="PEM", help="our certificate")
    add("--key", type=Path, metavar="PEM", help="the key of our certificate")
