"""Packets from and to a switch, and its digests, as a controller sees them."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from ebb_topologies.bounded import content_of
from ebb_topologies.errors import InputError
from finsy import P4DigestEntry
from finsy.p4entity import P4DigestList, P4PacketIn
from finsy.p4schema import P4Schema
from finsy.proto import p4r

from ebb_controller.ctl import values, words
from ebb_controller.ctl.client import Channel, Client
from ebb_controller.ctl.command import Answer, Command, Rows, names
from ebb_controller.ctl.output import Row, cell
from ebb_controller.ctl.stream import SwitchError

PACKET_IN, PACKET_OUT = "packet_in", "packet_out"
"""P4Runtime's names of the headers of these packets (`@controller_header`)."""
DIGEST_CONFIG = {"max_list_size": 1, "max_timeout_ns": 0, "ack_timeout_ns": 0}
"""Lists of a digest that no controller has asked for: each is sent at once, and may come again."""


def _first(rows: Rows, count: int) -> Rows:
    """The first ones; 0: all."""
    with closing(rows):
        for number, row in enumerate(rows, start=1):
            yield row
            if number == count:
                return


def packets_in(client: Client, options: argparse.Namespace) -> Answer:
    """`packet in`: packets that the switch sends to the controller."""
    return _first(_packets(client), options.packets)


def _packets(client: Client) -> Rows:
    schema = client.schema
    with client.stream("packet in") as channel:
        for update in channel.updates():
            if update.HasField("packet"):
                yield _packet_row(schema, P4PacketIn.decode(update, schema))


def _packet_row(schema: P4Schema, packet: P4PacketIn) -> Row:
    header = schema.controller_packet_metadata.get(PACKET_IN)
    widths = {field.name: field.bitwidth for field in header.metadata} if header else {}
    metadata = {name: values.shown(value, widths[name]) for name, value in packet.metadata.items()}
    return {
        "metadata": metadata, "bytes": len(packet.payload), "payload": packet.payload.hex()
    }  # fmt: skip


def packet_line(row: Row) -> str:
    """A received packet in one line."""
    head = f"{cell(row['metadata'])} " if row["metadata"] else ""
    return f"{head}{row['bytes']} bytes: {row['payload']}"


def packet_out(client: Client, options: argparse.Namespace) -> Answer:
    """`packet out`: sends a packet through the switch."""
    request = p4r.StreamMessageRequest(packet=_packet(client.schema, options))
    with client.stream("packet out") as channel:
        channel.send(request)
    return None


def _packet(schema: P4Schema, options: argparse.Namespace) -> p4r.PacketOut:
    payload = _payload(options.payload)
    header = schema.controller_packet_metadata.get(PACKET_OUT)
    known = [field.name for field in header.metadata] if header else []
    given = words.assigned(options.words, known, f"header {PACKET_OUT}: field")
    if set(given) != set(known):
        raise InputError(f"header {PACKET_OUT}: expected its fields: {', '.join(known) or 'none'}")
    try:
        metadata = header.encode(given) if header else []
    except ValueError as error:
        raise InputError(f"header {PACKET_OUT}: {error}") from error
    return p4r.PacketOut(payload=payload, metadata=metadata)


def _payload(text: str) -> bytes:
    """Hexadecimal digits, or `@FILE`."""
    if text.startswith("@"):
        return content_of(Path(text[1:]))
    try:
        return bytes.fromhex(text.removeprefix("0x"))
    except ValueError as error:
        raise InputError(
            f"payload: expected pairs of hexadecimal digits, or @FILE, not '{text}'"
        ) from error


def digests(client: Client, options: argparse.Namespace) -> Answer:
    """`digest list`: digests of the program with their types."""
    return [
        {"digest": digest.alias, "type": values.of_type(digest.type_spec)}
        for digest in client.schema.digests
    ]


def watch(client: Client, options: argparse.Namespace) -> Answer:
    """`digest watch`: digests as they come."""
    return _first(_digests(client, options.digests), options.count)


def _digests(client: Client, chosen: Sequence[str]) -> Rows:
    schema = client.schema
    wanted = [words.named(schema.digests, n).alias for n in chosen or names(schema.digests)]
    if not wanted:
        raise InputError("the program has no digests")
    with client.stream("digest watch") as channel:
        asked = _ask_for(client, channel, wanted)
        try:
            for update in channel.updates():
                if update.HasField("digest"):
                    yield from _digest_rows(schema, P4DigestList.decode(update, schema), wanted)
        except SwitchError:
            # They are now of the one who has taken over.
            asked = []
            raise
        finally:
            client.write(p4r.Update.DELETE, map(P4DigestEntry, asked), channel.writer)


def _ask_for(client: Client, channel: Channel, wanted: Iterable[str]) -> list[str]:
    """Configures those digests that no controller has configured, and returns them. Lists of the
    others are acknowledged by who wanted them; ours need none."""
    there = {entry.digest_id for entry in client.read(P4DigestEntry())}
    asked = [name for name in wanted if name not in there]
    entries = [P4DigestEntry(name, **DIGEST_CONFIG) for name in asked]
    client.write(p4r.Update.INSERT, entries, channel.writer)
    return asked


def _digest_rows(schema: P4Schema, told: P4DigestList, wanted: Sequence[str]) -> Rows:
    kind = schema.digests[told.digest_id].type_spec
    for data in told if told.digest_id in wanted else ():
        yield {
            "digest": told.digest_id, "list": told.list_id, "data": values.of_data(kind, data)
        }  # fmt: skip


def digest_line(row: Row) -> str:
    """A digest in one line."""
    return f"{row['digest']}: {cell(row['data'])}"


def _received(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--packets", type=words.natural(), default=0, metavar="N", help="end after N packets"
    )


def _sent(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("payload", metavar="PAYLOAD", help="the frame in hexadecimal, or @FILE")
    usage = f"of the header {PACKET_OUT}, or values in its order"
    parser.add_argument("words", metavar="FIELD=VALUE", nargs="*", help=usage)


def _watched(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("digests", metavar="DIGEST", nargs="*", help="without it: all")
    parser.add_argument(
        "--count", type=words.natural(), default=0, metavar="N", help="end after N digests"
    )


def _fields_of_packet_out(schema: P4Schema, given: Sequence[str]) -> Iterable[str]:
    header = schema.controller_packet_metadata.get(PACKET_OUT)
    taken = {word.partition("=")[0] for word in given[1:]}
    fields = [field.name for field in header.metadata] if header and given else []
    return [f"{name}=" for name in fields if name not in taken]


def _digest_names(schema: P4Schema, given: Sequence[str]) -> Iterable[str]:
    return [name for name in names(schema.digests) if name not in given]


COMMANDS: dict[str, dict[str, Any]] = {
    "packet": {
        "in": Command(
            "packets for the controller, until Ctrl-C", packets_in, _received, line=packet_line
        ),
        "out": Command("sends a packet", packet_out, _sent, _fields_of_packet_out),
    },
    "digest": {
        "list": Command("digests and their fields", digests),
        "watch": Command(
            "digests that the program sends, until Ctrl-C", watch, _watched, _digest_names,
            line=digest_line,
        ),
    },
}  # fmt: skip
