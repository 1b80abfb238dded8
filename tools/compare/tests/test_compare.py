"""Differences that two files may have, and those they may not."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from compare import cli, witness
from compare.arithmetic import Arithmetic
from compare.diagrams import Diagrams, Term
from compare.parsers import ONE_WAY
from compare.program import Program, Unusable, plain_names, read
from compare.reasons import ENUM, IDLE, WHOLE_RANGE
from compare.runner import judged
from compare.sections import Result, compare
from compare.tests.build import (
    Json,
    action,
    assign,
    code,
    condition,
    extract,
    field,
    number,
    op,
    program,
    state,
    table,
    transition,
)


def compared(left: Json, right: Json) -> Result:
    return compare(Program(left), Program(right))


def places(left: Json, right: Json) -> set[str]:
    result = compared(left, right)
    assert not result.not_compared
    return {d.section for d in result.differences}


def test_equal_diagrams_are_one_whatever_order_their_conditions_have() -> None:
    d = Diagrams()
    a, b = d.condition(d.term("a")), d.condition(d.term("b"))
    one, two = d.number(1), d.number(2)
    first = d.choose(a, d.choose(b, one, two), two)
    second = d.choose(b, d.choose(a, one, two), two)
    assert first is second


def test_ways_on_which_a_value_is_two_numbers_do_not_count() -> None:
    d = Diagrams()
    math = Arithmetic(d)
    x = d.term("field", "x", 8)
    is_1, is_2 = math.equal(x, d.const(1)), math.equal(x, d.const(2))
    left = d.choose(is_1, d.number(7), d.choose(is_2, d.number(8), d.number(9)))
    right = d.choose(is_2, d.number(8), d.choose(is_1, d.number(7), d.number(9)))
    assert left is not right
    assert all(a is b for a, b, _ in d.pairs(left, right))


def test_one_computation_has_one_term() -> None:
    d = Diagrams()
    m = Arithmetic(d)
    x, y = d.term("field", "x", 8), d.term("field", "y", 8)

    def plus(*args: Term) -> Term:
        return m.apply("+", *args)

    # 8-bit subtraction, as such and as an addition of 255.
    assert m.truncated(8, m.apply("-", x, d.const(1))) is m.truncated(8, plus(x, d.const(255)))
    # An inner mask of as many bits as the result has.
    inner = m.apply("&", plus(x, y), d.const(0xFF))
    assert m.truncated(8, plus(inner, y)) is m.truncated(8, plus(plus(y, x), y))
    # x[7:4], shifted then masked, and masked with no effect.
    high = m.apply(">>", x, d.const(4))
    assert m.apply("&", high, d.const(15)) is high
    assert m.truncated(8, x) is x
    # A mask that cuts is none that does not.
    assert m.truncated(4, x) is not x
    assert m.truncated(8, plus(x, y)) is not m.truncated(8, plus(x, d.const(1)))


def test_algebra_has_one_form() -> None:
    d = Diagrams()
    m = Arithmetic(d)
    x, y, wide = (d.term("field", n, w) for n, w in (("x", 8), ("y", 8), ("wide", 32)))

    def n(number: int) -> Term:
        return d.const(number)

    def op(name: str, *args: Term) -> Term:
        return m.apply(name, *args)

    # Saturation where nothing overflows, of constants, and of what is never positive.
    assert op("usat_cast", x, n(8)) is x
    assert op("usat_cast", op("-", n(2), n(5)), n(4)) is n(0)
    assert op("usat_cast", op("-", n(0), x), n(8)) is n(0)
    assert op("usat_cast", op("+", x, y), n(8)) is not m.truncated(8, op("+", x, y))
    assert op("sat_cast", m.as_signed(8, wide), n(8)) is m.as_signed(8, wide)
    # Constants alone.
    assert op("*", n(1), n(2)) is n(2)
    assert op("&", n(6), n(3)) is n(2)
    # Terms that cancel.
    assert op("-", x, op("+", x, y)) is op("-", n(0), y)
    assert op("^", x, op("^", y, x)) is y
    # A complement inside and outside of another operation.
    inside = op("^", m.truncated(8, op("~", x)), n(8))
    assert inside is m.truncated(8, op("~", op("^", x, n(8))))
    # A slice of a concatenation.
    joined = op("|", op("<<", x, n(8)), y)
    assert m.truncated(8, op(">>", joined, n(8))) is x
    assert m.truncated(4, op(">>", joined, n(4))) is op(">>", y, n(4))
    # Nothing shifted, ones that are there already, what is out of bounds.
    assert op("<<", n(0), x) is n(0)
    assert op("|", x, n(255)) is n(255)
    assert m.less(n(255), x) is d.false


def test_numbers_show_a_difference_or_that_none_was_found() -> None:
    d = Diagrams()
    x, y = d.term("field", "x", 8), d.term("field", "y", 8)
    double, twice = d.term("+", x, x), d.term("*", x, d.const(2))
    assert witness.shown(double, twice, []) is None
    assert witness.shown(double, x, [(d.term("==", x, d.const(7)), True)]) == {"x": 7}
    # The way asks for a sum, and for a part of a number.
    way = [
        (d.term("==", d.term("trunc", 8, d.term("+", x, y)), d.const(200)), True),
        (d.term("==", d.term(">>", y, d.const(4)), d.const(9)), True),
        (d.term("<", x, d.const(0x31)), False),
    ]
    found = witness.shown(d.const(0), d.const(1), way)
    assert found and (found["x"] + found["y"]) % 256 == 200
    assert found["y"] >> 4 == 9 and found["x"] >= 0x31
    # An undefined term shows nothing.
    assert witness.shown(d.term("undefined", None), x, []) is None
    on_it = [(d.term("==", d.term("undefined", None), d.const(1)), True)]
    assert witness.shown(d.const(0), d.const(1), on_it) is None
    assert "invalid header" in witness.unshown(on_it)


def test_comparisons_have_one_form() -> None:
    d = Diagrams()
    m = Arithmetic(d)
    bit = d.term("field", "bit", 1)
    assert m.equal(bit, d.const(0)) is d.negated(m.equal(bit, d.const(1)))
    x = d.term("field", "x", 8)
    assert m.less(d.const(0), x) is d.negated(m.equal(x, d.const(0)))
    assert m.equal(x, d.const(256)) is d.false


def test_names_of_nested_fields() -> None:
    assert list(plain_names(["outer.inner.x", "x1"]).values()) == ["outer_inner_x", "x1"]
    flattened = ["_outer_x0", "_admit_l31", "_ip_v62", "_z13"]
    assert list(plain_names(flattened).values()) == ["outer_x", "admit_l3", "ip_v6", "z1"]


def two_steps() -> Json:
    """tmp = h.a + 1; h.b = tmp, in two code tables."""
    first = action(0, "m1", assign("scalars", "tmp", op("+", field("h", "a"), number(1))))
    second = action(1, "m2", assign("h", "b", field("scalars", "tmp")))
    return program(
        [first, second],
        [code("tbl_m1", first, "tbl_m2"), code("tbl_m2", second, None)],
        first="tbl_m1",
        scalars=[("tmp", 8)],
    )


def test_code_may_be_cut_in_other_pieces_and_use_other_locals() -> None:
    value = op("&", op("+", number(1), field("h", "a")), number(0xFF))
    only = action(0, "act", assign("h", "b", value))
    other = program([only], [code("tbl_act", only, None)], first="tbl_act")
    assert places(two_steps(), other) == set()


def test_another_value_is_found_with_both_terms() -> None:
    only = action(0, "act", assign("h", "b", op("+", field("h", "a"), number(2))))
    other = program([only], [code("tbl_act", only, None)], first="tbl_act")
    (found,) = compared(two_steps(), other).differences
    assert (found.section, found.path) == ("ingress", "h.b if ==(h.$valid$, 1)")
    assert found.left != found.right and "h.a" in found.left


def guarded(first: Json, second: Json) -> Json:
    """if (first && second) h.b = 1, as two conditions."""
    set_b = action(0, "act", assign("h", "b", number(1)))
    return program(
        [set_b],
        [code("tbl_act", set_b, None)],
        [condition("n0", first, "n1", None), condition("n1", second, "tbl_act", None)],
        first="n0",
    )


def test_conditions_may_be_asked_in_any_order() -> None:
    a = op("==", field("h", "a"), number(1))
    b = op("<", field("h", "c"), number(9))
    assert places(guarded(a, b), guarded(b, a)) == set()
    together = guarded(op("and", b, a), op("not", None, op("not", None, b)))
    assert places(guarded(a, b), together) == set()
    weaker = op("<=", field("h", "c"), number(9))
    assert places(guarded(a, b), guarded(a, weaker)) == {"ingress"}


def lookup(key: str = "a", kind: str = "exact", size: int = 1024, data: int = 8) -> Json:
    set_b = action(
        0,
        "I.set",
        assign("h", "b", {"type": "runtime_data", "value": 0}),
        data=(("v", data),),
    )
    nothing = action(1, "NoAction")
    made = table("I.t", [("h", key, kind)], [set_b, nothing], {}, None)
    made["max_size"] = size
    return program([set_b, nothing], [made], first="I.t")


@pytest.mark.parametrize(
    ("other", "where"),
    [
        (lookup(key="b"), {"tables", "ingress"}),
        (lookup(kind="ternary"), {"tables"}),
        (lookup(size=64), {"tables"}),
        (lookup(data=7), {"tables", "ingress"}),
    ],
)
def test_what_the_control_plane_sees_of_a_table_counts(other: Json, where: set[str]) -> None:
    assert places(lookup(), copy.deepcopy(lookup())) == set()
    assert places(lookup(), other) == where


def test_entries_and_the_default_count() -> None:
    entry = {
        "match_key": [{"match_type": "exact", "key": "0x01"}],
        "action_entry": {"action_id": 0, "action_data": ["0x2"]},
        "priority": 1,
    }
    one, two, three = lookup(), lookup(), lookup()
    one["pipelines"][0]["tables"][0]["entries"] = [entry]
    two["pipelines"][0]["tables"][0]["entries"] = [
        {**entry, "match_key": [{"match_type": "exact", "key": "0x1"}]}
    ]
    three["pipelines"][0]["tables"][0]["default_entry"]["action_const"] = True
    assert places(one, two) == set()
    assert places(one, lookup()) == {"tables"}
    assert places(lookup(), three) == {"tables"}


def test_a_range_over_everything_that_p4c_writes_as_nothing_has_a_reason() -> None:
    def ranged(end: str, action: int = 0) -> Json:
        made = lookup(kind="range")
        key = {"match_type": "range", "start": "0x00", "end": end}
        chosen = {"action_id": action, "action_data": ["0x2"]}
        entry = {"match_key": [key], "action_entry": chosen, "priority": 1}
        made["pipelines"][0]["tables"][0]["entries"] = [entry]
        return made

    assert reasons(ranged("0xffffffff"), ranged("0x00")) == {WHOLE_RANGE}
    assert reasons(ranged("0xffffffffffff"), ranged("0xffff")) == {WHOLE_RANGE}
    assert reasons(ranged("0xffffffff"), ranged("0x01")) == {""}
    assert reasons(ranged("0xffffffff"), ranged("0x00", 1)) == {""}


def test_where_a_table_of_members_goes_on_after_a_miss_counts() -> None:
    def missing(follower: str | None) -> Json:
        looked, add = lookup(), action(2, "add", assign("h", "a", number(1)))
        indirect = looked["pipelines"][0]["tables"][0]
        del indirect["default_entry"]
        indirect["base_default_next"] = follower
        indirect["next_tables"] = {"I.set": None, "NoAction": "tbl_add"}
        actions, tables = looked["actions"], [indirect, code("tbl_add", add, None)]
        return program([*actions, add], tables, first="I.t")

    assert places(missing(None), missing(None)) == set()
    assert places(missing(None), missing("tbl_add")) == {"ingress"}


def reasons(left: Json, right: Json) -> set[str]:
    return {d.reason for d in compared(left, right).differences}


def test_enums_that_one_program_lists_have_a_reason() -> None:
    with_enum = lookup()
    with_enum["enums"] = [{"name": "Kind", "entries": [["A", 0], ["B", 1]]}]
    assert reasons(with_enum, lookup()) == {ENUM}


def test_a_table_that_no_packet_reaches_has_a_reason() -> None:
    """With all that belongs to it; `h.a < 0` is no condition that p4c leaves in."""

    def tested(least: int) -> Json:
        made = lookup()
        made["pipelines"][0]["conditionals"] = [
            condition("n0", op("<", field("h", "a"), number(least)), "I.t", None)
        ]
        made["pipelines"][0]["init_table"] = "n0"
        made["counter_arrays"] = [{"name": "I.c", "is_direct": True, "binding": "I.t"}]
        return made

    without = program(first=None)
    assert reasons(tested(0), without) == {IDLE}
    assert "" in reasons(tested(1), without)


def test_what_an_invalid_header_holds_after_a_copy_is_not_defined() -> None:
    """local = h; t.apply() with a key of local or h."""

    def looked(key: str) -> Json:
        made = lookup()
        made["headers"].append({"name": "v_0", "id": 2, "header_type": "h_t", "metadata": False})
        header = {"type": "header", "value": "v_0"}, {"type": "header", "value": "h"}
        copied = action(7, "copy", {"op": "assign_header", "parameters": list(header)})
        made["actions"].append(copied)
        pipeline = made["pipelines"][0]
        pipeline["tables"][0]["key"][0]["target"] = [key, "a"]
        pipeline["tables"].append(code("tbl_copy", copied, "I.t"))
        pipeline["init_table"] = "tbl_copy"
        return made

    assert places(looked("h"), looked("v_0")) == set()
    other = looked("v_0")
    other["actions"][-1]["primitives"] = [assign("v_0", "a", number(1))]
    assert places(looked("h"), other) == {"ingress"}


def registers(*writes: tuple[str, int]) -> Json:
    steps = [
        {
            "op": "register_write",
            "parameters": [{"type": "register_array", "value": r}, number(0), number(v)],
        }
        for r, v in writes
    ]
    only = action(0, "act", *steps)
    made = program([only], [code("tbl_act", only, None)], first="tbl_act")
    made["register_arrays"].append({"name": "s", "id": 1, "size": 4, "bitwidth": 8})
    return made


def test_the_order_of_effects_counts_on_one_object_only() -> None:
    assert places(registers(("r", 1), ("s", 2)), registers(("s", 2), ("r", 1))) == set()
    assert places(registers(("r", 1), ("r", 2)), registers(("r", 2), ("r", 1))) == {"ingress"}
    assert places(registers(("r", 1)), registers()) == {"ingress"}


def test_a_loop_is_run_as_often_as_it_goes_round() -> None:
    i = field("scalars", "i")
    loop = action(
        0,
        "act",
        assign("scalars", "i", number(0)),
        {"op": "_jump_if_zero", "parameters": [op("<", i, number(3)), number(5)]},
        assign("h", "a", op("+", field("h", "a"), i)),
        assign("scalars", "i", op("+", i, number(1))),
        {"op": "_jump", "parameters": [number(1)]},
    )
    flat = action(0, "act", assign("h", "a", op("+", field("h", "a"), number(3))))
    made = [
        program([a], [code("tbl", a, None)], first="tbl", scalars=[("i", 8)]) for a in (loop, flat)
    ]
    assert places(*made) == set()
    endless = copy.deepcopy(made[0])
    endless["actions"][0]["primitives"][3]["parameters"][1] = i
    assert compared(endless, made[1]).not_compared


def parser(*states: Json) -> Json:
    return program(states=list(states))


def test_parser_states_may_be_split_and_renamed() -> None:
    whole = parser(
        state(
            "start",
            [extract("h")],
            [field("h", "a")],
            transition(1, "more"),
            transition(None, None),
        ),
        state(
            "more",
            [{"op": "set", "parameters": [field("h", "b"), number(5)]}],
            [],
            transition(None, None),
        ),
    )
    split = parser(
        state("begin", [], [], transition(None, "get")),
        state("get", [extract("h")], [field("h", "a")], transition(1, "x"), transition(None, None)),
        state(
            "x",
            [{"op": "set", "parameters": [field("h", "b"), number(5)]}],
            [],
            transition(None, "y"),
        ),
        state("y", [], [], transition(None, None)),
    )
    assert places(whole, split) == set()
    other = copy.deepcopy(split)
    other["parsers"][0]["parse_states"][1]["transitions"][0]["value"] = "0x2"
    assert places(whole, other) == {"parsers"}


END = transition(None, None)


def test_a_choice_between_the_same_states_is_none() -> None:
    more = state("more", [extract("h")], [], END)
    begin = "start", [extract("h")], [field("h", "a")]
    chosen = parser(state(*begin, transition(1, "more"), transition(None, "more")), more)
    straight = parser(state("start", [extract("h")], [], transition(None, "more")), more)
    other = parser(state(*begin, transition(1, "more"), END), more)
    assert places(chosen, straight) == set()
    assert places(chosen, other) == {"parsers"}


def test_cases_that_lead_to_one_state_are_no_choice_for_p4c() -> None:
    more = state("more", [extract("h")], [], END)
    begin = "start", [extract("h")], [field("h", "a")]
    asked = parser(state(*begin, transition(1, "more"), transition(2, "more")), more)
    unasked = parser(state("start", [extract("h")], [], transition(None, "more")), more)
    assert reasons(asked, unasked) == {ONE_WAY}
    # Also when it is known that none matches, and where another case is never reached.
    zero = {"op": "set", "parameters": [field("h", "a"), number(0)]}
    ways = transition(1, "more"), transition(1, None)
    known = parser(state("start", [extract("h"), zero], [field("h", "a")], *ways), more)
    unknown = parser(state("start", [extract("h"), zero], [], transition(None, "more")), more)
    assert reasons(known, unknown) == {ONE_WAY}
    two = parser(state(*begin, transition(1, "more"), transition(2, None)), more)
    assert "" in reasons(two, unasked)


def test_an_error_without_match_may_be_written_as_a_state() -> None:
    verify = {"op": "verify", "parameters": [{"type": "bool", "value": False}, number(2)]}
    begin = "start", [extract("h")], [field("h", "a")], transition(1, "more")
    more = state("more", [extract("h")], [], END)
    silent = parser(state(*begin), more)
    written = parser(
        state(*begin, transition(None, "last")), more, state("last", [verify], [], END)
    )
    for each in (silent, written):
        each["errors"] = [["NoError", 0], ["PacketTooShort", 1], ["NoMatch", 2]]
    assert reasons(silent, written) == set()
    written["errors"] = [["NoError", 0], ["PacketTooShort", 1], ["Other", 2]]
    assert "" in reasons(silent, written)


def test_a_choice_that_only_one_parser_makes() -> None:
    """One has two states that do the same, as p4c makes of `?`."""
    set_b = {"op": "set", "parameters": [field("h", "b"), number(5)]}
    last = state("x", [set_b], [], END)
    rest = [extract("h")], [field("h", "c")], transition(1, "x"), END
    split = parser(
        state(
            "start", [extract("h")], [field("h", "a")], transition(1, "l"), transition(None, "r")
        ),
        *(state("l", *rest), state("r", *rest), last),
    )
    straight = parser(
        state("start", [extract("h")], [], transition(None, "l")), state("l", *rest), last
    )
    assert places(split, straight) == set()


def test_a_comparison_that_gives_up_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of two parsers counts its rounds."""
    i = field("scalars", "i")
    count = {"op": "set", "parameters": [i, op("+", i, number(1))]}

    def looping(*ops: Json) -> Json:
        keys = [field("h", "a")]
        again = state("start", [extract("h"), *ops], keys, transition(1, "start"), END)
        return program(states=[again], scalars=[("i", 32)])

    monkeypatch.setattr("compare.parsers.VISITS", 5)
    (found,) = compared(looping(count), looping()).not_compared
    assert found[0] == "parsers" and "more than 5 ways" in found[1]


