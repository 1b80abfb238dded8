"""Why ways may differ although nobody is wrong. Every use is printed with the result."""

from __future__ import annotations

import re

from .model import Program

CLOCKS = (
    "ingress_global_timestamp",
    "egress_global_timestamp",
    "intrinsic_metadata.ingress_global_timestamp",
    "intrinsic_metadata.egress_global_timestamp",
    "enq_timestamp",
    "deq_timedelta",
    "queueing_metadata.enq_timestamp",
    "queueing_metadata.deq_timedelta",
)
DEPTHS = (
    "enq_qdepth",
    "deq_qdepth",
    "queueing_metadata.enq_qdepth",
    "queueing_metadata.deq_qdepth",
)

P4C_RUNS_ONCE = "p4c runs the body of a `for` in an apply block once"
UNSET = "reads an `out` parameter that nothing has set"
KNOWN: dict[str, str] = {
    "acceptor": "a register of 256 bits: ebb-switch has up to 127 (docs/targets.md)",
    "gauntlet_short_circuit-bmv2": UNSET,
    "gauntlet_side_effect_order_3-bmv2": UNSET,
    "gauntlet_side_effects_in_mux-bmv2": UNSET,
    "gauntlet_switch_shadowing-bmv2": UNSET,
    "issue1607-bmv2": "p4c copies `stack.last` as a field, which ebb-switch has not",
    "loop-3-clause-tricky1": f"{P4C_RUNS_ONCE}; this one has no end",
    "loop-var-modifiable-in-body2": f"{P4C_RUNS_ONCE}; this one has no end",
    "match-on-exprs-bmv2": "p4c makes `& constant` of a key a mask, which BMv2 lays on entries too",
    "parser-inline-test13": "a sub-parser that is called twice and fails: p4c forgets its headers",
    "parser-unroll-test1": "casts a variable to `int`, which p4c takes",
    "resubmit": "resubmits 255 times, ebb-switch drops after 64 passes",
    "sdn-psfp": "opens and closes gates by the clock",
}
"""Why a program's ways differ, by its name without the ending."""

ONLY_OURS = {
    "BMV2 does not support for-in loops": "`for (.. in ..)` loops, which p4c has not for BMv2",
    "Compiler Bug": "p4c ends with an error of its own",
    "expected an integer value": "p4c does not fold a serializable enum's value without a name",
    "slice bit index values must be constants": "a slice whose place is known at run time only",
    "unsupported exact key expression": "a key of type `error`",
    ": expected a struct": "a hash of one value that is in no tuple",
    "Unsupported type argument for Value Set": "a value set of nested structs",
    "MyEnum: width not well-defined": "an enum without representation in metadata",
    "Expected 1 argument for mark_to_drop()": "`mark_to_drop()` without argument, as before 2019",
    "has an anonymous table property 'implementation'": "an action profile without a name",
}
"""Names for what only ebb-p4c takes (docs/p4c.md), by words of p4c's message."""


def legitimate(program: Program, same_outline: bool) -> str:
    """The reason why the program may send other frames each time; empty if there is none.

    What it reads from a clock or a queue may change bytes only, unless the program is KNOWN: ports
    and lengths are the same outline.
    """
    if program.says("modify_field_rng_uniform"):
        return "random()"
    if same_outline and program.says(*CLOCKS):
        return "reads the clock"
    if same_outline and program.says(*DEPTHS):
        return "reads the depth of a queue, which BMv2 fills faster"
    return ""


def has_odd_prefixes(program: Program) -> bool:
    """Whether a prefix is matched in a key of no whole bytes, which BMv2 pads in front."""
    keys = (key for table in program.tables.values() for key in table.keys)
    return any(key.kind == "lpm" and key.bits % 8 for key in keys)


def has_loops(source: str) -> bool:
    return re.search(r"\bfor\s*\(", source) is not None


def excused(message: str) -> str:
    """Why p4c may refuse what ebb-p4c takes; empty if there is no reason."""
    return next((reason for words, reason in ONLY_OURS.items() if words in message), "")


def hashes_copies(ours: Program, theirs: Program) -> bool:
    """Whether p4c hashes copies of header fields of which ours names the fields themselves.

    BMv2 leaves the fields of a header that is not valid out of a hash, but not copies of them; what
    such a hash is, the specification leaves open.
    """
    pairs = zip(ours.json["calculations"], theirs.json["calculations"], strict=False)
    for one, other in pairs:
        for here, there in zip(one["input"], other["input"], strict=False):
            if here["type"] == there["type"] == "field":
                in_header = not ours.is_metadata(here["value"][0])
                if in_header and theirs.is_metadata(there["value"][0]):
                    return True
    return False
