"""Text of other processes and machines, made safe for a terminal."""

from __future__ import annotations


def printable(text: object) -> str:
    """The text without what a terminal obeys instead of showing it: control characters, and those
    that change the direction of writing, are written as escapes. Lines and tabs stay.

    For everything that comes from another process or machine and that people are to read.
    """
    return "".join(c if c.isprintable() or c in "\n\t" else _escape(c) for c in str(text))


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
