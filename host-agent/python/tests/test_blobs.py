"""The Python client of the blob store, with a command that answers as `ebb-agent blob` does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ebb_agent import Blob, BlobError, Blobs


def store(folder: Path, *, lines: list[dict[str, object]], code: int = 0) -> Blobs:
    """A store whose command notes its arguments, copies what it is given, and prints the lines."""
    script = folder / "ebb-agent"
    text = "".join(json.dumps({"event": "blob", **line}) + "\n" for line in lines)
    (folder / "lines").write_text(text)
    script.write_text(
        "#!/bin/sh\n"
        f'printf "%s\\n" "$@" > {folder}/arguments\n'
        f'for last; do :; done; [ -f "$last" ] && cp "$last" {folder}/given\n'
        'while [ $# -gt 0 ]; do [ "$1" = --output ] && printf content > "$2"; shift; done\n'
        f"cat {folder}/lines; echo what is wrong >&2; exit {code}\n"
    )
    script.chmod(0o755)
    return Blobs("10.0.0.9:7191", agent=str(script))


def test_bytes_and_files_are_stored(tmp_path: Path) -> None:
    line = {"did": "put", "name": "--a", "bytes": 3, "status": "stored", "version": 2}
    blobs = store(tmp_path, lines=[line])
    assert blobs.put("--a", b"abc") == Blob("--a", 2, 3)
    assert (tmp_path / "given").read_bytes() == b"abc"
    arguments = (tmp_path / "arguments").read_text().splitlines()
    expected = "blob put --json --locator 10.0.0.9:7191 --transport scdp --name=--a --"
    assert arguments[:-1] == expected.split()
    source = tmp_path / "source"
    source.write_bytes(b"of a file")
    blobs.put("a", source, multicast=True)
    assert (tmp_path / "given").read_bytes() == b"of a file"
    assert "--multicast" in (tmp_path / "arguments").read_text()


def test_a_blob_is_read(tmp_path: Path) -> None:
    line = {"did": "get", "name": "a", "bytes": 7, "status": "got", "version": 1}
    blobs = store(tmp_path, lines=[line])
    assert blobs.get("a") == b"content"
    assert blobs.get("a", into=tmp_path / "here") == b""
    assert (tmp_path / "here").read_bytes() == b"content"


def test_all_are_listed(tmp_path: Path) -> None:
    lines = [{"did": "list", "name": name, "bytes": 1, "version": 3} for name in ("a", "b")]
    assert store(tmp_path, lines=lines).list() == [Blob("a", 3, 1), Blob("b", 3, 1)]
    assert store(tmp_path, lines=[]).list() == []


def test_what_fails_says_how(tmp_path: Path) -> None:
    conflict = {"name": "a", "bytes": 3, "status": "conflict", "version": 2, "reason": "a rival"}
    with pytest.raises(BlobError, match="a rival") as raised:
        store(tmp_path, lines=[conflict], code=1).put("a", b"abc")
    assert raised.value.status == "conflict"
    with pytest.raises(BlobError, match="missing") as raised:
        store(tmp_path, lines=[{"name": "a", "status": "missing"}], code=1).get("a")
    assert raised.value.status == "missing"
    with pytest.raises(BlobError, match="what is wrong"):
        store(tmp_path, lines=[], code=2).list()
