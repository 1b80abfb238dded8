"""Messages of protobuf put together from encoded parts, and split into them, without an object for
each part.

https://protobuf.dev/programming-guides/encoding
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import cast

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_LENGTH_DELIMITED = 2
"""Wire type of messages and byte strings."""


@lru_cache(maxsize=4096)
def varint(number: int) -> bytes:
    """A number of at least 0: seven bits a byte, the lowest first; all bytes but the last one have
    the highest bit set."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def header(field: int, length: int) -> bytes:
    """The bytes before a message or a byte string of this length."""
    return varint(field << 3 | _LENGTH_DELIMITED) + varint(length)


@cache
def splitter(field: int) -> Callable[[bytes], Sequence[bytes]]:
    """A function that returns the encoded messages of a repeated field of an encoded message.

    The encoding does not distinguish a submessage from a byte string, so the message is parsed as
    one whose only field is a list of byte strings.
    """
    file = descriptor_pb2.FileDescriptorProto(name=f"parts_{field}.proto", package="ebb.parts")
    descriptor = descriptor_pb2.FieldDescriptorProto
    file.message_type.add(name=f"Parts{field}").field.add(
        name="parts", number=field, type=descriptor.TYPE_BYTES, label=descriptor.LABEL_REPEATED
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    name = f"ebb.parts.Parts{field}"
    parts = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))

    def split(message: bytes) -> Sequence[bytes]:
        return cast("Sequence[bytes]", parts.FromString(message).parts)

    return split
