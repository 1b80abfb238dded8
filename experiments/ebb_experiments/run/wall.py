"""The wall clock: a fabric of switches and hosts in namespaces of this machine, which stays up for
all schemes and phases. Between them the controller changes tables and queues at run time.

Switches share a process, or have one each (`FUSED=0`), or are BMv2's, which have no link rates and
no statistics of queues. Needs root. Arrivals over time and the speed of coding are not part of it,
samples only on demand and of one port.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from ebb_controller import ebb_tm_pb2 as tm
from ebb_controller.controller import Counters
from ebb_controller.fabric_admin import FabricAdmin
from ebb_controller.mechanisms import FabricParameters
from ebb_controller.mechanisms.counters import DROPPED
from ebb_controller.mechanisms.route import REPLICATED
from ebb_controller.multicast import MulticastGroup, check, tree_ports
from ebb_controller.parameters import WAKEUP_NS
from ebb_controller.program import Program
from ebb_controller.traffic_manager import lateness
from ebb_controller.volume import counters_of
from ebb_topologies.processes import Process
from ebb_topologies.targets import Target

from ebb_experiments.results.flows import FlowTable, unheard
from ebb_experiments.results.load import Late, Load, Processors
from ebb_experiments.results.results import Results
from ebb_experiments.results.switches import SwitchTables, counter_rows
from ebb_experiments.results.tables import Row, Rows
from ebb_experiments.run.agents import Agents, Line
from ebb_experiments.run.control import KernelLinks, PromptControl
from ebb_experiments.run.fabric import Fabric
from ebb_experiments.run.fault_runner import FaultRunner, RepairableFabric
from ebb_experiments.run.kernel_tcp import KernelDctcp, KernelHosts
from ebb_experiments.run.loop import LoopThread
from ebb_experiments.run.players import AgentWorkloads, Commands, Plan, Player
from ebb_experiments.run.run import Binaries, Task, read_counters, versions
from ebb_experiments.run.tenants import TenantTable
from ebb_experiments.run.volume import Volumes, VolumeWatch
from ebb_experiments.run.watch import QueueWatch, watching
from ebb_experiments.scenario.faults import file_name
from ebb_experiments.scenario.loaded import Loaded

POLL_SECONDS = 0.02
SETTLE_SECONDS = 0.5
"""Time in which both ends of all flows are to report, after all objects have arrived."""
RESET_SECONDS = 0.15
"""Time from the reset of the switches' statistics to the start of the traffic."""
PING_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class PingResult:
    """Pings between all hosts."""

    pairs: int
    lost: list[str]


@dataclass(frozen=True)
class FabricSetup:
    """Switch, program, binaries and folder of a fabric, and options of its run."""

    target: Target
    program: Program
    binaries: Binaries
    directory: Path
    """Run directory of the fabric: `FabricNet` keeps logs and process ids there."""
    pcap: bool = False
    """Whether each switch port has a pcap file."""
    rings: bool = False
    """Whether agents share rings with the switches, where these are one process of ours, instead of
    sending through the kernel."""
    runner: Sequence[str] = ()
    """Command that starts each agent, such as `chrt`; empty: none."""
    watch: bool = False
    """Whether the queues of the port to the busiest receiver are sampled: table `samples`."""


class RunObserver:
    """Follows the tasks of a run; this one does nothing."""

    def begins(self, task: Task, start_ns: int) -> None:
        """The traffic of a task begins at this time of CLOCK_MONOTONIC, which is about to come."""

    def continued(self, task: Task, player: Player, start_ns: int) -> None:
        """Called repeatedly during the traffic of a task, which began at `start_ns`. `player` has
        the flows that have ended."""

    def ended(self, task: Task, results: Results) -> None:
        """A task has ended."""