def test_a_loop_whose_variables_are_other_bits_in_every_round_ends() -> None:
    """One parser keeps a field in a local, as p4c's inlined sub-parsers do."""
    keep = {"op": "set", "parameters": [field("scalars", "kept"), field("h", "a")]}
    ways = transition(1, "start"), END
    direct = program(states=[state("start", [extract("h")], [field("h", "a")], *ways)])
    kept = [field("scalars", "kept")]
    local = program(
        states=[state("start", [extract("h"), keep], kept, *ways)], scalars=[("kept", 8)]
    )
    assert places(direct, local) == set()
    other = copy.deepcopy(local)
    keep_b = {"op": "set", "parameters": [field("scalars", "kept"), field("h", "b")]}
    other["parsers"][0]["parse_states"][0]["parser_ops"][1] = keep_b
    assert places(direct, other) == {"parsers"}


def test_what_is_extracted_counts_not_the_names_of_types() -> None:
    """An extraction to nowhere is an advance in one program, and one to a local in the other."""
    skipped = program(
        states=[
            state("start", [{"op": "advance", "parameters": [number(32)]}, extract("h")], [], END)
        ]
    )
    extracted = program(states=[state("start", [extract("tmp_1"), extract("h")], [], END)])
    extracted["header_types"].append({**extracted["header_types"][1], "name": "other_t"})
    local = {"name": "tmp_1", "id": 2, "header_type": "other_t", "metadata": False}
    extracted["headers"].append(local)
    assert places(skipped, extracted) == set()
    less = copy.deepcopy(skipped)
    less["parsers"][0]["parse_states"][0]["parser_ops"][0]["parameters"] = [number(24)]
    assert places(less, extracted) == {"parsers"}


