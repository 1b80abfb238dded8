"""`arp.p4`: the switch answers for the gateway addresses of its hosts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ebb_controller.mechanism import Mechanism, Table
from ebb_controller.site import Site

if TYPE_CHECKING:
    from finsy import P4TableEntry

ARP_RESPONDER = Table("arp_responder", ("answer_arp",))


def entries(site: Site[Any]) -> Iterator[P4TableEntry]:
    """Per gateway address of the switch's own hosts: the address that answers."""
    gateways: dict[str, str] = {}
    for port, (far, _link) in site.topology.neighbours[site.switch.name].items():
        if site.topology.is_host(far.node):
            gateway = site.topology.host(far.node).gateway_ip
            gateways.setdefault(gateway, site.switch.port_mac(port))
    for ip, mac in gateways.items():
        yield ARP_RESPONDER.entry({"target": ip}, mac=mac)


MECHANISM = Mechanism("arp", entries, (ARP_RESPONDER,))
