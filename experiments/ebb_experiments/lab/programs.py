"""Programs of a lab: compiled ones as they are, sources as ebb-p4c compiles them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ebb_topologies.errors import InputError

from ebb_experiments.lab.file import ProgramSpec

QUEUES = {"v1model": 8, "tna": 32, "t2na": 32}
"""Queues of a port that programs of an architecture name; others name those of v1model."""

COOKIE = 1
"""By which a controller that gives programs cookies knows that it has not sent this one."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A program as a switch takes it."""

    json: Path
    """BMv2 JSON."""
    p4info: Path
    """P4Info as text, or binary."""
    schema: Path | None
    """Schema of BF Runtime, by which that is served; none: it is not."""

    @property
    def files(self) -> dict[str, Any]:
        """Its keys of the network file."""
        program = {"json": str(self.json), "p4info": str(self.p4info), "cookie": COOKIE}
        if self.schema is None:
            return {"program": program}
        schema = {"file": str(self.schema), "name": self.json.stem}
        return {"program": program, "bf_rt_schema": schema}

    @property
    def queues(self) -> int:
        """How many queues of a port it names."""
        return QUEUES.get(_architecture(self.json), QUEUES["v1model"])


def _architecture(path: Path) -> str:
    """The architecture that BMv2 JSON names, whatever the file is called; none: v1model."""
    try:
        program = json.loads(path.read_text())
        return str(program.get("architecture", "v1model"))
    except (ValueError, AttributeError) as error:
        raise InputError(
            f"{path} is no BMv2 JSON: {error}; give the file that -o of ebb-p4c wrote"
        ) from error


def compiled(
    programs: Mapping[str, ProgramSpec], folder: Path, compiler: Path, out: Path
) -> dict[str, Compiled]:
    """The programs of switches, by the names of these; paths are relative to `folder`. Sources are
    compiled side by side into folders of `out`. Raises `InputError` with what the compiler says."""

    def made(switch: str) -> Compiled:
        spec = programs[switch]
        if spec.json_file is not None and spec.p4info is not None:
            schema = spec.bf_rt_schema and folder / spec.bf_rt_schema
            return Compiled(folder / spec.json_file, folder / spec.p4info, schema or None)
        return _compile(switch, spec, folder, compiler, out / switch)

    with ThreadPoolExecutor() as pool:
        return dict(zip(programs, pool.map(made, programs), strict=True))


def _compile(switch: str, spec: ProgramSpec, folder: Path, compiler: Path, out: Path) -> Compiled:
    source = folder / (spec.p4 or "")
    out.mkdir()
    # The name of the file is the program's name for clients of BF Runtime.
    program, p4info, schema = (
        out / f"{source.stem}{end}" for end in (".json", ".p4info.txtpb", ".bf-rt.json")
    )
    command: list[str | Path] = [compiler, "-o", program, "--p4runtime-files", p4info]
    command += ["--bf-rt-schema", schema, *(["--arch", spec.arch] if spec.arch else [])]
    command += [f"-I{folder / include}" for include in spec.include]
    command += [*(f"-D{define}" for define in spec.define), source]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise InputError(f"program of {switch}: {source} is not compiled:\n{done.stderr.strip()}")
    return Compiled(program, p4info, schema)