def test_unions_of_a_stack_are_extracted_one_after_the_other() -> None:
    def twice(*members: str) -> Json:
        ops = [
            {"op": "extract", "parameters": [{"type": "union_stack", "value": ["u", member]}]}
            for member in members
        ]
        made = program(states=[state("start", ops, [], END)])
        names = [f"u[{i}].{member}" for i in (0, 1) for member in ("x", "y")]
        made["headers"] += [
            {"name": name, "id": 2 + n, "header_type": "h_t", "metadata": False}
            for n, name in enumerate(names)
        ]
        made["header_unions"] = [
            {"name": f"u[{i}]", "id": i, "union_type": "u_t", "header_ids": [2 + 2 * i, 3 + 2 * i]}
            for i in (0, 1)
        ]
        made["header_union_stacks"] = [{"name": "u", "id": 0, "header_union_ids": [0, 1]}]
        made["deparsers"][0]["order"] += names
        return made

    assert places(twice("x", "y"), twice("x", "y")) == set()
    assert places(twice("x", "y"), twice("y", "x")) == {"parsers"}
    # A third one does not fit.
    assert places(twice("x", "y", "x"), twice("x", "y")) == {"parsers"}


def test_two_headers_of_one_name_are_not_usable(tmp_path: Path) -> None:
    twice = lookup()
    twice["headers"].append({**twice["headers"][1], "id": 5})
    path = tmp_path / "twice.json"
    path.write_text(json.dumps(twice))
    with pytest.raises(Unusable, match=r"twice.json: it declares the header h 2 times"):
        read(path)


