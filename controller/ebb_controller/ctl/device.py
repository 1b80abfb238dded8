"""The switch itself: program, ports, queues and traces."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ebb_topologies.bounded import content_of
from ebb_topologies.errors import InputError
from finsy.proto import p4i
from google.protobuf import text_format

from ebb_controller import ebb_tm_pb2 as tm
from ebb_controller.ctl import words
from ebb_controller.ctl.client import Client
from ebb_controller.ctl.command import Answer, Command, Rows
from ebb_controller.ctl.output import Row
from ebb_controller.ctl.stream import SwitchError


def info(client: Client, options: argparse.Namespace) -> Answer:
    """`info`: address, controller and program of the switch."""
    about: dict[str, Any] = {
        "address": client.place.address,
        "device_id": client.place.device_id,
        "p4runtime": client.version(),
        "primary": client.primary(),
    }
    try:
        about |= _program(client)
    except SwitchError:
        about["program"] = None
    return about


def program(client: Client, options: argparse.Namespace) -> Answer:
    """`program show`: name and contents of the program."""
    return _program(client)


def _program(client: Client) -> Row:
    schema = client.schema
    kinds = ("tables", "actions", "action_profiles", "counters", "direct_counters", "meters",
             "direct_meters", "registers", "digests", "value_sets")  # fmt: skip
    counts = {kind: len(getattr(schema, kind)) for kind in kinds}
    return {
        "program": schema.name or "(without a name)",
        "architecture": schema.arch,
        **{kind: count for kind, count in counts.items() if count},
    }


def p4info(client: Client, options: argparse.Namespace) -> Answer:
    """`program p4info`: the P4Info as text."""
    return str(text_format.MessageToString(client.schema.p4info))


def push(client: Client, options: argparse.Namespace) -> Answer:
    """`program push`: installs a program."""
    blob = content_of(options.program)
    text = content_of(options.p4info)
    found = p4i.P4Info()
    try:
        if options.p4info.suffix == ".bin":
            found.ParseFromString(text)
        else:
            text_format.Parse(text, found)
    except Exception as error:  # protobuf's errors have no class in common
        raise InputError(f"{options.p4info}: it is no P4Info: {error}") from error
    client.push(found, blob)
    return None


def ports(client: Client, options: argparse.Namespace) -> Answer:
    """`port list`: packets sent, queued and dropped, by port."""
    told = client.statistics()
    elsewhere: dict[int, dict[str, int]] = {}
    for drop in told.drops:
        elsewhere.setdefault(drop.port, {})[drop.reason] = drop.count.packets
    known = {port.port: port for port in told.ports}
    return [
        _port_row(number, known.get(number), elsewhere.get(number, {}))
        for number in sorted({*known, *elsewhere})
    ]


def _port_row(number: int, port: tm.PortStats | None, drops: dict[str, int]) -> Row:
    row: dict[str, Any] = {"port": number}
    if port:
        row |= {
            "profile": port.profile,
            "sent_packets": port.transmitted.packets,
            "sent_bytes": port.transmitted.bytes,
            "busy_ms": port.busy_ns / 1e6,
            "queued_packets": sum(queue.depth_packets for queue in port.queues),
        }
        queued = sum(d.count.packets for queue in port.queues for d in queue.drops)
        drops = {"queues": queued} | drops if queued else drops
    return row | ({"dropped": drops} if drops else {})


def queues(client: Client, options: argparse.Namespace) -> Answer:
    """`queue list`: depths, delays, marks and drops, by queue."""
    return [
        _queue_row(port.port, queue)
        for port in client.statistics().ports
        if options.port in (None, port.port)
        for queue in port.queues
    ]


def _queue_row(port: int, queue: tm.QueueStats) -> Row:
    return {
        "port": port,
        "queue": queue.queue,
        "packets": queue.depth_packets,
        "bytes": queue.depth_bytes,
        "most_packets": queue.max_depth_packets,
        "most_bytes": queue.max_depth_bytes,
        "in_packets": queue.enqueued.packets,
        "out_packets": queue.transmitted.packets,
        "marked_ce": queue.ecn_ce.packets,
        "deflected": queue.deflected.packets,
        "average_delay_us": queue.average_delay_ns / 1e3,
        "most_delay_us": queue.max_delay_ns / 1e3,
        "dropped": {drop.reason: drop.count.packets for drop in queue.drops},
    }


def reset_queues(client: Client, options: argparse.Namespace) -> Answer:
    """`queue reset`: starts all statistics anew."""
    client.statistics(reset=True)
    return None


def queue_config(client: Client, options: argparse.Namespace) -> Answer:
    """`queue config`: configuration of the traffic manager."""
    return client.queue_config() + "\n"


def set_queue_config(client: Client, options: argparse.Namespace) -> Answer:
    """`queue set-config`: replaces the configuration."""
    try:
        text = content_of(options.file).decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{options.file}: is not UTF-8 text (byte {error.start})") from error
    client.set_queue_config(text)
    return None


def trace(client: Client, options: argparse.Namespace) -> Answer:
    """`trace`: visits of the packets that come in from now on."""
    return _visits(client, options)


def _visits(client: Client, options: argparse.Namespace) -> Rows:
    for visit in client.trace(options.ports, options.packets):
        yield {
            "time_us": visit.time_ns / 1e3,
            "packet": visit.packet_id,
            "lost": visit.lost,
            "events": [event.text for event in visit.events],
        }


def visit_line(row: Row) -> str:
    """A part of a trace."""
    head = f"packet {row['packet']}, {row['time_us']:.3f} us"
    lost = [f"({row['lost']} visits before it were lost)"] if row["lost"] else []
    return "\n  ".join([head, *lost, *row["events"]])


def _files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("program", metavar="PROGRAM.json", type=Path, help="BMv2 JSON")
    parser.add_argument("p4info", metavar="P4INFO.txtpb", type=Path, help="or .bin")


def _file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="TOML or JSON")


def _port(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "port", metavar="PORT", nargs="?", type=words.natural(), help="without it: all"
    )


def _traced(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "ports", metavar="PORT", nargs="*", type=words.natural(), help="without it: all"
    )
    parser.add_argument(
        "--packets", type=words.natural(), default=0, metavar="N", help="end after N packets"
    )


COMMANDS = {
    "info": {"": Command("address, controller and program of the switch", info)},
    "program": {
        "show": Command("name and contents", program),
        "p4info": Command("the P4Info as text", p4info),
        "push": Command("installs a program", push, _files),
    },
    "port": {"list": Command("ports: what was sent, waits and was dropped", ports)},
    "queue": {
        "list": Command("queues: depths, delays, marks, drops", queues, _port),
        "reset": Command("starts all statistics anew", reset_queues),
        "config": Command("configuration of the traffic manager", queue_config),
        "set-config": Command("replaces the configuration", set_queue_config, _file),
    },
    "trace": {
        "": Command(
            "what happens to packets that come in, until Ctrl-C", trace, _traced, line=visit_line
        )
    },
}