class Wall(Fabric):
    """A fabric as slow as `loaded.dilation` says. A `Clock` for runs of that scenario."""

    def __init__(self, loaded: Loaded, setup: FabricSetup, loop: LoopThread) -> None:
        super().__init__(
            loaded.dilation.topology(loaded.topology),
            setup.target,
            setup.program,
            setup.directory,
            loop,
            pcap=setup.pcap,
            rings=setup.rings,
        )
        self.loaded = loaded
        self.setup = setup
        self.observer = RunObserver()
        self.admin: FabricAdmin | None = None
        """Its fabric service; none: each switch has a process of its own."""

    def _start(self, stack: ExitStack) -> None:
        KernelDctcp().unload_of_killed_run()
        super()._start(stack)
        links: RepairableFabric = KernelLinks(self.net)
        if self.net.fused:
            links = self.admin = admin = FabricAdmin(self.net.fabric_socket)
            stack.callback(lambda: self.loop.run(admin.close()))
            self.net.control = PromptControl(admin, self.loop, self.controller)
        self.faults = FaultRunner(
            links,
            self.controller,
            self.loaded.dilation,
            self.loop,
            log=self.directory / "faults.jsonl",
        )

    def configure(
        self, parameters: FabricParameters, groups: Sequence[MulticastGroup] = ()
    ) -> None:
        """Queues and tables of every switch, from nominal parameters; on Tofino perhaps another
        program, as no single one has all mechanisms."""
        slowed = parameters.slowed(self.loaded.dilation)
        if self.setup.program.chip is not None:
            needed = self.setup.binaries.program(self.topology, slowed)
            if needed != self.controller.program:
                self.loop.run(self.controller.load(needed))
        super().configure(slowed.woken_late(WAKEUP_NS), groups)

    def ping_all(self) -> PingResult:
        """Has every host ping every other one, all at the same time."""
        hosts = self.topology.hosts
        directory = self.net.run_dir / "pings"
        directory.mkdir(exist_ok=True)
        running: list[tuple[Process, Path]] = []
        for host in hosts:
            each = "; ".join(
                f"ping -n -q -c 1 -W 3 {other.ip} >/dev/null || echo {host.name}-{other.name}"
                for other in hosts
                if other is not host
            )
            path = directory / host.name
            with path.open("wb") as sink:
                name = f"ping-{host.name}"
                process = self.net.spawn_on(host.name, name, ["sh", "-c", each], stdout=sink)
            running.append((process, path))
        deadline = time.monotonic() + PING_SECONDS
        while any(process.running for process, _ in running) and time.monotonic() < deadline:
            self.net.check()
            time.sleep(POLL_SECONDS)
        lost = [line for _, path in running for line in path.read_text().split()]
        lost += [f"{p.name} (not done after {PING_SECONDS:g} s)" for p, _ in running if p.running]
        self.net.processes.stop([process for process, _ in running])
        return PingResult(len(hosts) * (len(hosts) - 1), lost)

    def carry_out(self, task: Task) -> Results:
        """Runs a task. Raises what the parts of the fabric raise, with the reason."""
        prefix = file_name(f"{task.scheme}-{task.phase_round.label}")
        plan = Plan.of(task, self.agents(task.directory / "records", prefix))
        results = _Phase(self, task, plan, self.player(plan)).go()
        self.observer.ended(task, results)
        return results

    def agents(self, directory: Path, prefix: str) -> Agents:
        """Starts agents that print into files of this folder."""
        setup = self.setup
        return Agents(self.net, setup.binaries.agent, directory, prefix, setup.runner)

    def player(self, plan: Plan) -> Player:
        """The player that moves the objects of a task."""
        players: dict[str, Callable[[Plan], Player]] = {
            "files": Commands,
            "generated": AgentWorkloads,
            "kernel": KernelHosts,
        }
        return players[plan.task.phase_round.traffic.objects](plan)


@dataclass(frozen=True)
class _Counted:
    """Counters at one moment."""

    counters: dict[str, Counters]
    """Counters of the program, by switch."""
    statistics: Mapping[str, tm.Stats]
    """Statistics of the traffic managers, by switch; empty: there are none."""
    frames: tuple[int, int]
    """Frames received and sent by all interfaces."""


