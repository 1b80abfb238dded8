"""Commands of `ebb-ctl`: words, options and effect."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from finsy.p4schema import P4Schema

from ebb_controller.ctl.client import Client
from ebb_controller.ctl.output import Row

Rows = Generator[Row, None, None]
"""A stream of objects."""
Answer = Row | Sequence[Row] | Rows | str | None
"""An object, a list, a stream of objects, a text as it is, or nothing."""
Run = Callable[[Client, argparse.Namespace], Answer]
Arguments = Callable[[argparse.ArgumentParser], None]
Complete = Callable[[P4Schema, Sequence[str]], Iterable[str]]
"""From the words behind the command to what the next one may be."""


def nothing(parser: argparse.ArgumentParser) -> None:
    """A command without arguments."""


def no_words(schema: P4Schema, words: Sequence[str]) -> Iterable[str]:
    """A command whose arguments are no names of the program."""
    return ()


@dataclass(frozen=True, slots=True)
class Command:
    """`ebb-ctl NOUN VERB`."""

    about: str
    """Its effect, for the help."""
    run: Run
    """Does it."""
    arguments: Arguments = nothing
    """Declares its arguments."""
    complete: Complete = no_words
    """Names that may come next."""
    line: Callable[[Row], str] = str
    """An object of a stream, for people; it may have several lines."""


def names(items: Any) -> list[str]:
    """The names of a map of finsy."""
    return [item.alias for item in items]


def first_of(kind: str) -> Complete:
    """The first word is a name of this kind (an attribute of the schema), others are no names."""

    def complete(schema: P4Schema, words: Sequence[str]) -> Iterable[str]:
        return names(getattr(schema, kind)) if not words else ()

    return complete
