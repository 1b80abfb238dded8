"""Parser and types of arguments of command lines."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import Any, NoReturn

from ebb_topologies.errors import InputError
from ebb_topologies.nearest import hint, nearest

INVALID_CHOICE = re.compile(
    r"(?P<what>.*)invalid choice: '(?P<given>.*)' \(choose from (?P<all>.*)\)"
)
"""argparse's message about a word that is not among its choices."""
UNKNOWN_OPTION = re.compile(r"unrecognized arguments: (?P<given>--[^ =]+)")
"""argparse's message about an option that there is not."""


class Parser(argparse.ArgumentParser):
    """Reports wrong arguments like every other error, with the nearest valid one."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.option_names: list[str] = []
        """Options in the order in which they were added, each with all its spellings."""
        super().__init__(*arguments, **options)

    def add_argument(self, *arguments: Any, **options: Any) -> argparse.Action:
        """Adds an argument, as the base does; the help of an option says its default, unless that
        is a path, which may be of this machine alone."""
        action = super().add_argument(*arguments, **options)
        self.option_names += action.option_strings
        is_complete = not action.help or "default" in action.help
        takes_value = action.option_strings and action.nargs != 0
        has_default = isinstance(action.default, str | int | float) and action.default != ""
        if takes_value and has_default and not is_complete:
            action.help = f"{action.help} (default: %(default)s)"
        return action

    def error(self, message: str) -> NoReturn:
        """Raises `InputError`."""
        if found := INVALID_CHOICE.match(message):
            known = [word.strip("'") for word in found["all"].split(", ")]
            what = found["what"].removeprefix("argument ")
            raise InputError(f"{what}there is no '{found['given']}'; {hint(found['given'], known)}")
        option = UNKNOWN_OPTION.match(message)
        near = option and nearest(option["given"], re.findall(r"--[a-z0-9-]+", self.format_help()))
        raise InputError(f"{message} ({f'did you mean {near}?' if near else 'see --help'})")


def whole_from(least: int) -> Callable[[str], int]:
    """The type of an argument that is a whole number, `least` or more."""

    def whole(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) < 19 and int(text) >= least):
            raise argparse.ArgumentTypeError(f"expected a whole number from {least}, not '{text}'")
        return int(text)

    return whole


def device_id(text: str) -> int:
    """The type of an argument that is the device id of a switch, of 64 bits in P4Runtime."""
    if not (text.isascii() and text.isdecimal() and len(text) < 21 and int(text) < 2**64):
        raise argparse.ArgumentTypeError(f"expected a whole number from 0 to 2^64-1, not '{text}'")
    return int(text)


def address(text: str) -> str:
    """The type of an argument that is the address of a gRPC server. gRPC itself takes a port modulo
    65536, which is another server."""
    host, _, port = text.rpartition(":")
    named = text.startswith(("unix:", "dns:"))
    digits = port.isascii() and port.isdecimal() and len(port) < 6
    if not named and not (host and digits and 0 < int(port) < 65536):
        raise argparse.ArgumentTypeError(f"expected HOST:PORT, with a port to 65535, not '{text}'")
    return text