def test_what_no_comparison_expects_is_told(tmp_path: Path) -> None:
    """p4c's conditions on elements of a stack, and something worse."""
    element = {"type": "expression", "value": {"op": "dereference_header_stack"}}
    strange = field("h", "a")
    strange["value"][0] = element
    paths = [tmp_path / name for name in ("strange", "usual", "broken")]
    made = guarded(op("==", strange, number(1)), op("==", field("h", "b"), number(1)))
    usual = guarded(*2 * [op("==", field("h", "b"), number(1))])
    for path, content in zip(paths, (made, usual, {**usual, "actions": [{"id": 0}]}), strict=True):
        path.write_text(json.dumps(content))
    verdict, _, message = judged(paths[0], paths[1], 1000)
    assert (verdict, message) == ("not usable", "it has a field whose header is an expression")
    verdict, _, message = judged(paths[2], paths[1], 1000)
    assert verdict == "not usable" and message.startswith("KeyError: 'primitives' (")


def test_masks_of_transitions() -> None:
    def masked(value: int, mask: int | None) -> Json:
        return parser(
            state(
                "start",
                [extract("h")],
                [field("h", "a")],
                transition(value, "x", mask),
                transition(None, None),
            ),
            state("x", [extract("h")], [], transition(None, None)),
        )

    assert places(masked(1, None), masked(1, 0xFF)) == set()
    assert places(masked(0x11, 0x0F), masked(0x21, 0x0F)) == set()
    assert places(masked(1, None), masked(1, 0x0F)) == {"parsers"}


