"""Entries of `arp.p4`: the switch answers for the gateway addresses of its hosts."""

from __future__ import annotations

from collections.abc import Iterator

from finsy import P4TableAction, P4TableEntry, P4TableMatch

from ebb_controller.site import Site


def entries(site: Site) -> Iterator[P4TableEntry]:
    gateways: dict[str, str] = {}
    for host in site.topology.hosts:
        if site.topology.attachment(host).node == site.switch.name:
            gateways.setdefault(host.gateway_ip, host.gateway_mac)
    for ip, mac in gateways.items():
        yield P4TableEntry(
            "arp_responder",
            match=P4TableMatch(target=ip),
            action=P4TableAction("answer_arp", mac=mac),
        )
