"""Why ways may differ although nobody is wrong. Every use is printed with the result."""

from __future__ import annotations

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

KNOWN: dict[str, str] = {}
"""By name of the program without its ending."""

ONLY_OURS = {
    "BMV2 does not support for-in loops": "`for (.. in ..)` loops, which p4c has not for BMv2",
    "Compiler Bug": "p4c ends with an error of its own",
    "expected an integer value": "p4c does not fold a serializable enum's value without a name",
}
"""What only ebb-p4c takes (docs/p4c.md), by words of p4c's message."""


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


def excused(message: str) -> str:
    """Why p4c may refuse what ebb-p4c takes; empty if there is no reason."""
    return next((reason for words, reason in ONLY_OURS.items() if words in message), "")
