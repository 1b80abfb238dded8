"""Writes the P4Runtime message descriptors, as finsy carries them, to one FileDescriptorSet.

The Rust build reads that file. So the repository needs neither a copy of the P4Runtime .proto files
nor protoc, and both sides of the wire are generated from the same descriptors.
"""

import argparse
import sys
from pathlib import Path

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet


def collect(file: FileDescriptor, into: FileDescriptorSet, seen: set[str]) -> None:
    """Append `file` after everything it imports: the order that readers of the set expect."""
    if file.name in seen:
        return
    seen.add(file.name)
    for dependency in file.dependencies:
        collect(dependency, into, seen)
    file.CopyToProto(into.file.add())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path, help="file to write, for example build/p4runtime.fds")
    output: Path = parser.parse_args().output
    try:
        from finsy.proto import p4r
    except ImportError as error:
        hint = "run it with the Python that `make setup` creates"
        print(f"descriptors.py: {error}; {hint}", file=sys.stderr)
        return 1

    descriptors = FileDescriptorSet()
    collect(p4r.DESCRIPTOR, descriptors, set())
    data = descriptors.SerializeToString(deterministic=True)
    # An unchanged file keeps its time stamp, so that cargo does not build the crate again.
    if not output.exists() or output.read_bytes() != data:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_bytes(data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
