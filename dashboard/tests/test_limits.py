"""Use of every limit by our own tools, at most, against the limit itself: the table of
docs/security.md. Limits are read where they are written, in the code; so each has one place."""

from __future__ import annotations

import ast
import asyncio
import json
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ebb_controller.controller import AT_ONCE, FILES_PER_SWITCH, PUSHES_AT_ONCE
from ebb_controller.encoding import Encoder
from ebb_controller.mechanisms import PROGRAMS
from ebb_controller.plan import plan
from ebb_controller.prefixes import routes
from ebb_controller.program import Program
from ebb_controller.reconcile import BATCH
from ebb_controller.scheme import known_schemes, load_scheme
from ebb_controller.site import Site
from ebb_dashboard.feed import MAX_PAGES
from ebb_dashboard.orders import parsed
from ebb_dashboard.server import MAX_CONNECTIONS
from ebb_topologies.model import MAX_NODES, Topology, from_table
from finsy.proto import p4r
from support import BINARIES, ROOT, Told, needs_simulator, running
from test_simulated import watch

SERVER = "switch/p4runtime/src/server.rs"
GNMI = "switch/p4runtime/src/gnmi/mod.rs"
ARRAYS = "switch/pipeline/src/program/arrays.rs"
PAGE_CONNECTIONS = 7
"""Connections of a browser to one origin: six at once, and the stream of the live view."""
COUNTER_BYTES = 16
OPERATORS: dict[type, Callable[[int, int], int]] = {
    ast.LShift: operator.lshift,
    ast.Mult: operator.mul,
    ast.Add: operator.add,
}
UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def constant(file: str, name: str) -> int:
    """A number of the Rust sources."""
    text = (ROOT / file).read_text()
    pattern = rf"^(?:pub(?:\(\w+\))? )?const {name}: \w+ = ([^;]+);"
    (found,) = re.findall(pattern, text, re.MULTILINE)
    return value(ast.parse(found.replace("_", ""), mode="eval").body)


def value(node: ast.expr) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.BinOp(left=left, op=op, right=right):
            return OPERATORS[type(op)](value(left), value(right))
    raise AssertionError(ast.dump(node))


def said() -> Iterator[tuple[str, int, int]]:
    """The table of the page: limit, its number, our largest use."""
    page = (ROOT / "docs" / "security.md").read_text()
    table = page.split("| limit | number | our largest use |")[1].split("\n\n")[0]
    for line in table.splitlines()[2:]:
        name, number, use, _of = (cell.strip() for cell in line.strip("|").split(" | "))
        yield name, amount(number), amount(use)


def amount(text: str) -> int:
    number, _, unit = text.replace(",", "").partition(" ")
    return round(float(number) * UNITS.get(unit, 1))


@cache
def large() -> Topology:
    """The largest fabric that there is, of 1280 switches."""
    return from_table({"fat_tree": {"k": 32}}, "large")


@cache
def programs() -> list[Program]:
    return [
        Program(BINARIES.directory / f"{n}.p4info.txtpb", BINARIES.directory / f"{n}.json")
        for n in PROGRAMS
    ]


@cache
def push_bytes() -> int:
    """The longest push of a program of ours."""
    return max(
        p4r.SetForwardingPipelineConfigRequest(
            config=program.schema.get_pipeline_config()
        ).ByteSize()
        for program in programs()
    )


@cache
def entry_bytes() -> int:
    """The longest update that a plan of any scheme has, on a switch with the longest numbers."""
    topology = large()
    longest = 0
    for name in known_schemes():
        parameters = load_scheme(name).fabric
        schema = Program.of(BINARIES.directory, parameters).schema
        site = Site(topology, topology.switch("c255"), parameters)
        for entity in plan(site):
            (encoded,) = Encoder().planned([entity], schema)
            message = p4r.Entity.FromString(encoded.value)
            longest = max(longest, p4r.Update(entity=message, type=1).ByteSize())
    return longest


def batch_bytes() -> int:
    return BATCH * entry_bytes()


