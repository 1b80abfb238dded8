"""Virtual machines of tenants in a run: their entries in the files of hosts, and the delays of
their packets beside the bounds of these."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from ebb_experiments.results.tables import Kind, Row, Rows
from ebb_experiments.scenario.loaded import Loaded

Line = dict[str, Any]


def machines(loaded: Loaded, scheme: str) -> dict[str, list[dict[str, Any]]]:
    """Virtual machines of tenants in the form for simulator and agents, slowed, by host; empty:
    there are none."""
    if loaded.tenancy is None:
        return {}
    entries = loaded.tenancy.entries(loaded.schemes[scheme], loaded.topology)
    slowed: dict[str, list[dict[str, Any]]] = loaded.dilation.slow(entries)
    return slowed


def hypervisor(loaded: Loaded) -> dict[str, Any]:
    """Parameters of hypervisors, slowed, as an entry of a file; empty: there are none."""
    if loaded.tenancy is None:
        return {}
    return {"hypervisor": loaded.dilation.slow(loaded.tenancy.hypervisor())}


class TenantTable:
    """Rows from `delays` lines: packets from one virtual machine to another, with the bound of a
    conforming one."""

    def __init__(self, loaded: Loaded, head: Row, kind: Kind = Rows) -> None:
        self._loaded, self._head = loaded, head
        self._names = {vm.ip: vm.name for vm in loaded.topology.vms}
        self._kind = kind

    @cached_property
    def _rows(self) -> Rows:
        return self._kind("tenants")

    def append(self, line: Line) -> None:
        """Adds the report of a host on the packets from one VM to another."""
        tenancy, nominal = self._loaded.tenancy, self._loaded.dilation.nominal_time
        assert tenancy is not None
        source, destination = self._names[line["from_address"]], line["host"]
        bound_ns, capacity_ns = tenancy.bound_ns(source, destination) or (None, None)
        self._rows.append(
            self._head
            | {
                "tenant": tenancy.vms[source].tenant.name,
                "conforms": int(tenancy.vms[source].tenant.conforms),
                "source": source,
                "destination": destination,
                "packets": line["packets"],
                "mean_ns": nominal(line["mean_ns"]),
                "longest_ns": nominal(line["longest_ns"]),
                "bound_ns": bound_ns,
                "capacity_ns": capacity_ns,
            }
        )

    def table(self) -> Rows:
        """The rows, in the order of the reports."""
        return self._rows
