"""Files that are written whole or not at all, and errors in what is read."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest
from ebb_topologies.files import InputError, load, replacing, text_of, validate, write
from pydantic import BaseModel, Field

FULL = """
import resource, signal, sys
from pathlib import Path
from ebb_topologies.files import write
# Nothing longer can be written: as on a full disk, but for the error's number.
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    write(Path(sys.argv[1]), b"x" * 8192)
except OSError as error:
    print(error.filename)
"""


def test_a_file_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "table.md"
    path.write_text("old")
    write(path, "new")
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "table.md"
    path.write_text("old")
    with pytest.raises(OSError, match="No space left") as caught, replacing(path) as part:
        part.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")
    assert caught.value.filename == str(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_told_with_the_path(tmp_path: Path) -> None:
    path = tmp_path / "object.bin"
    command = [sys.executable, "-c", FULL, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(path)
    assert list(tmp_path.iterdir()) == []


class Limited(BaseModel):
    k: int = Field(ge=2)


def test_a_value_out_of_range_is_told_with_the_value() -> None:
    with pytest.raises(InputError) as error:
        validate(Limited, {"k": 0}, "K")
    assert str(error.value) == "K: 'k': must be greater than or equal to 2, not 0"


class Nested(BaseModel):
    each: list[Limited]
    on: bool
    share: float = 0.0


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({"each": [{"k": 2}, {"k": 3}], "on": False, "share": True}, "'share': must be a number, "),
        ({"each": [{"k": 2}, {"k": True}], "on": True}, "'each.1.k': must be "),
    ],
)
def test_true_is_no_number(data: dict[str, object], told: str) -> None:
    with pytest.raises(InputError, match=f"^N: {told}") as error:
        validate(Nested, data, "N")
    assert str(error.value).lower().endswith(", not true")


def test_true_is_true() -> None:
    assert validate(Nested, {"each": [{"k": 2}], "on": True}, "N").on is True


def test_what_has_no_end_is_not_read_to_its_end() -> None:
    for read in (load, text_of):
        with pytest.raises(InputError, match="/dev/zero: has more than 256 MiB"):
            read(Path("/dev/zero"))