def arrays() -> list[tuple[int, int]]:
    """Cells and bytes of every array of a program, of the one that has most."""
    found = []
    for program in programs():
        content = json.loads(program.json.read_text())
        registers = [(r["size"], -(-r["bitwidth"] // 8)) for r in content["register_arrays"]]
        counters = [(c.get("size", 1), COUNTER_BYTES) for c in content["counter_arrays"]]
        found.append([(cells, cells * each) for cells, each in (*registers, *counters)])
    return max(found, key=lambda each: sum(size for _, size in each))


def of_p4info(what: str, name: str) -> Any:
    (found,) = (
        each for each in getattr(programs()[0].check(), what) if each.preamble.alias == name
    )
    return found


def most_routes() -> int:
    return max(len(list(routes(large(), name))) for name in ("p0e0", "p0a0", "c0"))


def most_groups() -> int:
    """A group per own host and per neighbour below, and those that go up; twice as many while a
    plan takes another one's place."""
    sets = {ports for name in ("p0e0", "p0a0", "c0") for _, ports in routes(large(), name)}
    return 2 * len(sets)


SWITCHES = 1280
LIMITS: dict[str, tuple[Callable[[], int], Callable[[], int]]] = {
    "a request": (
        lambda: constant(SERVER, "MAX_MESSAGE_BYTES"),
        lambda: max(push_bytes(), batch_bytes()),
    ),
    "requests of all clients of a process": (
        lambda: constant(SERVER, "MAX_MESSAGE_BYTES") * constant(SERVER, "MESSAGES_AT_ONCE"),
        lambda: PUSHES_AT_ONCE * push_bytes() + AT_ONCE * batch_bytes(),
    ),
    "requests of a connection": (
        lambda: constant(SERVER, "MAX_MESSAGE_BYTES") * constant(SERVER, "MESSAGES_OF_CONNECTION"),
        lambda: max(push_bytes(), batch_bytes()),
    ),
    "answers to reads that wait, of a device": (
        lambda: constant("switch/p4runtime/src/answer.rs", "PACKED_BYTES"),
        lambda: 1_000_000 * entry_bytes(),
    ),
    # A controller of a switch, and `ebb-ctl packets` beside it.
    "streams of a role": (
        lambda: constant("switch/p4runtime/src/arbitration.rs", "MAX_STREAMS_PER_ROLE"),
        lambda: 2,
    ),
    "streams of statistics of a device": (
        lambda: constant("switch/p4runtime/src/traffic.rs", "MOST_STREAMS"),
        lambda: 2,
    ),
    "streams of gNMI subscriptions of a device": (
        lambda: constant(GNMI, "MOST_STREAMS"),
        lambda: 0,
    ),
    "values kept for the gNMI clients of a device": (
        lambda: constant(GNMI, "MOST_VALUES"),
        lambda: 0,
    ),
    "file descriptors that `ebb-simulator` asks for": (
        lambda: (
            2 * constant(SERVER, "MIN_CONNECTIONS") * (SWITCHES + 1)
            + constant(SERVER, "OTHER_FILES")
        ),
        lambda: (1 + FILES_PER_SWITCH) * SWITCHES,
    ),
    "entries of `ipv4_route`": (lambda: of_p4info("tables", "ipv4_route").size, most_routes),
    "groups and members of `ecmp`": (
        lambda: of_p4info("action_profiles", "ecmp").size,
        most_groups,
    ),
    "cells of an array": (
        lambda: constant(ARRAYS, "MAX_CELLS"),
        lambda: max(cells for cells, _ in arrays()),
    ),
    "memory of all arrays of a program": (
        lambda: constant(ARRAYS, "MAX_BYTES"),
        lambda: sum(size for _, size in arrays()),
    ),
    "nodes of a topology": (lambda: MAX_NODES, lambda: len(large().hosts)),
    "pages of the live view": (lambda: MAX_PAGES, lambda: 2),
    "connections to the live view": (lambda: MAX_CONNECTIONS, lambda: 2 * PAGE_CONNECTIONS),
}
CONNECTIONS = "connections of an address, at least"


@needs_simulator
def test_every_limit_has_room_for_what_we_do_and_the_page_says_so() -> None:
    table = {name: (number, use) for name, number, use in said()}
    assert set(table) == {*LIMITS, CONNECTIONS}
    found = {name: (limit(), use()) for name, (limit, use) in LIMITS.items()}
    for name, (limit, use) in found.items():
        number, documented = table[name]
        assert number == limit, name
        assert use <= documented <= limit, (name, use)
        assert use * 10 >= documented, f"{name}: {use} is far below what the page says"


@needs_simulator
def test_a_controller_and_two_who_look_take_few_connections_of_a_switch(tmp_path: Path) -> None:
    """A simulation whose live view asks for all that it can ask for, twice at once."""
    (number, documented) = next((n, use) for name, n, use in said() if name == CONNECTIONS)
    assert number == constant(SERVER, "MIN_CONNECTIONS")
    told = Told()
    watched = watch(told, tmp_path, samples_hz=0)
    with running(watched):
        told.until(lambda: told.of("links"))
        most: Counter[str] = Counter()

        async def look() -> None:
            orders = [{"do": "switch", "switch": "l0"}, {"do": "queues", "link": 0}] * 2
            asked = [asyncio.create_task(watched.do(parsed(order))) for order in orders]
            while not all(task.done() for task in asked):
                for address, count in connections().items():
                    most[address] = max(most[address], count)
                await asyncio.sleep(0.001)
            await asyncio.gather(*asked)

        asyncio.run(look())
    assert 2 <= max(most.values()) <= documented <= number, most


def connections() -> Counter[str]:
    """Open connections by the address of the switch that they lead to."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    ends = (line.split()[1:4] for line in lines)
    # 127.64.0.0/10 is written the other way round; 01 is ESTABLISHED.
    return Counter(
        local for local, _far, state in ends if state == "01" and re.match("....[4-7].7F", local)
    )


def test_constants_are_read_as_rust_has_them() -> None:
    assert constant(SERVER, "MAX_MESSAGE_BYTES") == 16 * 2**20
    with pytest.raises(ValueError, match="not enough values"):
        constant(SERVER, "NO_SUCH")
