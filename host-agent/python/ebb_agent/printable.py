"""Text of peers, made fit for a terminal or a log: the daemon's `printable.rs` in Python."""

from __future__ import annotations


def printable(text: str) -> str:
    """`text` in which whatever does not print (control characters, changes of the direction of
    writing, characters without width) is written as `\\u{1b}`."""
    return "".join(c if c.isprintable() else f"\\u{{{ord(c):x}}}" for c in text)
