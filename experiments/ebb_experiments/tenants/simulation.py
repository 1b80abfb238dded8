"""The flow-level simulation of admission and jobs (Moncaster section 5.6.3).

Tenants come as a Poisson process. Each runs a job: all its VMs send to all others, and compute for
a time; it leaves when both have ended. With guarantees a VM sends at B, divided among the others.
With locality-aware placement flows share ports as an ideal TCP would, max-min fairly. Time is in
units of the mean compute time.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from ebb_controller.placement.curves import Guarantee
from ebb_controller.placement.network import Network, Request
from ebb_controller.placement.search import find
from ebb_controller.placement.tree import regular

from ebb_experiments.tenants.messages import simulated_late_share
from ebb_experiments.tenants.model import Class, DataCentre
from ebb_experiments.tenants.sharing import Indices, max_min


@dataclass
class Outcome:
    """Result of a trial: a row per tenant that counts, and numbers of the whole."""

    tenants: list[dict[str, Any]] = field(default_factory=list)
    """`class`, `vms`, `rate_bps`, `burst_bytes`, `admitted`, `level`, `placement_ns` (time of the
    process), `stretch` (time over the least possible; none: it had not left)."""
    numbers: dict[str, float] = field(default_factory=dict)
    """`utilisation` of the hosts' links and `occupancy` of the slots, means over time; `late`."""


@dataclass
class _Job:
    row: dict[str, Any] | None
    begun: float
    compute: float
    groups: Indices
    """Ports of the flows that cross the network, by their two hosts."""
    weights: np.ndarray[Any, np.dtype[np.float64]]
    """Flows of each."""
    rate: float
    """Rate of a flow with guarantees, bit/s."""
    left: np.ndarray[Any, np.dtype[np.float64]]
    """Rest of a flow of each group, bit/s times the unit of time."""
    network_ends: float = 0.0


def simulate(spec: DataCentre, seed: int) -> Outcome:
    """Runs a trial."""
    if spec.messages is not None:
        of = spec.messages
        rng = np.random.default_rng(seed)
        late = simulated_late_share(of.overprovisioning, of.burst, of.count, rng)
        return Outcome(numbers={"late": late})
    return _Simulation(spec, seed).run()