@dataclass
class _Phase:
    """A phase under way."""

    wall: Wall
    task: Task
    plan: Plan
    player: Player

    def go(self) -> Results:
        try:
            return self._play()
        finally:
            self.player.end()

    def _play(self) -> Results:
        begun = time.monotonic()
        wall, spec, dilation = self.wall, self.task.loaded.spec, self.task.loaded.dilation
        groups = self._groups()
        wall.configure(self.task.loaded.schemes[self.task.scheme].fabric, groups)
        self.player.prepare()
        before = self._counted()
        start_ns = self.player.start()
        wall.observer.begins(self.task, start_ns)
        processors = Processors()
        processors.begin(start_ns)
        steps, label = self.task.phase_round.traffic.steps, self.task.phase_round.label
        watches, counting = self._watches(), self._counting()
        with (
            wall.faults.during(steps, self.task.scheme, label, start_ns),
            watching(wall.loop, [*watches, *counting]),
        ):
            counted_ns = start_ns + round(dilation.time(spec.warm_up_ns))
            reset_ns = counted_ns - (0 if spec.warm_up_ns else round(RESET_SECONDS * 1e9))
            time.sleep(max(0.0, (reset_ns - time.monotonic_ns()) / 1e9))
            if wall.managers is not None:
                wall.loop.run(wall.managers.statistics(reset=True))
            self._wait(start_ns, round(dilation.time(spec.limit_ns)))
            busy = processors.share()
            statistics = self._statistics()
            ended_ns = time.monotonic_ns()
            self._settle()
            after = self._counted(statistics)
        self.plan.agents.stop()
        late = [Late.from_report(lateness(each)) for each in statistics.values()]
        switches = Late.together(late) if wall.managers is not None else None
        load = Load(self.plan.agents.late(), switches, busy)
        lines = self.player.lines()
        lines += unheard(self.plan.schedule, lines, ended_ns - start_ns)
        late_ns = [line["late_ns"] for line in lines if line.get("late_ns")]
        about = self.task.about
        return Results(
            self._tables(lines, before, after, groups, start_ns, ended_ns - counted_ns)
            | self._samples(watches, start_ns)
            | self._volume(counting, start_ns),
            about
            | ({"volume": counting[0].volumes.about(dilation)} if counting else {})
            | {
                "clock": "wall",
                "latest_start_ns": dilation.nominal_time(max(late_ns, default=0)),
                "load": asdict(load),
                "needed_dilation": load.needed(dilation.factor, self.task.loaded.packet_ns),
                "simulated_ns": dilation.nominal_time(ended_ns - start_ns),
                "parameters": about["parameters"] | {"params": self.plan.parameters},
                **({"hypervisors": found} if (found := self._lines("hypervisor")) else {}),
                "versions": versions(wall.setup.binaries),
                "wall_seconds": time.monotonic() - begun,
            },
        )

    def _groups(self) -> list[MulticastGroup]:
        """Multicast groups of the scenario, and of the transfers to come."""
        topology = self.task.loaded.topology
        groups = list(self.task.loaded.groups)
        for number, members in enumerate(self.plan.receivers, start=len(groups) + 1):
            group = MulticastGroup.of(topology, number, members)
            if all(group.address != other.address for other in groups):
                groups.append(group)
        check(groups, topology)
        return groups

    def _watches(self) -> list[QueueWatch]:
        """The watch of the queues to the host that most transfers go to; empty: none is wanted."""
        managers, topology = self.wall.managers, self.task.loaded.topology
        if managers is None or not self.wall.setup.watch:
            return []
        targets = Counter(host for line in self.plan.schedule for host in line["destinations"])
        return [QueueWatch(managers, topology, host) for host, _ in targets.most_common(1)]

    def _counting(self) -> list[VolumeWatch]:
        """Readers of the traffic volume of each switch; empty: it is not counted."""
        wall, managers = self.wall, self.wall.managers
        fabric = self.task.loaded.schemes[self.task.scheme].fabric
        slowed = fabric.slowed(self.task.loaded.dilation)
        if managers is None or slowed.volume is None:
            return []
        counters = counters_of(slowed.volume, wall.controller.architecture)
        volumes = Volumes(wall.controller, wall.topology, slowed, counters)
        return [VolumeWatch(managers, volumes, each.name) for each in wall.topology.switches]

    def _wait(self, start_ns: int, limit_ns: int) -> None:
        while not self.player.done() and time.monotonic_ns() < start_ns + limit_ns:
            self.wall.net.check()
            self.wall.observer.continued(self.task, self.player, start_ns)
            time.sleep(POLL_SECONDS)

    def _settle(self) -> None:
        deadline = time.monotonic() + SETTLE_SECONDS
        while not self.player.settled() and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)

    # -- counting ---------------------------------------------------------------------------

    def _statistics(self) -> Mapping[str, tm.Stats]:
        managers = self.wall.managers
        return {} if managers is None else self.wall.loop.run(managers.statistics())

    def _counted(self, statistics: Mapping[str, tm.Stats] | None = None) -> _Counted:
        wall = self.wall
        return _Counted(
            counters=wall.loop.run(read_counters(wall.controller)),
            statistics=self._statistics() if statistics is None else statistics,
            frames=wall.net.switched_frames(),
        )

    def _tables(
        self,
        lines: list[Line],
        before: _Counted,
        after: _Counted,
        groups: Sequence[MulticastGroup],
        start_ns: int,
        counted_ns: float,
    ) -> dict[str, Rows]:
        loaded, head = self.task.loaded, self.task.head
        flows = FlowTable(loaded.topology, loaded.dilation, head)
        for line in lines:
            flows.append(_since(line, start_ns))
        counters = _between(before.counters, after.counters)
        for name, statistics in after.statistics.items():
            _subtract(before.statistics[name], statistics)
        switches = SwitchTables(
            after.statistics, loaded.topology, loaded.dilation, counted_ns, head
        )
        tables = {**switches.tables(), "delays": switches.delays()}
        if not after.statistics:
            copies = self._copies(counters, groups)
            row = head | lost_inside(before.frames, after.frames, copies, counters)
            tables["drops"] = Rows("drops", [row])
        counted = Rows("counters", counter_rows(counters, head))
        return {"flows": flows.table(), **tables, "counters": counted, **self._tenants()}

    def _tenants(self) -> dict[str, Rows]:
        """The table of packets between virtual machines; empty: there are none."""
        loaded = self.task.loaded
        if loaded.tenancy is None:
            return {}
        tenants = TenantTable(loaded, self.task.head)
        for line in self._lines("delays"):
            tenants.append(line)
        return {"tenants": tenants.table()}

    def _lines(self, event: str) -> list[Line]:
        """Lines of an event that the agents have printed."""
        lines = (line for agent in self.plan.agents.started for line in agent.lines())
        return [line for line in lines if line["event"] == event]

    def _samples(self, watches: Sequence[QueueWatch], start_ns: int) -> dict[str, Rows]:
        """The table of samples of queues; empty: no queue was sampled."""
        dilation, head = self.task.loaded.dilation, self.task.head
        rows = [row for watch in watches for row in watch.rows(start_ns, dilation, head)]
        return {"samples": Rows("samples", rows)} if watches else {}

    def _volume(self, watches: Sequence[VolumeWatch], start_ns: int) -> dict[str, Rows]:
        """The table of the traffic volume of ports by slot; empty: it was not counted."""
        if not watches:
            return {}
        begun = {each.switch: start_ns - each.behind_ns for each in watches}
        dilation, head = self.task.loaded.dilation, self.task.head
        return {"volume": Rows("volume", watches[0].volumes.rows(dilation, head, begun))}

    def _copies(self, counters: Mapping[str, Counters], groups: Sequence[MulticastGroup]) -> int:
        """Copies, beyond the first one of each, that switches made of packets to groups."""
        return sum(
            cells[REPLICATED.name][group.group][0] * (len(ports) - 1)
            for switch, cells in counters.items()
            for group in groups
            if (ports := tree_ports(self.wall.topology, group, switch))
        )


