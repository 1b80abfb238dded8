"""Summary of a scheme in the rounds of its phases, from the tables of its results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean

from ebb_controller.drop_reason import named
from ebb_controller.mechanisms.counters import DROPPED
from ebb_controller.mechanisms.return_to_sender import RETURNED
from ebb_controller.mechanisms.trimming import TRIM_SENT, TRIMMED
from ebb_controller.mechanisms.void_frames import VOID_IN

from ebb_experiments.results.load import Load
from ebb_experiments.results.results import Results
from ebb_experiments.results.tables import BY_SENDER, PAYLOAD, Row

RETURN_REFUSED = named("return-refused")
NO_ROOM = named("not-trimmable", *RETURN_REFUSED)
"""Reasons of the program for packets that a queue had no room for."""
LINK_DROPS = ("link-down", "link-loss", "port-down")
"""Reasons of the switch for frames that a faulty link lost."""


@dataclass(frozen=True, slots=True)
class FabricCounts:
    """Sums over every port of the fabric during a phase; queues are those of the bottleneck, and
    None where switches report no queues (BMv2)."""

    max_queue_bytes: int | None
    average_queue_bytes: float | None
    dropped_packets: int
    """Packets dropped for want of room, by a queue or by the program that it handed them back
    to."""
    trimmed_packets: int
    trim_dropped_packets: int
    """Headers that reached neither the receiver nor, where they are returned, the sender."""
    returned_packets: int
    """Headers returned to their sender."""
    ce_marks: int
    link_lost_packets: int = 0
    """Packets lost on faulty links, as far as switches report them: BMv2 does not."""

    @classmethod
    def of(cls, results: Results) -> FabricCounts:
        """Counts of all switches in a round."""
        queues, drops = results.rows("queues"), results.rows("drops")
        trimmed = results.total(TRIMMED.name)
        if not queues:
            lost = _packets(drops, lambda row: True)
            trims_lost = trimmed - results.total(TRIM_SENT.name)
            return cls(None, None, lost, trimmed, trims_lost, 0, results.marks)
        bottleneck = busiest(results.flows)
        bottleneck = results.run.get("machines", {}).get(bottleneck, bottleneck)
        there = [row for row in queues if row["peer"] == bottleneck]
        counted = [row for row in results.rows("counters") if row["counter"] == DROPPED.name]
        refused = _packets(counted, lambda row: row["reason"] in RETURN_REFUSED)
        failed = _packets(drops, lambda row: row["reason"] == "deflect-failed")
        return cls(
            max_queue_bytes=max((row["max_depth_bytes"] for row in there), default=0),
            average_queue_bytes=sum(row["average_depth_bytes"] for row in there),
            dropped_packets=sum(row["dropped_packets"] for row in queues)
            + _packets(counted, lambda row: row["reason"] in NO_ROOM),
            trimmed_packets=trimmed,
            trim_dropped_packets=failed + refused,
            returned_packets=results.total(RETURNED.name),
            ce_marks=results.marks,
            link_lost_packets=_packets(drops, lambda row: row["reason"] in LINK_DROPS),
        )

    @classmethod
    def total(cls, counts: Sequence[FabricCounts]) -> FabricCounts:
        """Counts of several phases together: sums, the highest maximum, the mean of the
        averages."""
        highest = [c.max_queue_bytes for c in counts if c.max_queue_bytes is not None]
        averages = [c.average_queue_bytes for c in counts if c.average_queue_bytes is not None]
        return cls(
            max_queue_bytes=max(highest, default=None),
            average_queue_bytes=mean(averages) if averages else None,
            dropped_packets=sum(c.dropped_packets for c in counts),
            trimmed_packets=sum(c.trimmed_packets for c in counts),
            trim_dropped_packets=sum(c.trim_dropped_packets for c in counts),
            returned_packets=sum(c.returned_packets for c in counts),
            ce_marks=sum(c.ce_marks for c in counts),
            link_lost_packets=sum(c.link_lost_packets for c in counts),
        )


def _packets(rows: Iterable[Row], which: Callable[[Row], bool]) -> int:
    return sum(row["packets"] for row in rows if which(row))


def busiest(flows: Sequence[Row]) -> str | None:
    """The host that most flows go to, the first of several; none without flows."""
    counts = Counter(row["destination"] for row in flows if row["destination"] is not None)
    return counts.most_common(1)[0][0] if counts else None


@dataclass(frozen=True, slots=True)
class Round:
    """A phase that was run once."""

    phase: str
    flows: list[Row]
    fabric: FabricCounts
    load: Load | None = None
    """Load of the machine during the round; none: not measured."""
    sent: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Bytes that went from a switch to a neighbour, by the names of both; empty where the switches
    do not report their ports."""
    tenants: tuple[Row, ...] = ()
    """Rows of the table of packets between virtual machines; empty: there are none."""
    voids: tuple[int, int] = (0, 0)
    """Void frames that hosts sent, and those that their switches dropped and counted."""
    late_ns: float = 0.0
    """Greatest lateness of the processes on the path of a packet together, an agent and the
    switches: nominal."""
    depths: tuple[tuple[float, int], ...] = ()
    """Depth of all queues of the sampled port together, bytes, by nominal time in ns since the
    traffic began; empty: no port was sampled."""

    @classmethod
    def of(cls, results: Results) -> Round:
        """The round of these results."""
        load = Load.of(results.run["load"]) if "load" in results.run else None
        phase = results.run["phase"]
        ports = results.rows("ports") if "ports" in results.tables else []
        sent = {(row["switch"], row["peer"]): row["transmitted_bytes"] for row in ports}
        depths: Counter[float] = Counter()
        for row in results.rows("samples") if "samples" in results.tables else ():
            depths[row["at_ns"]] += row["depth_bytes"]
        tenants = tuple(results.rows("tenants")) if "tenants" in results.tables else ()
        late_ns = load.longest_ns / results.run["dilation"] if load else 0.0
        hosts = sum(each["void_frames"] for each in results.run.get("hypervisors", ()))
        return cls(
            phase,
            results.flows,
            FabricCounts.of(results),
            load,
            sent,
            tenants=tenants,
            voids=(hosts, results.total(VOID_IN.name)),
            late_ns=late_ns,
            depths=tuple(sorted(depths.items())),
        )

    @property
    def own(self) -> list[Row]:
        """The flows of the part of the workload that has the name of the phase; all, if none has:
        what a phase is about, without what crosses it."""
        return [row for row in self.flows if row["traffic"] == self.phase] or self.flows

    @property
    def sent_bytes(self) -> int:
        """Payload that the senders put on their links, repair symbols and repetitions included."""
        return total(self.own, PAYLOAD)

    @property
    def object_bytes(self) -> int:
        """Bytes that were to be sent, each object counted once."""
        return sum({row["transfer"]: row["bytes"] for row in self.own}.values())


