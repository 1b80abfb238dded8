"""A compiled P4 program: its files, and what the controller knows of it.

finsy is imported when a program is read, and not before: that takes a tenth of a second, in which
a simulator can start.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ebb_topologies.installation import TOFINO, remedy
from ebb_topologies.model import Switch, Topology
from ebb_topologies.traffic_manager import PortParameters, traffic_manager_config

from ebb_controller.errors import ControllerError
from ebb_controller.mechanism import Mechanism, missing
from ebb_controller.mechanisms import MECHANISMS, FabricParameters, of_program, program_for

if TYPE_CHECKING:
    from finsy.p4schema import P4Schema
    from finsy.proto import p4i

    from ebb_controller import tna


@dataclass(frozen=True)
class Program:
    """A compiled P4 program: BMv2 JSON and P4Info."""

    p4info: Path
    """P4Info as text (protobuf text format)."""
    json: Path
    """The program for the switch: BMv2 JSON. Its name is that of the program in p4src."""
    chip: tna.Chip | None = None
    """The chip that it is written for; none: it is for v1model."""

    @classmethod
    def of(cls, directory: Path, *parameters: FabricParameters) -> Program:
        """The one of a folder, as `make build` leaves it, that does what all these say."""
        name = program_for(*parameters)
        return cls(directory / f"{name}.p4info.txtpb", directory / f"{name}.json")

    @classmethod
    def of_tofino(
        cls, directory: Path, topology: Topology, *parameters: FabricParameters
    ) -> Program:
        """The one of p4src/tna that does on every switch what all these say. Raises `InputError`
        where there is none."""
        from ebb_controller import tna

        composition = tna.composition_of(topology, *parameters)
        path = directory / TOFINO / composition.name
        info = path.with_name(f"{path.name}.p4info.txtpb")
        return cls(info, path.with_name(f"{path.name}.json"), composition.chip)

    @property
    def name(self) -> str:
        """Name of its source in p4src, without `.p4`."""
        return self.json.stem if self.chip is None else f"tna/{self.json.stem}"

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """Mechanisms that it may have; a program of p4src/tna has some of them."""
        return MECHANISMS if self.chip is not None else of_program(self.name)

    def queues(self, topology: Topology, switch: Switch, ports: PortParameters) -> dict[str, Any]:
        """The configuration of the traffic manager of a switch with this program."""
        config = traffic_manager_config(topology, switch, ports)
        if self.chip is None:
            return config
        from ebb_controller import tna

        return tna.traffic_manager(config, self.chip)

    def check(self) -> p4i.P4Info:
        """Reads both files; raises `ControllerError` if one cannot be used, or if the program lacks
        what a mechanism names. All else is for the switch to judge."""
        from finsy.proto import p4i
        from google.protobuf import text_format

        found = p4i.P4Info()
        for path, parse in ((self.p4info, partial(_parse_p4info, found)), (self.json, json.loads)):
            try:
                parse(_read(path).decode())
            except (ValueError, RecursionError, text_format.ParseError) as error:
                raise ControllerError(
                    f"{path} is damaged ({error}): remove it and run `make build`"
                ) from error
        # No program of p4src/tna has all; `tna.composition_of` chooses by what it needs.
        for lack in missing(self.mechanisms if self.chip is None else (), found):
            raise ControllerError(
                f"{self.p4info}: {lack}, which the program does not have: compile "
                f"p4src/{self.name}.p4"
            )
        return found

    @cached_property
    def schema(self) -> P4Schema:
        """Both files, checked, with the cookie by which switches know the program."""
        from ebb_controller.schema import ProgramSchema

        return ProgramSchema(self.check(), self.json.read_bytes(), self.cookie)

    @cached_property
    def cookie(self) -> int:
        """Digest of the two files, by which a switch reports the program that it runs."""
        digest = hashlib.sha256(_read(self.p4info))
        digest.update(_read(self.json))
        return int.from_bytes(digest.digest()[:8])

    def files(self) -> dict[str, Any]:
        """As files of a process of many switches name it: they start with it, and it need not
        travel to each of them, because a controller finds it there by its cookie. That they can be
        used is not checked. Raises `ControllerError` if they are not there."""
        return {
            "json": str(self.json.resolve()),
            "p4info": str(self.p4info.resolve()),
            "cookie": self.cookie,
        }


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise ControllerError(f"{path} is not there: {remedy(path)}") from error
    except OSError as error:
        raise ControllerError(f"{path}: cannot be read: {error.strerror}") from error


def _parse_p4info(into: p4i.P4Info, text: str) -> None:
    from google.protobuf import text_format

    if not text.strip():
        raise ValueError("it is empty")
    text_format.Parse(text, into)
