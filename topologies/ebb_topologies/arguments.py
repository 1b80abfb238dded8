"""Command lines."""

from __future__ import annotations

import argparse
from typing import NoReturn

from ebb_topologies.errors import InputError


class Parser(argparse.ArgumentParser):
    """Wrong arguments are reported like every other error."""

    def error(self, message: str) -> NoReturn:
        """Raises `InputError`."""
        raise InputError(f"{message} (see --help)")
