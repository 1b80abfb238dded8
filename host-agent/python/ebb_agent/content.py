"""Sources and destinations of content, as descriptors."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

Source = str | os.PathLike[str] | bytes | bytearray | memoryview
Destination = str | os.PathLike[str] | BinaryIO | int


@contextmanager
def source_descriptor(source: Source) -> Iterator[int]:
    """A descriptor of the content: of the regular file, or of a memfd with the bytes."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        descriptor = os.memfd_create("ebb-object")
        rest = memoryview(source).cast("B")
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    else:
        # Opening a FIFO would wait for a writer.
        descriptor = os.open(source, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def name_of(source: Source, name: str | None) -> str:
    """The name of an object, by default that of its file."""
    if name is not None:
        return name
    if isinstance(source, (bytes, bytearray, memoryview)):
        raise ValueError("bytes have no name: give the object one with name=")
    return Path(source).name


class Target:
    """Destination of one object. A file appears, complete, when `keep` is called, or not at all."""

    def __init__(self, into: Destination | None) -> None:
        self._temporary: tuple[Path, Path] | None = None
        """A file that is not kept yet, and the name that it will have."""
        self._owned = True
        """Whether the descriptor is closed with this."""
        self._is_memory = into is None
        if into is None:
            self.descriptor = os.memfd_create("ebb-object")
        elif isinstance(into, int):
            self.descriptor, self._owned = into, False
        elif isinstance(into, (str, os.PathLike)):
            path = Path(into)
            if path.is_dir():
                # The daemon gives the file its name when it is complete.
                self.descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            else:
                self.descriptor, name = tempfile.mkstemp(
                    prefix=".ebb-", suffix=".part", dir=path.parent
                )
                os.fchmod(self.descriptor, 0o666 & ~current_umask())
                self._temporary = (Path(name), path)
        else:
            self.descriptor, self._owned = into.fileno(), False

    def keep(self) -> bytes | None:
        """Called when the whole object has arrived and is correct. Returns the content if the
        target is memory, else None."""
        if self._temporary is not None:
            temporary, path = self._temporary
            temporary.replace(path)
            self._temporary = None
        if not self._is_memory:
            return None
        length = os.fstat(self.descriptor).st_size
        parts = []
        offset = 0
        while offset < length:
            part = os.pread(self.descriptor, length - offset, offset)
            if not part:
                break
            parts.append(part)
            offset += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        """Closes the descriptor, and removes a file that was not kept."""
        if self._owned:
            os.close(self.descriptor)
            self._owned = False
        if self._temporary is not None:
            self._temporary[0].unlink(missing_ok=True)


def current_umask() -> int:
    """The umask of this process, from /proc: there is no other way to read it without setting
    it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("Umask:"):
            return int(line.split()[1], 8)
    return 0o022
