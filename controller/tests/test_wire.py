"""Messages put together from parts and taken apart, against protobuf's own encoding."""

from __future__ import annotations

from ebb_controller.wire import header, splitter, varint
from finsy.proto import p4r
from hypothesis import given
from hypothesis import strategies as st


@given(st.integers(0, (1 << 63) - 1))
def test_a_number_is_encoded_as_protobuf_does(number: int) -> None:
    expected = p4r.WriteRequest(device_id=number).SerializeToString() or b"\x08\0"
    assert b"\x08" + varint(number) == expected


@given(st.lists(st.binary(max_size=300)))
def test_parts_are_those_put_into_a_message(values: list[bytes]) -> None:
    parts = [p4r.PacketIn(payload=value).SerializeToString() for value in values]
    other = p4r.StreamMessageResponse(packet=p4r.PacketIn(payload=b"x")).SerializeToString()
    message = other + b"".join(header(200, len(part)) + part for part in parts)
    assert list(splitter(200)(message)) == parts
    assert list(splitter(201)(message)) == []


@given(st.lists(st.integers(1, 1 << 20)))
def test_entities_of_a_reply_are_split(ids: list[int]) -> None:
    reply = p4r.ReadResponse()
    for each in ids:
        reply.entities.add().table_entry.table_id = each
    parts = splitter(p4r.ReadResponse.ENTITIES_FIELD_NUMBER)(reply.SerializeToString())
    assert [p4r.Entity.FromString(part) for part in parts] == list(reply.entities)
