"""Flows of a run as they end: the records of both ends become a row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from ipaddress import ip_address
from sys import intern
from typing import Any

from ebb_topologies.dilation import Dilation
from ebb_topologies.model import Topology

from ebb_experiments.results.tables import BY_RECEIVER, BY_SENDER, PAYLOAD, Kind, Row, Rows

Line = dict[str, Any]
SHARED = ("send-one-to-many", "fetch-many-to-one")
"""Kinds of transfers that have flows with more than two ends."""
ORDER = ("transfer", "destination", "source")
UNFINISHED = "unfinished at the end of the run: "
"""How the reason of a transfer begins that has neither arrived nor failed."""


def unheard(schedule: Iterable[Line], lines: Iterable[Line], until_ns: float) -> list[Line]:
    """Lines for the transfers that were to start until `until_ns` and have none in `lines`: the
    agent that should have written it may have died."""
    known = {line.get("transfer") for line in lines}
    return [
        {key: each[key] for key in ("job", "traffic", "kind", "bytes")}
        | {"event": "transfer", "transfer": each["id"], "status": "unfinished"}
        | {"reason": f"{UNFINISHED}no agent tells of it"}
        for each in schedule
        if each["id"] not in known and each["start_ns"] <= until_ns
    ]


@dataclass(slots=True)
class End:
    """Record of a flow at one end: the part of its line that a row needs."""

    transfer: int
    job: int
    traffic: str
    kind: str
    bytes: int
    stream_bytes: int
    local: str
    peer: str
    session: int
    offered_at_ns: int | None
    started_at_ns: int
    finished_at_ns: int
    role: str
    status: str
    reason: str | None
    intact: bool | None
    counts: tuple[int, ...]
    """Counts of `BY_SENDER` or `BY_RECEIVER`, in their order."""
    payload: int
    """`PAYLOAD`, which only a sender counts."""
    skipped: bool
    """Whether it has been skipped (docs/simulation.md)."""
    senders: tuple[str, ...]
    """Addresses of the senders, at the receiver of an object from several; otherwise empty."""

    @classmethod
    def of(cls, line: Line) -> End:
        """The end that a line of an agent or simulator reports."""
        role = intern(line["role"])
        return cls(
            transfer=line["transfer"],
            job=line["job"],
            traffic=intern(line["traffic"]),
            kind=intern(line["kind"]),
            bytes=line["bytes"],
            stream_bytes=line["stream_bytes"],
            local=intern(line["local"]),
            peer=intern(line["peer"]),
            session=line["session"],
            offered_at_ns=line["offered_at_ns"],
            started_at_ns=line["started_at_ns"],
            finished_at_ns=line["finished_at_ns"],
            role=role,
            status=intern(line["status"]),
            reason=line.get("reason"),
            intact=line.get("sha256_ok"),
            counts=tuple(line[key] for key in (BY_SENDER if role == "sender" else BY_RECEIVER)),
            payload=line[PAYLOAD] if role == "sender" else 0,
            skipped="skipped" in line,
            senders=tuple(each["peer"] for each in line.get("senders", ())),
        )


class FlowTable:
    """A row for each object at each of its destinations, and for each transfer that came to none.

    Each end of a flow writes a record; the sender's address and the session identify it in both. An
    object fetched from several hosts is one flow at the receiver, whose record lists the senders,
    and one at each of them. A flow with two ends becomes a row with its second record; the others
    wait for the end of the run.
    """

    def __init__(
        self, topology: Topology, dilation: Dilation, head: Row, kind: Kind = Rows
    ) -> None:
        self._names = {host.ip: host.name for host in topology.endpoints}
        self._dilation = dilation
        self._head = head
        self._kind = kind
        self._half: dict[tuple[str, int], End] = {}
        """Ends of flows with two ends, of which the other has not reported yet, by the sender's
        address and session."""
        self._shared: list[End] = []
        self._without_flow: list[Line] = []
        self._open: list[Line] = []

    @cached_property
    def _rows(self) -> Rows:
        return self._kind("flows")

    def append(self, line: Line) -> None:
        """Takes a `flow`, `open` or `transfer` line of the simulator or of an agent, in any
        order."""
        if line["event"] == "transfer":
            self._without_flow.append(line)
            return
        if line["event"] == "open":
            self._open.append(line)
            return
        if line["event"] != "flow" or line.get("transfer") is None:
            return
        end = End.of(line)
        if end.kind in SHARED:
            self._shared.append(end)
            return
        key = (end.local if end.role == "sender" else end.peer, end.session)
        other = self._half.get(key)
        if other is None or other.role == end.role:
            self._half[key] = end
            return
        del self._half[key]
        sender, receiver = (end, other) if end.role == "sender" else (other, end)
        self._add(receiver, [sender])

    def table(self, until_ns: int = 0) -> Rows:
        """The rows at the end of the run, which was at `until_ns`; their order does not depend on
        that of the lines."""
        self._match([*self._shared, *self._half.values()])
        self._shared, self._half = [], {}
        for line in self._open:
            self._rows.append(self._head | _open_row(line, until_ns, self._names, self._dilation))
        self._open = []
        if self._without_flow:
            known = set(self._rows.column("transfer"))
            for line in sorted(self._without_flow, key=_ignorance):
                if line["transfer"] not in known:
                    known.add(line["transfer"])
                    self._rows.append(self._head | _transfer_row(line, self._dilation))
        self._without_flow = []
        self._rows.sort(*ORDER)
        return self._rows

    def _match(self, ends: list[End]) -> None:
        senders = [end for end in ends if end.role == "sender"]
        by_session: dict[tuple[str, int], list[End]] = {}
        for end in senders:
            by_session.setdefault((end.local, end.session), []).append(end)
        by_ends = {(end.local, end.peer, end.transfer): end for end in senders}
        met: set[int] = set()
        receivers = [end for end in ends if end.role == "receiver"]
        for end in sorted(receivers, key=lambda end: (end.transfer, end.local)):
            # A straggler has been sent to with its group, and by a flow of its own of one session.
            of_session = by_session.get((end.peer, end.session), [])
            sent = [
                s for s in of_session if s.peer == end.local or len(of_session) == 1 or _group(s)
            ]
            each = ((peer, end.local, end.transfer) for peer in end.senders)
            sent += [by_ends[key] for key in each if key in by_ends]
            found = list({id(sender): sender for sender in sent}.values())
            self._add(end, found, {id(sender) for sender in found} - met)
            met.update(id(sender) for sender in found)
        for sender in senders:
            if id(sender) not in met:
                self._add(None, [sender])

    def _add(self, received: End | None, sent: list[End], new: set[int] | None = None) -> None:
        """Adds rows for a flow. `new`: identities of its senders that are in no row yet;
        none: all of them."""
        row = self._head | _flow_row(received, sent, self._names, self._dilation)
        first = [end.payload for end in sent if new is None or id(end) in new]
        self._rows.append(row | {PAYLOAD: sum(first) if first else None})


def _flow_row(
    received: End | None, sent: list[End], names: Mapping[str, str], dilation: Dilation
) -> Row:
    ends = [*sent, *([received] if received else [])]
    either = received or sent[0]
    sources = [end.local for end in sent] or [either.peer]
    destination = received.local if received else either.peer
    offered = next((end.offered_at_ns for end in ends if end.offered_at_ns is not None), None)
    started = min(end.started_at_ns for end in ends)
    reasons = [
        f"{end.role}: {end.reason or end.status}"
        for end in ends
        # A receiver that has all does not need every one of its senders.
        if end.status != "finished" and (end is received or len(sent) == 1)
    ]
    if received is None and not reasons:
        reasons = ["receiver: no record of this flow"]
    if received is not None and received.intact is False:
        reasons.append("receiver: not what was sent")
    times = {"offered_at_ns": offered, "started_at_ns": started}
    if received is not None and not reasons:
        begun = started if offered is None else offered
        finished = received.finished_at_ns
        times |= {"finished_at_ns": finished, "fct_ns": finished - begun}
    by_sender = [sum(counts) for counts in zip(*(end.counts for end in sent), strict=True)]
    return {
        **{key: getattr(either, key) for key in ("transfer", "job", "traffic", "kind", "bytes")},
        "stream_bytes": either.stream_bytes,
        "source": _named(sources, names),
        "destination": _named([destination], names),
        **{key: None if at is None else dilation.nominal_time(at) for key, at in times.items()},
        "status": "failed" if reasons else "finished",
        "reason": dilation.nominal_text("; ".join(reasons)) or None,
        **(dict(zip(BY_SENDER, by_sender, strict=True)) if sent else {}),
        **(dict(zip(BY_RECEIVER, received.counts, strict=True)) if received else {}),
        **({"skipped": 1} if either.skipped else {}),
    }


def _open_row(line: Line, until_ns: int, names: Mapping[str, str], dilation: Dilation) -> Row:
    offered = line["offered_at_ns"]
    return {
        **{key: line[key] for key in ("transfer", "job", "traffic", "kind", "bytes")},
        "source": _named([line["peer"]], names),
        "destination": line["host"],
        "offered_at_ns": None if offered is None else dilation.nominal_time(offered),
        "status": "unfinished",
        "reason": f"{UNFINISHED}{line['arrived_bytes']} of {line['bytes']} bytes have arrived",
        "arrived_bytes": line["arrived_bytes"],
        "open_ns": None if offered is None else dilation.nominal_time(until_ns - offered),
    }


def _group(sender: End) -> bool:
    """Whether a sender sent to a multicast address."""
    return ip_address(sender.peer.partition(":")[0]).is_multicast


def _named(ends: Iterable[str], names: Mapping[str, str]) -> str:
    """Names of hosts; the address of a group is left as it is."""
    addresses = (end.partition(":")[0] for end in ends)
    return " ".join(sorted({names.get(address, address) for address in addresses}))


def _ignorance(line: Line) -> tuple[bool, bool]:
    """Puts the line first of the host that knows most, of those that tell of a transfer under the
    wall clock: one that knows how it ended, even if that is only that what it waits for failed;
    and then the one that starts it."""
    return line["status"] == "unfinished", line.get("part") != "start"


def _transfer_row(line: Line, dilation: Dilation) -> Row:
    return {
        **{key: line[key] for key in ("transfer", "job", "traffic", "kind", "bytes")},
        "status": line["status"],
        "reason": dilation.nominal_text(line.get("reason") or "") or None,
    }