@dataclass(frozen=True, slots=True)
class SchemeResult:
    """Results of one scheme."""

    rounds: list[Round]

    def of(self, phase: str) -> list[Round]:
        """Rounds of a phase, in order."""
        return [each for each in self.rounds if each.phase == phase]

    def one(self, phase: str) -> Round | None:
        """The first round of a phase; None: the scheme does not run it."""
        return next(iter(self.of(phase)), None)

    def fabric(self, *phases: str) -> FabricCounts:
        """Counts of these phases; with none named, of all."""
        chosen = [each for each in self.rounds if not phases or each.phase in phases]
        return FabricCounts.total([each.fabric for each in chosen])

    @property
    def flows(self) -> list[Row]:
        """Rows of the table `flows`, of all rounds."""
        return [flow for each in self.rounds for flow in each.flows]

    @property
    def loads(self) -> list[Load]:
        """Load of the machine in every round in which it was measured."""
        return [each.load for each in self.rounds if each.load is not None]


def total(flows: Iterable[Row], key: str) -> int:
    """Sum of a column that one end of each flow counts, over ends that have reported. Columns of
    senders are summed over rows with a payload, so that a sender to a group counts once."""
    counted = (flow for flow in flows if key not in BY_SENDER or flow[PAYLOAD] is not None)
    return sum(flow[key] or 0 for flow in counted)


def span_ns(flows: Sequence[Row]) -> float | None:
    """Nominal time from the first start to the last finish; none if a flow failed."""
    if not flows or any(flow["status"] != "finished" for flow in flows):
        return None
    begin = min(flow["started_at_ns"] for flow in flows)
    return float(max(flow["finished_at_ns"] for flow in flows) - begin)


def goodput_fraction(flows: Sequence[Row], rate_bps: int) -> float:
    """Object bits per second as a share of a line rate, from the first start to the last finish. An
    object that goes to several hosts counts once, if all of them have it."""
    failed = {flow["transfer"] for flow in flows if flow["status"] != "finished"}
    done = [flow for flow in flows if flow["transfer"] not in failed]
    span = span_ns(done)
    if not span:
        return 0.0
    objects = {flow["transfer"]: flow["bytes"] for flow in done}
    return float(sum(objects.values())) * 8e9 / span / rate_bps
