"""Checks after a tour: the papers' claims as far as this fabric can show them.

Each check says what it compared, so that a failure can be read without the table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from types import MappingProxyType

from ebb_controller.scheme import Scheme, known_schemes, load_scheme

from ebb_experiments.results.numbers import percentile
from ebb_experiments.results.tables import PAYLOAD, Row
from ebb_experiments.run.fault_runner import PhaseFaults
from ebb_experiments.tour import tenants
from ebb_experiments.tour.summary import Round, SchemeResult, span_ns, total

ONE_AFTER_ANOTHER = 0.75
"""Mean time of transfers of one size over the longest, at most: it is half and a little if each has
the whole link in its turn, and one if they share it."""
QUEUE_ORDER = ("tcp-droptail", "dctcp", "hull")
"""Schemes by their average queue in the incast, longest first (HULL sections 3.1 and 6.1)."""
SCAVENGED = {"tcp-trevi": "tcp-droptail", "dctcp-trevi": "dctcp"}
"""Schemes with a transport for storage that gives way, and those whose storage has the transport
of the foreground."""
UNHARMED = 1.1
"""Median time of the foreground beside storage that gives way, over the one beside storage that
does not, at most: it is less in virtual time, and start latencies of agents blur it on Mininet."""
STORAGE = "storage"
"""Part of the workload that schemes of the former kind carry."""
ONCE = 2.0
"""Bytes that a write to three replicas by multicast sends, over those of the object, at most: with
a tenth of coding, and what others leave no room for. A flow to each takes three times more."""
INCAST, WRITE, DEGRADED, FOREGROUND = "incast", "write", "degraded", "foreground"
REPLICATED = "replicated"
"""Phases that claims are about; a scenario may have others, or not these."""
SLOW_LINK, WHOLE_LINK = ("p0e0", "p0a0"), ("p0e0", "p0a1")
"""Links of the phase `degraded`: the first has a quarter of the rate of the second."""
ADAPTIVE_SHARES = (0.1, 0.3)
"""Share of the bytes that adaptive routing may give to the slow one, which has 0.2 of the rate of
both: a factor of 1.5 to either side. At the beginning no queue tells them apart."""
RANDOM_SHARES = (0.45, 0.55)
"""The same for a random choice: 5,400 packets, so 7 standard deviations to either side."""


@dataclass(frozen=True, slots=True)
class Check:
    """A claim about the schemes of a run, checked."""

    claim: str
    holds: bool | None
    """Whether it holds; none: skipped, because these switches cannot show it."""
    seen: str
    measured: frozenset[str] = frozenset()
    """Schemes whose times, queues and losses the check compares, which must be valid."""


NO_RATE = "BMv2 has no link rate (docs/targets.md)"


def checks(
    results: Mapping[str, SchemeResult],
    faults: Sequence[PhaseFaults] = (),
    disturbed: Collection[str] = (),
    by_kernel: Collection[str] = (),
    cut_off: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> Iterator[Check]:
    """Every check that the schemes that were run allow. Of phases that are disturbed by faults
    nothing is said about losses, queues and timeouts, which there have other causes than
    congestion; of those that the hosts' kernel plays nothing about timeouts, which its TCP avoids
    by means that the papers' has not (SACK, tail loss probes). `cut_off`: hosts, by phase, that
    faults cut off for good, so that nothing is expected to arrive there."""
    for name, result in results.items():
        flows = list(_reachable(result.rounds, cut_off))
        failed = [flow for flow in flows if flow["status"] != "finished"]
        seen = f"{len(flows)} flows"
        if failed:
            seen = f"{len(failed)} failed: {failed[0]['reason'] or failed[0]['status']}"
        yield Check(f"{name}: every object arrived with the right SHA-256", not failed, seen)
    yield from _faults(results, faults)
    yield from _lossless(results)
    yield from _degraded(results)
    yield from _tenants(results)
    whole = _without(results, disturbed)
    yield from _no_losses(whole)
    yield from _returns(whole)
    yield from _queue_order(whole)
    yield from _timeouts(_without(whole, by_kernel))
    yield from _shortest_first(whole)
    yield from _storage(whole)
    yield from _scavengers(whole)
    yield from _replicas(results, cut_off)


def _reachable(rounds: Sequence[Round], cut_off: Mapping[str, Collection[str]]) -> Iterator[Row]:
    """The flows between hosts that stayed."""
    for each in rounds:
        gone = cut_off.get(each.phase, ())
        yield from (
            f for f in each.flows if f["source"] not in gone and f["destination"] not in gone
        )


def _with(results: Mapping[str, SchemeResult], has: Callable[[Scheme], bool]) -> list[str]:
    """Schemes of the results whose files have a property; variants without a file have none."""
    known = known_schemes()
    return [name for name in results if name in known and has(load_scheme(name))]


def _overflows(scheme: Scheme) -> bool:
    """Whether it returns headers to their senders from a queue that is full after the initial
    window of one sender, so that any incast overflows it."""
    trimming = scheme.fabric.trimming
    if trimming is None or not trimming.return_to_sender:
        return False
    window = scheme.agent.get(scheme.transport, {}).get("initial_window_packets", 0)
    of_headers = {each.queue for each in scheme.fabric.classes if each.dscp == trimming.dscp_value}
    return any(
        queue.id in of_headers
        and queue.capacity_packets is not None
        and queue.capacity_packets <= window
        for queue in scheme.fabric.ports.queue
    )


def _trims(scheme: Scheme) -> bool:
    """Whether it trims and has room for the headers."""
    return scheme.fabric.trimming is not None and not _overflows(scheme)


def _is_lossless(scheme: Scheme) -> bool:
    """Whether all of its queues have flow control."""
    queues = scheme.fabric.ports.queue
    return bool(queues) and all(queue.lossless for queue in queues)


def _is_shortest_first(scheme: Scheme) -> bool:
    """Whether ports serve the flow with the smallest remaining size first, and hosts learn of
    drops only by timeouts."""
    return scheme.fabric.ports.rank is not None and scheme.fabric.drop_notification is None


def _notifies(scheme: Scheme) -> bool:
    """Whether senders are notified of drops in queues that serve packets as they came."""
    return scheme.fabric.drop_notification is not None and scheme.fabric.ports.rank is None


def _without(
    results: Mapping[str, SchemeResult], phases: Collection[str]
) -> dict[str, SchemeResult]:
    """Rounds in other phases than these."""
    return {
        name: SchemeResult(rounds)
        for name, result in results.items()
        if (rounds := [each for each in result.rounds if each.phase not in phases])
    }


def _faults(results: Mapping[str, SchemeResult], faults: Sequence[PhaseFaults]) -> Iterator[Check]:
    for name, result in results.items():
        phases = [phase for phase in faults if phase.scheme == name]
        if not phases:
            continue
        early = [phase.phase for phase in phases if phase.left_out]
        steps = sum(len(phase.done) for phase in phases)
        yield Check(
            f"{name}: every fault happened while the transfer was under way",
            not early,
            f"{steps} steps in {len(phases)} phases"
            if not early
            else f"{', '.join(early)} ended first: make the transfer longer or the faults earlier",
        )
        reroutes = [step for phase in phases for step in phase.done if step.reroute]
        if reroutes:
            took = [(step.ended_ns - step.planned_ns) / 1e6 for step in reroutes]
            yield Check(
                f"{name}: the controller reacted, and not before its delay was over",
                all(step.began_ns >= step.planned_ns for step in reroutes),
                f"{len(reroutes)} times; routes were in force {min(took):.1f} to {max(took):.1f} "
                "ms later",
            )
        fabric = result.fabric()
        lost = fabric.link_lost_packets
        if any(phase.breaks for phase in phases):
            tells = fabric.max_queue_bytes is not None
            yield Check(
                f"{name}: frames were lost on links that were down or lossy",
                lost > 0 if tells else None,
                f"{lost} frames" if tells else "BMv2 does not count them",
            )


def _no_losses(results: Mapping[str, SchemeResult]) -> Iterator[Check]:
    for name in _with(results, _trims):
        counts = results[name].fabric()
        dropped, lost_headers = counts.dropped_packets, counts.trim_dropped_packets
        yield Check(
            f"{name}: no packet lost without its header delivered",
            dropped == 0 and lost_headers == 0,
            f"{dropped} dropped, {lost_headers} trimmed headers lost",
            frozenset({name}),
        )


def _lossless(results: Mapping[str, SchemeResult]) -> Iterator[Check]:
    for name in _with(results, _is_lossless):
        counts = results[name].fabric()
        dropped, claim = counts.dropped_packets, f"{name}: no queue dropped a packet"
        if counts.max_queue_bytes is None:
            yield Check(claim, None, "BMv2 has no flow control (docs/targets.md)")
        else:
            yield Check(claim, dropped == 0, f"{dropped} dropped", frozenset({name}))


def _degraded(results: Mapping[str, SchemeResult]) -> Iterator[Check]:
    for name, claim, (low, high) in (
        ("detail", "packets take a slowed link as far as it has room", ADAPTIVE_SHARES),
        ("lps", "half of the packets wait for a slowed link", RANDOM_SHARES),
    ):
        if name in results and (once := results[name].one(DEGRADED)) is not None:
            slow, whole = (once.sent.get(link, 0) for link in (SLOW_LINK, WHOLE_LINK))
            share = slow / (slow + whole) if whole else 0.0
            seen = f"{share:.1%} of the bytes; the link has 20% of the rate of both"
            yield Check(f"{name}: {claim}", low <= share <= high, seen, frozenset({name}))


def _tenants(results: Mapping[str, SchemeResult]) -> Iterator[Check]:
    """Silo: a packet that conforms is never later than its bound, whatever others send; without
    guarantees it is, if somebody does not conform."""
    for name, result in results.items():
        told = list(tenants.bounds(result))
        sent, dropped = (sum(each.voids[n] for each in result.rounds) for n in (0, 1))
        if sent:
            # Hosts send some after the switches have been asked.
            claim = f"{name}: the first hop drops void frames and counts them"
            yield Check(claim, 0 < dropped <= sent, f"{dropped} of {sent}")
        attacked = any(not each.slowest.conforms for each in told)
        for each in told:
            if not each.slowest.conforms:
                continue
            match tenants.pacing(name):
                case "guarantee":
                    claim, holds = "no packet is later than its bound", each.holds
                case "none" if attacked:
                    claim = "without guarantees, packets are later than the bound"
                    holds = None if each.holds is None else not each.holds
                case _:
                    continue
            yield Check(f"{name}, tenant {each.slowest.tenant}: {claim}", holds, each.seen)


def _returns(results: Mapping[str, SchemeResult]) -> Iterator[Check]:
    for name in _with(results, _overflows):
        if results[name].of(INCAST):
            fabric = results[name].fabric(INCAST)
            back = fabric.returned_packets
            noticed = sum(total(each.flows, "returned") for each in results[name].of(INCAST))
            claim = f"{name}: headers without room were returned, and their senders got them"
            if fabric.max_queue_bytes is None:
                yield Check(claim, None, "BMv2 does not deflect (docs/trimming.md)")
            else:
                seen = f"{back} returned by the switches, {noticed} counted by senders"
                yield Check(claim, 0 < noticed <= back, seen, frozenset({name}))


def _queue_order(results: Mapping[str, SchemeResult]) -> Iterator[Check]:
    present = [name for name in QUEUE_ORDER if name in results and results[name].of(INCAST)]
    for longer, shorter in pairwise(present):
        high = results[longer].fabric(INCAST).average_queue_bytes
        low = results[shorter].fabric(INCAST).average_queue_bytes
        claim = f"{shorter}: average queue in the incast below {longer}'s"
        if low is None or high is None:
            yield Check(claim, None, NO_RATE)
        else:
            seen = f"{low / 1e3:.1f} KB against {high / 1e3:.1f} KB"
            yield Check(claim, low < high, seen, frozenset({longer, shorter}))


def _timeouts(results: Mapping[str, SchemeResult]) -> Iterator[Check]:
    for name in _with(results, _trims):
        if results[name].of(INCAST):
            count = _timeouts_of(results[name])
            claim = f"{name}: no timeout in the incast"
            yield Check(claim, count == 0, f"{count} timeouts", frozenset({name}))
    for name in _with(results, _notifies):
        if results[name].of(INCAST):
            count, fabric = _timeouts_of(results[name]), results[name].fabric(INCAST)
            # Drops in queues of these schemes are notified, all but those of notifications.
            lost = fabric.dropped_packets
            claim = f"{name}: no timeout in the incast, but for notifications without room"
            if fabric.max_queue_bytes is None:
                yield Check(claim, None, "BMv2 does not tell of drops (docs/targets.md)")
            else:
                seen = f"{count} timeouts, {lost} notifications lost"
                yield Check(claim, count <= lost, seen, frozenset({name}))
    if "tcp-droptail" in results and results["tcp-droptail"].of(INCAST):
        claim = "tcp-droptail: the incast does run into timeouts"
        count = _timeouts_of(results["tcp-droptail"])
        if results["tcp-droptail"].fabric(INCAST).max_queue_bytes is None:
            yield Check(claim, None, NO_RATE)
        else:
            yield Check(claim, count > 0, f"{count} timeouts", frozenset({"tcp-droptail"}))


def _shortest_first(results: Mapping[str, SchemeResult]) -> Iterator[Check]:
    """Checks of the incast, whose transfers all have one size, and of the longer one it meets."""
    for name in _with(results, _is_shortest_first):
        if not (rounds := results[name].of(INCAST)):
            continue
        before = f"{name}: the incast ends before the longer transfer that was there first"
        turns = f"{name}: the transfers of the incast end one after another"
        if results[name].fabric(INCAST).max_queue_bytes is None:
            yield from (Check(claim, None, NO_RATE) for claim in (before, turns))
            continue
        if any(span_ns(each.flows) is None for each in rounds):
            yield from (Check(claim, False, "a transfer failed") for claim in (before, turns))
            continue
        sooner = [_last(each.own) < _last(each.flows) for each in rounds]
        seen = f"{sum(sooner)} of {len(rounds)} times"
        yield Check(before, all(sooner), seen, frozenset({name}))
        times = [[flow["fct_ns"] for flow in each.own] for each in rounds]
        share = max(fmean(each) / max(each) for each in times)
        seen = f"mean time {share:.2f} of the longest at most"
        yield Check(turns, share < ONE_AFTER_ANOTHER, seen, frozenset({name}))


def _last(flows: Sequence[Row]) -> float:
    """When the last of them ended, none of which failed."""
    return float(max(flow["finished_at_ns"] for flow in flows))


def _timeouts_of(result: SchemeResult) -> int:
    """Timeouts of the flows that the incast is about."""
    return sum(total(each.own, "timeouts") for each in result.of(INCAST))


def _storage(results: Mapping[str, SchemeResult]) -> Iterator[Check]:
    """SCDP, section III: one multicast session carries the object over each link once."""
    if "scdp" not in results or (once := results["scdp"].one(WRITE)) is None:
        return
    replicas, sent = len(once.own), once.sent_bytes / once.object_bytes
    yield Check(
        f"scdp: a write to {replicas} replicas leaves the writer once, repair symbols included",
        0 < sent < 1.5,
        f"{sent:.2f} times the object sent",
    )
    if "ndp" not in results or (each := results["ndp"].one(WRITE)) is None:
        return
    claim = f"scdp: all {replicas} replicas have the object sooner than with ndp's flow to each"
    quick, slow = span_ns(once.own), span_ns(each.own)
    holds = quick is not None and slow is not None and quick < slow
    seen = [f"{span / 1e6:.1f} ms" if span is not None else "failed" for span in (quick, slow)]
    yield Check(claim, holds, " against ".join(seen), frozenset({"ndp", "scdp"}))


def _scavengers(results: Mapping[str, SchemeResult]) -> Iterator[Check]:
    """Trevi: storage gives way to the foreground and arrives nevertheless (Moncaster 4.4)."""
    for name, plain in SCAVENGED.items():
        if name not in results or not (rounds := results[name].of(FOREGROUND)):
            continue
        stored = [f for each in rounds for f in each.flows if f["traffic"] == STORAGE]
        ended = sum(flow["status"] == "finished" for flow in stored)
        claim = f"{name}: all of the storage arrives, with what is dropped of it"
        yield Check(claim, 0 < ended == len(stored), f"{ended} of {len(stored)} transfers")
        if plain not in results or not (others := results[plain].of(FOREGROUND)):
            continue
        claim = f"{name}: storage does the foreground no more harm than {plain}'s"
        if results[name].fabric(FOREGROUND).max_queue_bytes is None:
            yield Check(claim, None, NO_RATE)
            continue
        yield _unharmed(claim, (name, plain), (rounds, others))


def _unharmed(
    claim: str, names: tuple[str, str], rounds: tuple[Sequence[Round], Sequence[Round]]
) -> Check:
    """Whether the foreground's median beside storage of the first scheme is hardly above the one
    beside storage of the second."""
    ours, theirs = (_median(each) for each in rounds)
    holds = ours is not None and theirs is not None and ours <= UNHARMED * theirs
    seen = [f"{ns / 1e6:.2f} ms" if ns is not None else "failed" for ns in (ours, theirs)]
    return Check(claim, holds, "median " + " against ".join(seen), frozenset(names))


def _replicas(
    results: Mapping[str, SchemeResult], cut_off: Mapping[str, Collection[str]]
) -> Iterator[Check]:
    """Trevi: a write is one stream to all replicas, and does not need every one of them."""
    gone = cut_off.get(REPLICATED, ())
    for name, plain in SCAVENGED.items():
        if name not in results or not (rounds := results[name].of(REPLICATED)):
            continue
        stored = [f for each in rounds for f in each.flows if f["traffic"] == STORAGE]
        there = [flow for flow in stored if flow["destination"] not in gone]
        ended = sum(flow["status"] == "finished" for flow in there)
        without = f", without {', '.join(sorted(gone))}" if gone else ""
        claim = f"{name}: every replica that is there gets the same object{without}"
        yield Check(claim, 0 < ended == len(there), f"{ended} of {len(there)} replicas")
        written = sum({flow["transfer"]: flow["bytes"] for flow in stored}.values())
        sent = total(stored, PAYLOAD) / written if written else 0.0
        claim = f"{name}: a write leaves its writer once, what is dropped and coding included"
        yield Check(claim, 0 < sent < ONCE, f"{sent:.2f} times the object sent")
        if plain in results and (others := results[plain].of(REPLICATED)):
            claim = f"{name}: replicated storage does the foreground no more harm than {plain}'s"
            if results[name].fabric(REPLICATED).max_queue_bytes is None:
                yield Check(claim, None, NO_RATE)
            else:
                yield _unharmed(claim, (name, plain), (rounds, others))


def _median(rounds: Sequence[Round]) -> float | None:
    """Median completion time of the foreground, in ns; none if a flow of it failed."""
    flows = [f for each in rounds for f in each.flows if f["traffic"] == FOREGROUND]
    if not flows or any(flow["status"] != "finished" for flow in flows):
        return None
    return percentile([flow["fct_ns"] for flow in flows], 50)
