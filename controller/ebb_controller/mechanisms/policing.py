"""`policing.p4`: what each host may send, and what becomes of the rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal, Self

from ebb_topologies.files import InputError
from pydantic import Field, model_validator

from ebb_controller.mechanism import Counter, Mechanism, Table
from ebb_controller.mechanisms.void_frames import PROGRAM
from ebb_controller.parameters import Dscp, Parameters, QueueId
from ebb_controller.site import Port, Site

if TYPE_CHECKING:
    from finsy import P4TableEntry

POLICING = Table("policing", ("police",))
POLICED_YELLOW = Counter("policed_yellow", "beyond\nB and S")
POLICED_RED = Counter("policed_red", "beyond\nBmax")

Excess = Literal["count", "drop", "best-effort"]
EXCESS: dict[Excess, int] = {"count": 0, "drop": 1, "best-effort": 2}
"""As numbers of `police`."""
MAX_BPS = 10_000_000_000_000
FRAME_BYTES = 1_514
"""The longest frame without FCS."""


class Contract(Parameters):
    """Contract of each of some hosts: {B, S} and Bmax of Silo, in bytes of frames without FCS."""

    hosts: Annotated[list[str], Field(min_length=1)]
    """Their names, or those of virtual machines."""
    guarantee_bps: Annotated[int, Field(ge=8, le=MAX_BPS)]
    """Guaranteed bandwidth of each, B, bit/s: the CIR."""
    burst_bytes: Annotated[int, Field(ge=FRAME_BYTES, lt=2**32)] = 15_000
    """Burst of each at once after it has sent less, S: the CBS."""
    peak_bps: Annotated[int, Field(ge=8, le=MAX_BPS)]
    """How fast, Bmax, bit/s: the PIR."""
    peak_burst_bytes: Annotated[int, Field(ge=FRAME_BYTES, lt=2**32)] = FRAME_BYTES
    """Burst at the rate of the link nevertheless: the PBS, one frame of a paced host."""

    @model_validator(mode="after")
    def _peak_is_above(self) -> Self:
        if self.peak_bps < self.guarantee_bps:
            raise ValueError(
                f"peak_bps = {self.peak_bps}: expected at least guarantee_bps = "
                f"{self.guarantee_bps}"
            )
        return self


class Policing(Parameters):
    """Two-rate three-colour markers (RFC 2698) at the first hop."""

    contract: list[Contract] = []
    """Who may send how much; hosts without a contract are not policed."""
    excess: Excess = "drop"
    """Treatment of a packet that does not conform: it is counted only; dropped; or sent with the
    DSCP and in the queue below, behind what is guaranteed."""
    dscp_value: Dscp = 0
    """DSCP of best effort, from the first hop on."""
    queue: QueueId = 0
    """Queue of best effort at the first hop."""

    @model_validator(mode="after")
    def _hosts_once(self) -> Self:
        names = [host for each in self.contract for host in each.hosts]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"contract: {name} has two; a host has one")
        return self


class WithPolicing(Parameters):
    """The part of `FabricParameters` that this mechanism reads."""

    policing: Policing | None = None
    """Contracts of hosts; none: off."""


def entries(site: Site[WithPolicing]) -> Iterator[P4TableEntry]:
    """Per host with a contract, at the port of its link: its meter, and what becomes of the
    excess."""
    policing = site.parameters.policing
    if policing is None:
        return
    ends = site.topology.neighbours[site.switch.name]
    here = {ends[port.number][0].node: port for port in site.ports if port.to_host}
    for contract in policing.contract:
        for name in contract.hosts:
            host = site.topology.host(name)
            if port := here.get(host.machine or name):
                yield _entry(policing, contract, port, host.ip, name)


def _entry(policing: Policing, contract: Contract, port: Port, ip: str, name: str) -> P4TableEntry:
    from finsy import P4MeterConfig, P4TableAction, P4TableEntry, P4TableMatch

    if contract.guarantee_bps > port.rate_bps:
        times = contract.guarantee_bps / port.rate_bps  # the same at any dilation
        raise InputError(
            f"policing: guarantee_bps of {name} is {times:g} times the rate of its link; at most 1"
        )
    return P4TableEntry(
        POLICING.name,
        match=P4TableMatch({"ingress_port": port.number, "src": ip}),
        action=P4TableAction(
            "police",
            excess=EXCESS[policing.excess],
            dscp_value=policing.dscp_value,
            queue_index=policing.queue,
        ),
        meter_config=P4MeterConfig(
            cir=contract.guarantee_bps // 8,
            cburst=contract.burst_bytes,
            pir=contract.peak_bps // 8,
            pburst=contract.peak_burst_bytes,
        ),
    )


MECHANISM = Mechanism("policing", entries, (POLICING,), (POLICED_YELLOW, POLICED_RED), PROGRAM)
