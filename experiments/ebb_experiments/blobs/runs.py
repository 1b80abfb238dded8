"""A run: clients, faults, repair, and what is wrong with what was seen."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from random import Random

from ebb_controller.fabric_admin import FabricAdmin

from ebb_experiments.blobs.history import INFINITY, Operation, linearize, unfounded_conflicts
from ebb_experiments.blobs.plan import CLIENTS, NAMES, ClientOperation, Fault, Plan
from ebb_experiments.blobs.store import Store
from ebb_experiments.run.agents import AgentError

RECOVERY_SECONDS = 30.0
"""How long all replicas may take to be there after the last fault."""
REPAIRS = 3
"""How many repairs there may be until every tract is on all replicas of its row."""
LOSS = 0.2


@dataclass
class Report:
    """Observations of a run."""

    plan: Plan
    history: list[Operation] = field(default_factory=list)
    failed: int = 0
    """Operations that had no effect and said so."""
    done: list[str] = field(default_factory=list)
    """Faults that happened."""
    wrong: list[str] = field(default_factory=list)
    """Everything that must not be; empty: the run is sound."""
    seconds: float = 0.0


def run(store: Store, admin: FabricAdmin, wait: Callable[..., object], plan: Plan) -> Report:
    """Plays a plan on a store that was just started. `wait` runs what the admin is asked for."""
    report, began = Report(plan), time.monotonic()
    contents: dict[str, str] = {}
    with ThreadPoolExecutor(len(CLIENTS) + len(plan.faults) + 1) as pool:
        clients = [
            pool.submit(_client, store, host, done, contents, report)
            for host, done in plan.operations.items()
        ]
        faults = [
            pool.submit(_fault, store, admin, wait, fault, began, report) for fault in plan.faults
        ]
        for each in (*faults, *clients):
            each.result()
    _recover(store, report)
    for name in NAMES:
        _operate(store, CLIENTS[0], ClientOperation("get", 0, name), contents, report)
    _operate(store, CLIENTS[0], ClientOperation("list", 0), contents, report)
    _judge(store, report)
    report.seconds = time.monotonic() - began
    path = store.folder / "history.json"
    path.write_text(json.dumps(asdict(report), indent=1))
    return report


def _client(
    store: Store,
    host: str,
    operations: list[ClientOperation],
    contents: dict[str, str],
    report: Report,
) -> None:
    for each in operations:
        time.sleep(each.after_seconds)
        _operate(store, host, each, contents, report)


def _operate(
    store: Store, host: str, do: ClientOperation, contents: dict[str, str], report: Report
) -> None:
    """Does an operation and adds what was seen of it to the history."""
    path = store.folder / f"{host}-{time.monotonic_ns()}"
    sha256 = ""
    if do.what == "put":
        content = Random(f"{path}").randbytes(do.size_bytes)
        path.write_bytes(content)
        sha256 = hashlib.sha256(content).hexdigest()
        contents[sha256] = path.name
    words = {
        "put": ["put", str(path), "--name", do.name, *(["--multicast"] if do.multicast else [])],
        "get": ["get", do.name, "--output", str(path)],
        "list": ["list"],
    }[do.what]
    began = time.monotonic()
    outcome = store.command(host, *words)
    ended = time.monotonic()
    lines = outcome.lines
    status = lines[0].get("status") if lines else None
    if do.what == "list":
        if outcome.code == 0:
            listed = tuple(sorted((line["name"], line["version"]) for line in lines))
            report.history.append(Operation("list", began, ended, listed=listed))
            return
        status = "failed"
    version = lines[0].get("version", 0) if lines else 0
    match do.what, status:
        case "put", "stored":
            done = Operation("put", began, ended, do.name, path.name, version)
        case "put", "conflict":
            done = Operation("lost", began, ended, do.name)
        case "put", "unknown" | None:
            done = Operation("may-put", began, INFINITY, do.name, path.name)
        case "get", "got" if not path.exists():
            report.wrong.append(f"get says that it has read {do.name}, and {path} is not there")
            return
        case "get", "got":
            read = hashlib.sha256(path.read_bytes()).hexdigest()
            source = contents.get(read, f"a content that nobody wrote, in {path}")
            done = Operation("get", began, ended, do.name, source, version)
        case "get", "missing":
            done = Operation("get", began, ended, do.name)
        case _:
            report.failed += 1
            return
    report.history.append(done)


def _fault(
    store: Store,
    admin: FabricAdmin,
    wait: Callable[..., object],
    fault: Fault,
    began: float,
    report: Report,
) -> None:
    time.sleep(max(0.0, began + fault.at_seconds - time.monotonic()))
    topology = store.fabric.topology
    edge = topology.attachment(topology.host(fault.host)).node
    report.done.append(f"{fault.kind} {fault.host}")
    match fault.kind:
        case "kill-replica":
            store.kill(fault.host)
            time.sleep(fault.for_seconds)
            store.start_replica(fault.host)
        case "kill-locator":
            store.kill("locator")
            time.sleep(fault.for_seconds)
            store.start_locator()
        case "cut-off":
            wait(admin.set_link(fault.host, edge, up=False))
            time.sleep(fault.for_seconds)
            wait(admin.set_link(fault.host, edge, up=True))
        case "loss":
            wait(admin.set_link(fault.host, edge, loss=LOSS))
            time.sleep(fault.for_seconds)
            wait(admin.set_link(fault.host, edge, loss=0.0))
        case "restart-switch":
            wait(admin.restart_switch(edge))
        case "kill-client":
            if not store.kill_client(fault.host):
                report.done[-1] += " (idle)"
        case "damage":
            if not store.damage(fault.host):
                report.done[-1] += " (empty)"


def _recover(store: Store, report: Report) -> None:
    """Waits for all replicas, and repairs until nothing is short."""
    deadline = time.monotonic() + RECOVERY_SECONDS
    while (alive := store.alive()) < len(store.hosts):
        if time.monotonic() > deadline:
            report.wrong.append(f"{alive} of {len(store.hosts)} replicas are back")
            return
        time.sleep(0.2)
    for _ in range(REPAIRS):
        try:
            lines = store.command(CLIENTS[0], "repair").lines
        except AgentError as error:
            report.wrong.append(str(error))
            return
        if lines and lines[-1]["short"] == lines[-1]["lost"] == 0:
            return
    report.wrong.append(f"after {REPAIRS} repairs: {lines[-1] if lines else 'no answer'}")


def _judge(store: Store, report: Report) -> None:
    history = report.history
    report.wrong += [f"{path} is damaged after a repair" for path in store.unsound()]
    if linearize(history) is None:
        report.wrong.append("the history is not linearizable")
    report.wrong += [
        f"a put of {lost.name} lost to nobody" for lost in unfounded_conflicts(history)
    ]
    final = [each for each in history[-len(NAMES) - 1 :] if each.did in ("get", "list")]
    if len(final) <= len(NAMES):
        report.wrong.append("blobs cannot be read after all faults are over")
