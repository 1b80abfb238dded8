"""Bytes of a file that may be compressed, in pieces of bounded size."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ebb_topologies.errors import InputError

from ebb_volume.notes import Damaged

PIECE_BYTES = 1 << 20
"""Most bytes of a piece."""
FREE_BYTES = 1 << 30
"""Decompressed bytes up to which any ratio is accepted."""
MAX_EXPANSION = 250
"""Most decompressed bytes per byte of the file, above `FREE_BYTES`. Captures of one packet that
repeats reach 100; DEFLATE can reach 1032, Zstandard millions."""
GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
GZIP_WINDOW = 16 + zlib.MAX_WBITS
"""For zlib: the header is gzip's."""


class Stream:
    """A file from its first byte to its last, decompressed."""

    def __init__(self, path: Path, free_bytes: int = FREE_BYTES) -> None:
        """Raises `InputError`. `path`: `-` is standard input."""
        self.path = path
        self._free_bytes = free_bytes
        self._read_bytes = 0
        self._given_bytes = 0
        self._file = _opened(path)
        self.size_bytes = _size(path)
        """Bytes of the file; none: it is no regular file."""
        self._held = b""
        self._pieces = self._decompressed(self._raw())

    @property
    def read_bytes(self) -> int:
        """Bytes of the file that have been read, compressed as they are."""
        return self._read_bytes

    def peek(self, length: int) -> bytes:
        """The next bytes, which are not consumed; fewer at the end."""
        while len(self._held) < length:
            piece = next(self._pieces, b"")
            if not piece:
                break
            self._held += piece
        return self._held[:length]

    def __iter__(self) -> Iterator[bytes]:
        """The rest of the file in pieces. Raises `Damaged`."""
        if self._held:
            held, self._held = self._held, b""
            yield held
        for piece in self._pieces:
            self._given_bytes += len(piece)
            self._check_expansion()
            yield piece

    def _check_expansion(self) -> None:
        limit = max(self._free_bytes, MAX_EXPANSION * self._read_bytes)
        if self._given_bytes > limit:
            raise Damaged(
                f"{self.path}: {self._read_bytes} bytes have become {self._given_bytes}, more than "
                f"{MAX_EXPANSION} times as many: it is not read further; decompress it by hand if "
                "you trust it"
            )

    def _raw(self) -> Iterator[bytes]:
        try:
            while piece := self._file.read(PIECE_BYTES):
                self._read_bytes += len(piece)
                yield piece
        except OSError as error:
            raise Damaged(f"{self.path}: cannot be read further: {error.strerror}") from error

    def _decompressed(self, raw: Iterator[bytes]) -> Iterator[bytes]:
        first = next(raw, b"")
        if first.startswith(GZIP_MAGIC):
            yield from self._gunzipped(_again(first, raw))
        elif first.startswith(ZSTD_MAGIC):
            yield from self._unzstd(_again(first, raw))
        else:
            yield from _again(first, raw)

    def _gunzipped(self, raw: Iterator[bytes]) -> Iterator[bytes]:
        member, begun = zlib.decompressobj(GZIP_WINDOW), False
        try:
            for piece in raw:
                while piece:
                    begun = True
                    yield member.decompress(piece, PIECE_BYTES)
                    piece = member.unconsumed_tail
                    if member.eof:  # another member may follow, or padding
                        piece = member.unused_data.lstrip(b"\0")
                        member, begun = zlib.decompressobj(GZIP_WINDOW), False
            yield member.flush()
        except zlib.error as error:
            raise Damaged(f"{self.path}: damaged gzip data: {error}") from error
        if begun and not member.eof:
            raise Damaged(f"{self.path}: the gzip data ends early")

    def _unzstd(self, raw: Iterator[bytes]) -> Iterator[bytes]:
        import pyarrow as pa

        file = pa.PythonFile(PieceReader(raw), mode="r")
        with pa.CompressedInputStream(file, "zstd") as stream:
            try:
                while piece := stream.read(PIECE_BYTES):
                    yield piece
            except (OSError, pa.ArrowException) as error:
                said = str(error).splitlines()[0]
                raise Damaged(f"{self.path}: damaged Zstandard data: {said}") from error

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def _again(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    if first:
        yield first
    yield from rest


class PieceReader:
    """Pieces as a file that Arrow reads."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._held = b""
        self.closed = False

    def read(self, length: int = -1) -> bytes:
        """Up to `length` bytes; negative: as many as are there; none at the end."""
        while not self._held:
            piece = next(self._pieces, None)
            if piece is None:
                return b""
            self._held = piece
        length = len(self._held) if length < 0 else length
        found, self._held = self._held[:length], self._held[length:]
        return found

    def close(self) -> None:
        """Marks the file as closed, for Arrow; there is nothing to release."""
        self.closed = True


def _opened(path: Path) -> IO[bytes]:
    if str(path) == "-":
        import sys

        return sys.stdin.buffer
    try:
        return path.open("rb")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.is_file() else None
