"""Virtual time: a simulator for each phase, from files to results in nominal units."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ebb_controller.mechanisms import FabricParameters
from ebb_controller.multicast import MulticastGroup
from ebb_controller.scheme import Scheme
from ebb_topologies.dilation import Dilation
from ebb_topologies.model import Switch, Topology

from ebb_experiments.results.flows import FlowTable
from ebb_experiments.results.results import Results
from ebb_experiments.results.series import ArrivalTable, SampleTable
from ebb_experiments.results.switches import SwitchTables, counter_rows, is_reported
from ebb_experiments.results.tables import Row, Rows
from ebb_experiments.run.agents import task_parameters
from ebb_experiments.run.conversation import SimulatorError
from ebb_experiments.run.run import Binaries, Task, read_counters, versions
from ebb_experiments.run.simulator import Pause, Progress, Simulator
from ebb_experiments.run.tenants import TenantTable, hypervisor, machines
from ebb_experiments.run.usage import Usage
from ebb_experiments.scenario.faults import Reinstall, Reroute, Step, carry_out
from ebb_experiments.scenario.loaded import Loaded, sampled_queues
from ebb_experiments.scenario.spec import Forgery, ScenarioFile

if TYPE_CHECKING:  # imported while the simulator starts
    from ebb_controller.controller import Controller
    from ebb_controller.fabric_admin import FabricAdmin
    from ebb_controller.program import Program
    from ebb_controller.traffic_manager import TrafficManagers

    from ebb_experiments.run.loop import LoopThread
    from ebb_experiments.run.volume import Volumes

CONNECT_SECONDS = 120.0
"""Timeout of the connections to all switches of a large fabric."""


@dataclass(frozen=True)
class PausedSimulation:
    """A simulation whose clock stands: its services answer."""

    at_ns: float
    """Nominal time at which it stands."""
    loop: LoopThread
    """Where its services are used."""
    controller: Controller
    managers: TrafficManagers
    admin: FabricAdmin
    address: Callable[[Switch], str]
    """Where a switch serves P4Runtime."""


@dataclass(frozen=True)
class Watch:
    """Callbacks of a run in virtual time."""

    step: Callable[[str], None] = lambda _text: None
    """Gets a sentence about each step that is taken or was taken."""
    progress: Callable[[Progress], None] = lambda _progress: None
    sample: Callable[[PausedSimulation], None] | None = None
    """Called when the clock begins to run, and whenever it has run for `sample_every_ns`: it stands
    until this returns. None: it runs through."""
    sample_every_ns: int = 100_000
    """Nominal time between two samples."""
    completed: Callable[[Mapping[str, Rows]], None] = lambda _tables: None
    """Gets tables that are complete, while others are not yet."""
    beside: Callable[[], None] = lambda: None
    """Called in a thread of its own when the clock begins to run."""


@dataclass(frozen=True)
class Virtual:
    """A clock that a simulator turns."""

    binaries: Binaries
    threads: int = 0
    """Threads of the simulator; 0: as many as there are processors."""
    watch: Watch = Watch()

    def carry_out(self, task: Task) -> Results:
        """Runs a task. Raises `SimulatorError`, `ControllerError` or `InputError` with the
        reason."""
        return _Simulation(self.binaries, self.threads, self.watch, task).go()


def host_keys(spec: ScenarioFile, dilation: Dilation) -> dict[str, Any]:
    """Keys of the network file about hosts that take time for each packet or forge notifications,
    and about the time that they wait for an answer: as long as the run may last."""
    keys: dict[str, Any] = {"patience_ns": round(dilation.time(spec.limit_ns))}
    if spec.packet_ns:
        keys["packet_ns"] = round(dilation.time(spec.packet_ns))
        keys["packets_at_once"] = spec.packets_at_once
    if forging := [each for each in spec.forgery if each.rate_hz]:
        keys["forgeries"] = [
            {
                "host": each.host,
                "targets": each.targets,
                "every_ns": max(1, round(dilation.time(1e9 / each.rate_hz))),
                "start_ns": round(dilation.time(each.start_ns)),
                "stop_ns": round(dilation.time(each.stop_ns)),
                "dscp": each.dscp,
                **_overheard(each, dilation),
            }
            for each in forging
        ]
    return keys


def _overheard(forgery: Forgery, dilation: Dilation) -> dict[str, int]:
    if forgery.overhears_after_ns is None:
        return {}
    return {"overhears_after_ns": round(dilation.time(forgery.overhears_after_ns))}


@dataclass(frozen=True)
class _Recorded:
    """Tables that grow while the simulator runs."""

    flows: FlowTable
    samples: SampleTable
    arrivals: ArrivalTable
    tenants: TenantTable


def _groups(simulator: Simulator) -> list[MulticastGroup]:
    """Multicast groups of the transfers, numbered from 1."""
    return [
        MulticastGroup(group.address, number, group.receivers)
        for number, group in enumerate(simulator.groups, start=1)
    ]


@dataclass(frozen=True)
class _Simulation:
    binaries: Binaries
    threads: int
    watch: Watch
    task: Task

    @property
    def loaded(self) -> Loaded:
        return self.task.loaded

    def go(self) -> Results:
        begun = time.monotonic()
        spec, dilation, head = self.loaded.spec, self.loaded.dilation, self.task.head
        slowed = dilation.topology(self.loaded.topology)
        nominal = task_parameters(self.binaries.agent, self.task)
        workload = self.task.phase_round.workload(self.task.seed)
        program = self.binaries.program(slowed, self._fabric)
        simulator = self._simulator(slowed, program, nominal, workload)
        topology = self.loaded.topology
        recorded = self._record(simulator)
        with ThreadPoolExecutor(1) as beside, simulator:
            from ebb_controller.controller import Controller
            from ebb_controller.fabric_admin import FabricAdmin
            from ebb_controller.traffic_manager import TrafficManagers

            from ebb_experiments.run.loop import LoopThread

            with LoopThread() as loop, ExitStack() as stack:

                def address(_switch: Switch) -> str:
                    return simulator.address

                managers = TrafficManagers(slowed, address)
                admin = FabricAdmin(simulator.fabric_socket)
                controller = Controller(
                    slowed,
                    program,
                    "bytes",
                    address=address,
                    traffic_managers=managers,
                    connect_seconds=CONNECT_SECONDS,
                    fresh=self._fabric.ports,
                )
                stack.callback(lambda: loop.run(admin.close()))
                stack.callback(lambda: loop.run(managers.close()))
                stack.enter_context(loop.inside(controller))
                self.watch.step("the controller configures the switches")
                loop.run(controller.configure(self._fabric, _groups(simulator)))
                self._sample_queues(simulator)
                beside.submit(_get_ready)
                beside.submit(self.watch.beside)
                found_versions = beside.submit(versions, self.binaries)
                configured, before = time.monotonic(), Usage.of(simulator.pid)
                paused = PausedSimulation(0.0, loop, controller, managers, admin, address)
                volumes = self._volumes(controller)
                pause, done = self._let_run(simulator, paused, volumes)
                after = Usage.of(simulator.pid)
                trace_hash = simulator.report()
                statistics = loop.run(managers.statistics())
                counted = pause.at_ns - pause.skipped_ns - dilation.time(spec.warm_up_ns)
                skipped_ns = dilation.nominal_time(pause.skipped_ns)
                counting = head | ({"skipped_ns": skipped_ns} if spec.skip else {})
                switches = SwitchTables(statistics, topology, dilation, counted, counting, _batches)
                delays = {"delays": switches.delays()}
                self.watch.completed(delays)
                counters = loop.run(read_counters(controller, is_reported))
            simulator.finish()  # It ends while its results become tables.
            flow_rows = recorded.flows.table(pause.at_ns)
            check_all_reported(pause.ended, flow_rows)
            results = Results(
                {
                    "flows": flow_rows,
                    **switches.tables(),
                    **delays,
                    "counters": _batches("counters", counter_rows(counters, counting)),
                    "samples": recorded.samples.table(),
                    "arrivals": recorded.arrivals.table(),
                    "tenants": recorded.tenants.table(),
                    "volume": self._volume_table(volumes),
                }
            )
        results.run = self._about(simulator, pause, trace_hash, nominal, workload) | {
            "steps": done,
            "setup_seconds": configured - begun,
            "setup_peak_bytes": before.peak_bytes,
            "clock_cpu_seconds": after.cpu_seconds - before.cpu_seconds,
            "peak_bytes": after.peak_bytes,
            **self._nics(simulator),
            **self._skips(simulator),
            **({"hypervisors": simulator.hypervisors} if simulator.hypervisors else {}),
            **({} if volumes is None else {"volume": volumes.about(dilation)}),
            "versions": found_versions.result(),
            "wall_seconds": time.monotonic() - begun,
        }
        return results

    def _record(self, simulator: Simulator) -> _Recorded:
        """Tables that take the simulator's lines from now on."""
        topology, dilation, head = self.loaded.topology, self.loaded.dilation, self.task.head
        simulator.records = flows = FlowTable(topology, dilation, head, _batches)
        simulator.samples = samples = SampleTable(topology, dilation, head, _batches)
        simulator.arrivals = arrivals = ArrivalTable(dilation, head, _batches)
        simulator.tenants = tenants = TenantTable(self.loaded, head, _batches)
        return _Recorded(flows, samples, arrivals, tenants)

    def _sample_queues(self, simulator: Simulator) -> None:
        """Has the simulator sample the queues of the scenario, if it names any."""
        spec = self.loaded.spec
        if queues := sampled_queues(spec, self.loaded.topology, self._scheme):
            every_ns = max(1, round(self.loaded.dilation.time(spec.sample[0].every_ns)))
            simulator.sample(every_ns, queues)

    def _simulator(
        self, slowed: Topology, program: Program, nominal: dict[str, Any], workload: dict[str, Any]
    ) -> Simulator:
        """The simulator of the task, not started. `nominal`: parameters of the agents."""
        spec, dilation = self.loaded.spec, self.loaded.dilation
        traffic = self.task.phase_round.traffic
        return Simulator(
            self.binaries.simulator,
            slowed,
            self._scheme.transport,
            self.task.transport_of,
            dilation.slow(nominal),
            program,
            self._fabric,
            dilation.slow(workload),
            self.task.directory,
            seed=self.task.seed,
            threads=self.threads,
            workload_place=traffic.place,
            coding_bps=round(dilation.rate(spec.coding_bps)),
            vms=machines(self.loaded, self.task.scheme),
            host_keys=host_keys(spec, dilation) | hypervisor(self.loaded),
            content=spec.content,
            skip=spec.skip,
            loopback=own_loopback(),
            faults=self.watch.sample is not None
            or any(not isinstance(step, Reroute | Reinstall) for step in traffic.steps),
            ends_with=spec.ends_with,
            meanwhile=lambda: _get_controller(program),
            arrivals_every_ns=round(dilation.time(spec.arrivals_every_ns)),
        )

    @property
    def _scheme(self) -> Scheme:
        return self.loaded.schemes[self.task.scheme]

    @property
    def _fabric(self) -> FabricParameters:
        return self._scheme.fabric.slowed(self.loaded.dilation)

    def _nics(self, simulator: Simulator) -> dict[str, Any]:
        """Pauses of hosts by PFC frames of switches, in nominal time, if hosts obey them."""
        nominal = self.loaded.dilation.nominal_time
        nics = [
            nic | {"paused_ns": [nominal(paused) for paused in nic["paused_ns"]]}
            for nic in simulator.nics
        ]
        return {"nics": nics} if nics else {}

    def _skips(self, simulator: Simulator) -> dict[str, Any]:
        """Rounds skipped of each part of the workload, in nominal time, if they may be."""
        nominal = self.loaded.dilation.nominal_time
        skips = [each | {"skipped_ns": nominal(each["skipped_ns"])} for each in simulator.skips]
        return {"skipping": skips} if skips else {}

    def _volumes(self, controller: Controller) -> Volumes | None:
        """Reader of the traffic volume of the ports, from the beginning on; none: it is not
        counted."""
        fabric = self._fabric
        if fabric.volume is None:
            return None
        from ebb_controller.volume import counters_of

        from ebb_experiments.run.volume import Volumes

        counters = counters_of(fabric.volume, controller.architecture)
        volumes = Volumes(controller, self.loaded.topology, fabric, counters)
        for switch in self.loaded.topology.switches:
            volumes.begin(switch.name, 0)
        return volumes

    def _volume_table(self, volumes: Volumes | None) -> Rows:
        """Volume that left the ports in each slot; empty: it was not counted."""
        dilation, head = self.loaded.dilation, self.task.head
        return _batches("volume", () if volumes is None else volumes.rows(dilation, head))

    def _let_run(
        self, simulator: Simulator, paused: PausedSimulation, volumes: Volumes | None
    ) -> tuple[Pause, list[dict[str, Any]]]:
        """Runs from one step to the next, until the transfers have ended or the limit is
        reached."""
        dilation, limit = self.loaded.dilation, self.loaded.spec.limit_ns
        loop, controller, managers = paused.loop, paused.controller, paused.managers
        done: list[dict[str, Any]] = []
        now = 0.0

        def run(until: int) -> Pause:
            nonlocal now
            while True:
                now = self._next_stop(now, until, volumes)
                pause = simulator.run(
                    round(dilation.time(now)),
                    until_flows_end=True,
                    on_progress=self.watch.progress,
                )
                if volumes is not None:
                    loop.run(volumes.all_until(pause.at_ns))
                self._sample(paused, pause.at_ns)
                if now >= until or pause.unfinished == 0:
                    return pause

        self._sample(paused, 0)
        warm_up_ns = self.loaded.spec.warm_up_ns
        steps = self.task.phase_round.traffic.steps
        for step in steps:
            if step.at_ns >= limit:
                break
            if 0 < warm_up_ns <= step.at_ns:
                run(warm_up_ns)
                loop.run(managers.statistics(reset=True))
                warm_up_ns = 0
            pause = run(step.at_ns) if step.at_ns else None
            if pause is not None and pause.unfinished == 0:
                break  # nobody is left to see it
            text = loop.run(carry_out(step, paused.admin, controller, dilation))
            done.append({"at_ns": step.at_ns, "what": text})
            self.watch.step(f"{step.at_ns / 1e6:g} ms: {text}")
        if warm_up_ns:
            run(warm_up_ns)
            loop.run(managers.statistics(reset=True))
        pause = run(limit)
        skipped: Sequence[Step] = steps[len(done) :]
        return pause, [
            *done,
            *({"at_ns": s.at_ns, "what": str(s), "skipped": True} for s in skipped),
        ]

    def _next_stop(self, now: float, until: float, volumes: Volumes | None) -> float:
        """Nominal time at which the clock stops next: for a sample, at the end of a slot, or at
        `until`."""
        every, dilation = self.watch.sample_every_ns, self.loaded.dilation
        stops = [until]
        if self.watch.sample is not None:
            stops.append((now // every + 1) * every)
        if volumes is not None:
            stops.append(dilation.nominal_time(volumes.due_ns(round(dilation.time(now)))))
        return min(stops)

    def _sample(self, paused: PausedSimulation, at_ns: int) -> None:
        if self.watch.sample is not None:
            at = self.loaded.dilation.nominal_time(at_ns)
            self.watch.sample(replace(paused, at_ns=at))

    def _about(
        self,
        simulator: Simulator,
        pause: Pause,
        trace_hash: str,
        agent: dict[str, Any],
        workload: dict[str, Any],
    ) -> dict[str, Any]:
        topology, about = self.loaded.topology, self.task.about
        return about | {
            "clock": "virtual",
            "trace_hash": trace_hash,
            **({"program": program.name} if (program := simulator.program).chip else {}),
            "transfers": {"ended": pause.ended, "unfinished": pause.unfinished},
            "simulated_ns": self.loaded.dilation.nominal_time(pause.at_ns),
            "packet_hops": pause.packet_hops,
            "events": pause.events,
            "clock_seconds": pause.seconds,
            "threads": simulator.used_threads,
            "topology": {
                "name": topology.name,
                "hosts": len(topology.hosts),
                "switches": len(topology.switches),
                "links": len(topology.links),
            },
            "parameters": about["parameters"] | {"workload": workload, "agent": agent},
        }


def _batches(name: str, rows: Iterable[Row] = (), /) -> Rows:
    """A table of many rows. Arrow takes a quarter of a second to import, which can be had while the
    clock runs."""
    from ebb_experiments.results.arrow import Batches

    return Batches(name, rows)


def _get_controller(program: Program) -> None:
    """Imports the controller, and reads the program for it: as long as a simulator takes to start.
    Raises `ControllerError` if the program is damaged."""
    import_module("ebb_controller.controller")
    import_module("ebb_controller.fabric_admin")
    _ = program.schema


def _get_ready() -> None:
    """Imports what tables need."""
    from ebb_experiments.results.arrow import get_ready

    get_ready()


def check_all_reported(ended: int, flows: Rows) -> None:
    """Raises `SimulatorError` if fewer transfers are in the table than have ended."""
    in_table = len(set(flows.column("transfer")))
    if in_table < ended:
        raise SimulatorError(f"{ended} transfers have ended, and the table of flows has {in_table}")


def own_loopback() -> str:
    """An address of this machine that no other process takes, so that runs do not meet: all of
    127.0.0.0/8 is this machine, and a process id has at most 22 bits (proc(5), pid_max)."""
    pid = os.getpid()
    return f"127.{64 + (pid >> 16)}.{pid >> 8 & 255}.{pid & 255}"
