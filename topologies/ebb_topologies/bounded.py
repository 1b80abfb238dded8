"""Files that people name, read whole: up to a length that none of theirs has."""

from __future__ import annotations

from pathlib import Path

from ebb_topologies.errors import InputError

MAX_BYTES = 2**28
"""Most bytes of a file that is read whole; none that people or programs write here comes near."""


def bytes_of(path: Path) -> bytes:
    """The content of a file. A name may be that of a device, which has no end: a file that is
    longer than `MAX_BYTES` is an `InputError`."""
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise InputError(f"{path}: has more than {MAX_BYTES >> 20} MiB")
    return content


def content_of(path: Path) -> bytes:
    """The same of a file that is named on a command line: what cannot be read is an `InputError`,
    too."""
    try:
        return bytes_of(path)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
