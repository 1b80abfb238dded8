"""Text of other processes that reaches a terminal."""

from __future__ import annotations

import pytest
from ebb_topologies.text import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s1: no such table 'ipv4'\n\tsee Ü", "s1: no such table 'ipv4'\n\tsee Ü"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("done\rfailed", r"done\rfailed"),
        ("\x9b2J\x00", r"\x9b2J\x00"),
        ("a\u202eb\u2028", r"a\u202eb\u2028"),
        ("\udc80", r"\udc80"),
    ],
)
def test_a_terminal_obeys_nothing_of_it(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable(ValueError(text)) == shown
