"""Templates of table entries against finsy's own encoding."""

from __future__ import annotations

from typing import Any

import pytest
from ebb_controller.canonical import in_order
from ebb_controller.encoding import Encoder
from ebb_controller.templates import MAX_PRIORITY, Templates
from finsy import P4MeterConfig, P4TableAction, P4TableEntry, P4TableMatch
from finsy.p4schema import P4Schema
from finsy.proto import p4i, p4r
from hypothesis import given
from hypothesis import strategies as st

BITS = {"exact": 48, "lpm": 32, "ternary": 16, "range": 16, "optional": 9}
"""Widths of the match fields of the table; each is named after its kind."""
PROGRAM = """
pkg_info {{ arch: "v1model" }}
tables {{
  preamble {{ id: 33554433 name: "t" alias: "t" }}
  {fields}
  action_refs {{ id: 16777217 }}
  size: 1024
}}
actions {{
  preamble {{ id: 16777217 name: "a" alias: "a" }}
  params {{ id: 1 name: "port" bitwidth: 9 }}
  params {{ id: 2 name: "mac" bitwidth: 48 }}
}}
"""


def schema() -> P4Schema:
    """A program with one table, which has a match field of each kind."""
    from google.protobuf import text_format

    fields = " ".join(
        f'match_fields {{ id: {n} name: "{kind}" bitwidth: {bits} match_type: {kind.upper()} }}'
        for n, (kind, bits) in enumerate(BITS.items(), start=1)
    )
    return P4Schema(text_format.Parse(PROGRAM.format(fields=fields), p4i.P4Info()))


SCHEMA = schema()


def below(bits: int) -> st.SearchStrategy[int]:
    """Numbers that fit."""
    return st.integers(0, (1 << bits) - 1)


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "exact": below(48) | below(48).map(hex),
    "lpm": st.tuples(below(32), st.integers(0, 32)) | st.ip_addresses(v=4).map(str),
    "ternary": st.tuples(below(16), below(16)),
    "range": st.tuples(below(16), below(16)).map(lambda ends: tuple(sorted(ends))),
    "optional": st.none() | below(9),
}


@st.composite
def entries(draw: st.DrawFn) -> P4TableEntry:
    """An entry with some of the match fields, in any order."""
    names = draw(st.lists(st.sampled_from(list(BITS)), min_size=1, unique=True))
    arguments = {"mac": draw(below(48)), "port": draw(below(9))}
    if draw(st.booleans()):
        arguments = dict(reversed(arguments.items()))
    return P4TableEntry(
        "t",
        match=P4TableMatch({name: draw(VALUES[name]) for name in names}),
        action=P4TableAction("a", **arguments),
        priority=draw(st.integers(0, 3) | st.integers(0, MAX_PRIORITY)),
    )


@given(st.lists(entries(), min_size=1, max_size=20))
def test_messages_are_those_that_finsy_makes(several: list[P4TableEntry]) -> None:
    for entry, messages in zip(several, Templates().encode(several, SCHEMA), strict=True):
        if messages is None:
            continue  # one that matches everything in a field
        expected = in_order(entry.encode(SCHEMA))
        assert messages[0] == expected.SerializeToString(deterministic=True)
        expected.table_entry.ClearField("action")
        assert messages[1] == expected.SerializeToString(deterministic=True)


def plain(**fields: Any) -> P4TableEntry:
    """An entry that has a template, but for these fields."""
    arguments = {"port": 1, "mac": 2}
    match = P4TableMatch(exact=5)
    given = {"match": match, "action": P4TableAction("a", **arguments)} | fields
    return P4TableEntry("t", **given)


def filled(templates: Templates, entry: P4TableEntry) -> tuple[bytes, bytes] | None:
    """The messages of one entry."""
    (found,) = templates.encode([entry], SCHEMA)
    return found


def test_a_plain_entry_has_a_template() -> None:
    assert filled(Templates(), plain()) is not None


@pytest.mark.parametrize(
    "fields",
    [
        {"match": None},
        {"action": None},
        {"is_default_action": True},
        {"idle_timeout_ns": 5},
        {"metadata": b"x"},
        {"meter_config": P4MeterConfig(cir=1, cburst=1, pir=1, pburst=1)},
        {"match": P4TableMatch(optional=None)},
        {"match": P4TableMatch(lpm=(0, 0))},
        {"match": P4TableMatch(ternary=(0, 0))},
    ],
    ids=str,
)
def test_other_entries_have_none(fields: dict[str, Any]) -> None:
    templates = Templates()
    filled(templates, plain())
    assert filled(templates, plain(**fields)) is None


def test_a_form_that_has_a_template_keeps_to_entries_that_match_something() -> None:
    templates = Templates()
    some = plain(match=P4TableMatch(lpm=(1 << 24, 8)))
    assert filled(templates, some) is not None
    assert filled(templates, plain(match=P4TableMatch(lpm=(0, 0)))) is None
    assert filled(templates, some) is not None


@pytest.mark.parametrize(
    "fields",
    [
        {"match": P4TableMatch(exact=1 << 48)},
        {"match": P4TableMatch(exact=-1)},
        {"match": P4TableMatch(exact="x")},
        {"match": P4TableMatch(exact=None)},
        {"match": P4TableMatch(lpm=(0, 33))},
        {"match": P4TableMatch(nobody=1)},
        {"action": P4TableAction("a", port=512, mac=1)},
        {"action": P4TableAction("a", port=1)},
        {"action": P4TableAction("b")},
    ],
    ids=str,
)
@pytest.mark.parametrize("seen_before", [False, True])
def test_what_does_not_fit_is_named_as_finsy_names_it(
    fields: dict[str, Any], seen_before: bool
) -> None:
    entry = plain(**fields)
    encoder = Encoder()
    if seen_before:
        encoder.planned([plain()], SCHEMA)
        encoder.planned([plain(match=P4TableMatch(lpm=(1, 32)))], SCHEMA)
    with pytest.raises(ValueError, match=r".") as ours:
        encoder.planned([entry], SCHEMA)
    with pytest.raises(ValueError, match=r".") as finsys:
        entry.encode(SCHEMA)
    assert str(ours.value) == str(finsys.value)


def test_what_a_switch_returns_is_what_was_planned() -> None:
    encoder = Encoder()
    (planned,) = encoder.planned([plain()], SCHEMA)
    longer = p4r.Entity.FromString(planned.value)
    longer.table_entry.match[0].exact.value = b"\0\0\5"
    assert encoder.received([longer.SerializeToString()], SCHEMA) == [planned]