def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left, right, broken = (tmp_path / n for n in ("l.json", "r.json", "b.json"))
    left.write_text(json.dumps(lookup()))
    right.write_text(json.dumps(lookup(size=64)))
    broken.write_text("{}")
    assert cli.main([str(left), str(left)]) == 0
    assert cli.main([str(left), str(right)]) == 1
    assert "max_size" in capsys.readouterr().out
    assert cli.main([str(left), str(broken)]) == 2
    assert "b.json" in capsys.readouterr().err


def test_a_missing_compiler_is_a_visible_skip(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    programs = tmp_path / "list"
    programs.write_text("a.p4\t-I x\n")
    assert cli.main(["--programs", str(programs), "--left", "sh", "--right", "no-such-p4c"]) == 2
    assert capsys.readouterr().out == "skipped: no-such-p4c is not on PATH\n"


def test_the_runner_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Compilers that copy a file of their own beside the program, or refuse."""
    for side, size in (("left", 1024), ("right", 64)):
        (tmp_path / f"same.p4.{side}").write_text(json.dumps(lookup()))
        (tmp_path / f"other.p4.{side}").write_text(json.dumps(lookup(size=size)))
        compiler = tmp_path / side
        compiler.write_text(f'#!/bin/sh\n[ "$1" = -o ] && cp "$3.{side}" "$2"\n')
        compiler.chmod(0o755)
    (tmp_path / "one.p4.left").write_text(json.dumps(lookup()))
    programs, report = tmp_path / "list", tmp_path / "report"
    programs.write_text("".join(f"{tmp_path / n}.p4\t\n" for n in ("same", "other", "one", "none")))
    options = ["--programs", str(programs), "--report", str(report), "--jobs", "1"]
    sides = ["--left", str(tmp_path / "left"), "--right", str(tmp_path / "right")]
    assert cli.main([*options, *sides]) == 1
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == "4 programs: 1 equal, 1 different, 1 left only, 1 refused"
    assert [line.split() for line in lines if line.startswith("tables")] == [
        ["tables", "1", "0", "1", "0"]
    ]
    assert "I.t max_size" in report.read_text()