class _Simulation:
    def __init__(self, spec: DataCentre, seed: int) -> None:
        self.spec, self.rng = spec, np.random.default_rng(seed)
        tree = regular(
            pods=spec.pods,
            racks_per_pod=spec.racks_per_pod,
            hosts_per_rack=spec.hosts_per_rack,
            rate_bps=spec.rate_bps,
            queue_ns=spec.queue_ns,
            oversubscription=(spec.rack_oversubscription, spec.pod_oversubscription),
        )
        self.network = Network(
            tree, spec.vms_per_host, spec.packet_bytes, blocking=spec.blocking, bursts=spec.bursts
        )
        self.shared = spec.algorithm == "locality"
        sizes = [len(tier) for tier in tree.tiers]
        self.first = np.concatenate(([0], np.cumsum(np.repeat(sizes, 2))))
        """Number of the first port up, and down, of each tier."""
        rates = [np.tile(tier.rate_bps.astype(float), 2) for tier in tree.tiers]
        self.capacity = np.concatenate([*rates, [np.inf]])
        self.jobs: dict[str, _Job] = {}
        self.now, self.sent, self.busy, self.counting = 0.0, 0.0, 0.0, False

    def run(self) -> Outcome:
        spec, found = self.spec, Outcome()
        slots = len(self.network.tree.hosts) * spec.vms_per_host
        gap = spec.mean_vms * max(1.0, spec.network_share) / (spec.occupancy * slots)
        arrival, begun = 0.0, 0.0
        for number in range(spec.warm_up + spec.tenants):
            arrival += float(self.rng.exponential(gap))
            self._advance(arrival)
            if number == spec.warm_up:
                self.sent, self.busy, self.counting, begun = 0.0, 0.0, True, self.now
            row = self._arrive(f"t{number}")
            if self.counting:
                found.tenants.append(row)
        took = self.now - begun
        links = self.spec.rate_bps * len(self.network.tree.hosts)
        if took > 0:
            found.numbers = {
                "utilisation": self.sent / took / links,
                "occupancy": self.busy / took / slots,
            }
        return found

    def _arrive(self, name: str) -> dict[str, Any]:
        spec, rng = self.spec, self.rng
        names = list(spec.classes)
        kind = names[int(rng.choice(len(names), p=[spec.classes[n].share for n in names]))]
        vms = max(2, round(float(rng.exponential(spec.mean_vms))))
        guarantee = self._guarantee(spec.classes[kind])
        compute = float(rng.exponential(1.0))
        request = Request(name, vms, guarantee)
        before = time.process_time_ns()
        hosts = find(self.network, request, spec.algorithm)
        row = {"class": kind, "vms": vms, "rate_bps": guarantee.rate_bps, "level": None}
        row |= {"burst_bytes": guarantee.burst_bytes, "admitted": hosts is not None}
        row |= {"placement_ns": time.process_time_ns() - before, "stretch": None}
        if hosts is None:
            return row
        row["level"] = self.network.level(hosts)
        self.network.admit(request, hosts)
        rate = guarantee.rate_bps / (vms - 1)
        groups, weights = self._groups(hosts)
        size = rate * compute * spec.network_share
        left = np.full(len(weights), size)
        job = _Job(row, self.now, compute, groups, weights, rate, left)
        job.network_ends = self.now + (compute * spec.network_share if len(weights) else 0.0)
        self.jobs[name] = job
        self._share()
        return row

    def _guarantee(self, of: Class) -> Guarantee:
        link, rng = self.spec.rate_bps, self.rng
        rate = min(max(1, int(rng.exponential(of.rate_bps))), link)
        burst = max(self.spec.packet_bytes, int(rng.exponential(of.burst_bytes)))
        return Guarantee(rate, burst, max(of.peak_bps or link, rate), of.delay_ns)

    def _groups(self, hosts: dict[int, int]) -> tuple[Indices, np.ndarray[Any, Any]]:
        tree = self.network.tree
        width = 2 * len(tree.tiers)
        last = len(self.capacity) - 1
        rows, weights = [], []
        for a, of_a in hosts.items():
            for b, of_b in hosts.items():
                if a == b:
                    continue
                row = [last] * width
                for tier in range(tree.meeting_tier(a, b) + 1):
                    row[2 * tier] = int(self.first[2 * tier]) + tree.ancestor(a, tier)
                    row[2 * tier + 1] = int(self.first[2 * tier + 1]) + tree.ancestor(b, tier)
                rows.append(row)
                weights.append(float(of_a * of_b))
        return np.array(rows, np.int64).reshape(-1, width), np.array(weights)

    def _advance(self, until: float) -> None:
        """Lets jobs send and end, in their order."""
        while (ended := self._first_end()) is not None and ended[0] <= until:
            self._pass(ended[0])
            self._leave(ended[1])
        self._pass(until)

    def _first_end(self) -> tuple[float, str] | None:
        ends = ((self._end(job), name) for name, job in self.jobs.items())
        return next(iter(heapq.nsmallest(1, ends)), None)

    def _end(self, job: _Job) -> float:
        return max(job.begun + job.compute, job.network_ends)

    def _pass(self, until: float) -> None:
        step = until - self.now
        if step > 0:
            for rate_bps, job in self._sending(step):
                job.left = np.maximum(job.left - rate_bps * step, 0.0)
            self.busy += step * float((self.spec.vms_per_host - self.network.free).sum())
        self.now = until

    def _sending(self, step: float) -> Iterator[tuple[np.ndarray[Any, Any], _Job]]:
        for name, job in self.jobs.items():
            rates = self.rates[name] if self.shared else np.full(len(job.left), job.rate)
            self.sent += float((np.minimum(rates * step, job.left) * job.weights).sum())
            yield rates, job

    def _leave(self, name: str) -> None:
        job = self.jobs.pop(name)
        if job.row is not None:
            least = job.compute * max(1.0, self.spec.network_share)
            job.row["stretch"] = (self.now - job.begun) / least
        self.network.release(name)
        self._share()

    def _share(self) -> None:
        """New rates where flows share ports: of all that have something to send."""
        if not self.shared or not self.jobs:
            return
        jobs = list(self.jobs.items())
        left = np.concatenate([job.left for _, job in jobs])
        some = left > 0
        ports = np.concatenate([job.groups for _, job in jobs])
        weights = np.concatenate([job.weights for _, job in jobs])
        rates = np.zeros(len(left))
        rates[some] = max_min(ports[some], weights[some], self.capacity)
        ends = np.zeros(len(left))
        ends[some] = left[some] / rates[some]
        self.rates: dict[str, np.ndarray[Any, Any]] = {}
        at = 0
        for name, job in jobs:
            part = slice(at, at + len(job.left))
            at = part.stop
            self.rates[name] = rates[part]
            job.network_ends = self.now + float(ends[part].max(initial=0.0))
