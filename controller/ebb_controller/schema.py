"""finsy's schema of a program, with a cookie that does not take finsy to compute."""

from __future__ import annotations

from finsy.p4schema import P4Schema
from finsy.proto import p4i


class ProgramSchema(P4Schema):
    """Tables, actions and counters of a program by name and id."""

    def __init__(self, p4info: p4i.P4Info, json: bytes, cookie: int) -> None:
        """`json`: for the switch; `cookie`: by which switches know the program."""
        super().__init__(p4info, json)
        self._cookie = cookie

    @property
    def p4cookie(self) -> int:
        """The cookie of the program, as `Program.cookie` has it."""
        return self._cookie
