"""Rust that is generated from protobuf: whether it is up to date, and how it is made again.

    python tools/protos.py [--write]

P4Runtime's and gNMI's descriptors are those that finsy carries, so both sides of the wire have the
same messages, and the repository needs no copy of their .proto files. Together with those of
our own .proto files they make one FileDescriptorSet, from which `switch/p4-proto/generate` makes
Rust. Without --write nothing is compiled: the descriptors are made again and compared, and
SHA256SUMS has what the last run was given and what it made.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from finsy.proto import gnmi, p4r
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet

ROOT = Path(__file__).resolve().parents[1]
PROTOS = ROOT / "switch" / "p4-proto" / "proto"
MESSAGES = ROOT / "switch" / "p4-proto" / "src" / "generated"
SERVICES = ROOT / "switch" / "p4runtime" / "src" / "services"
GENERATOR = ROOT / "switch" / "p4-proto" / "generate"
DESCRIPTORS, SUMS = MESSAGES / "descriptors.fds", MESSAGES / "SHA256SUMS"
AGAIN = "run `make p4-proto`"


def descriptors() -> bytes:
    """P4Runtime, gNMI and our own services, every file after those that it imports."""
    found = FileDescriptorSet()
    seen: set[str] = set()
    _collect(p4r.DESCRIPTOR, found, seen)
    _collect(gnmi.DESCRIPTOR, found, seen)
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder) / "own.fds"
        names = sorted(path.name for path in PROTOS.glob("*.proto"))
        # Comments become those of the Rust code.
        options = ["-I", str(PROTOS), "--include_source_info", f"--descriptor_set_out={own}"]
        subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *options, *names], check=True)
        found.MergeFromString(own.read_bytes())
    return bytes(found.SerializeToString(deterministic=True))


def _collect(file: FileDescriptor, into: FileDescriptorSet, seen: set[str]) -> None:
    if file.name in seen:
        return
    seen.add(file.name)
    for dependency in file.dependencies:
        _collect(dependency, into, seen)
    file.CopyToProto(into.file.add())


def sums() -> dict[str, str]:
    """SHA-256 of what the generator reads and of what it has written, by path in the repository."""
    files = [DESCRIPTORS, GENERATOR / "Cargo.lock", *GENERATOR.glob("src/*.rs")]
    files += [*MESSAGES.glob("*.rs"), *SERVICES.glob("*.rs")]
    names = sorted(str(path.relative_to(ROOT)) for path in files)
    return {name: hashlib.sha256((ROOT / name).read_bytes()).hexdigest() for name in names}


def recorded(text: str) -> dict[str, str]:
    """The lines of a file that `sha256sum -c` reads."""
    pairs = (line.split(maxsplit=1) for line in text.splitlines())
    return {name: digest for digest, name in pairs}


def problems(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for name in sorted({*before, *now}):
        if before.get(name) != now.get(name):
            yield f"{name}: it is not as it was when the code was generated; {AGAIN}"


def write() -> None:
    DESCRIPTORS.write_bytes(descriptors())
    for made in (*MESSAGES.glob("*.rs"), *SERVICES.glob("*.rs")):
        made.unlink()
    command = ["cargo", "run", "--locked", "--manifest-path", str(GENERATOR / "Cargo.toml")]
    subprocess.run([*command, "--target-dir", str(ROOT / "target" / "generate")], check=True)
    SUMS.write_text("".join(f"{digest}  {name}\n" for name, digest in sums().items()))


def main() -> int:
    if "--write" in sys.argv[1:]:
        write()
        return 0
    wrong = [*problems(recorded(SUMS.read_text()), sums())]
    if DESCRIPTORS.read_bytes() != descriptors():
        wrong.append(f"{DESCRIPTORS.relative_to(ROOT)}: proto/ or finsy says otherwise; {AGAIN}")
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
