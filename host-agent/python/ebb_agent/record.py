"""The daemon's record of a flow that has ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Flow:
    """A flow that has ended: docs/agent-records.md."""

    role: str
    """Role of this host: `sender` or `receiver`."""
    scheme: str
    local: str
    peer: str
    name: str | None
    object_bytes: int | None
    stream_bytes: int
    duration_ns: int
    sha256_ok: bool | None
    status: str
    """How it ended: `finished` or `failed`."""
    reason: str | None
    """Why it failed, in words for people; none if it finished."""
    record: dict[str, Any] = field(repr=False)
    """The whole record of the daemon."""

    @classmethod
    def of(cls, record: dict[str, Any]) -> Flow:
        """From the JSON record of a flow (docs/agent-records.md)."""
        names = ("role", "scheme", "local", "peer", "name", "object_bytes", "stream_bytes")
        more = ("duration_ns", "sha256_ok", "status", "reason")
        return cls(**{key: record.get(key) for key in (*names, *more)}, record=record)  # type: ignore[arg-type]