NOT_GIVEN_OUT = "not-given-out"
"""Reason of losses in switches that have no statistics of queues."""


def lost_inside(
    before: tuple[int, int],
    after: tuple[int, int],
    copies: int,
    counters: Mapping[str, Counters],
) -> Row:
    """A row of `drops`: packets, with their copies, that interfaces received and did not send, and
    that the program did not drop."""
    taken_in, given_out = (late - early for early, late in zip(before, after, strict=True))
    dropped = sum(packets for cells in counters.values() for packets, _ in cells[DROPPED.name])
    return {"reason": NOT_GIVEN_OUT, "packets": taken_in + copies - given_out - dropped}


def _between(before: Mapping[str, Counters], after: Mapping[str, Counters]) -> dict[str, Counters]:
    """Growth of counters; those of a switch that was restarted count from zero."""
    return {
        switch: {
            name: [
                (late[0] - early[0], late[1] - early[1]) if late[0] >= early[0] else late
                for early, late in zip(before[switch][name], cells, strict=True)
            ]
            for name, cells in tables.items()
        }
        for switch, tables in after.items()
    }


def _subtract(before: tm.Stats, after: tm.Stats) -> None:
    """Subtracts earlier drops outside of queues: they count since the start of the switch, and no
    reset clears them."""
    known = {(drop.port, drop.reason): drop.count for drop in before.drops}
    drops = list(after.drops)
    del after.drops[:]
    for drop in drops:
        early = known.get((drop.port, drop.reason))
        if early is not None and drop.count.packets >= early.packets:
            drop.count.packets -= early.packets
            drop.count.bytes -= early.bytes
        if drop.count.packets:
            after.drops.append(drop)


def _since(line: Line, start_ns: int) -> Line:
    """The line with times since the start, as in lines of the simulator."""
    times = ("offered_at_ns", "started_at_ns", "finished_at_ns")
    known = (name for name in times if line.get(name) is not None)
    return line | {name: line[name] - start_ns for name in known}
