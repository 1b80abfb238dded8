"""Two hosts send 60 packets each to a third at the same instant: how many of them are marked?

`ebb-lab lab.toml lab.py [K]` runs it in a lab; K is the threshold in packets.
"""

import subprocess

from ebb_experiments.lab.lab import Lab
from scapy.all import IP, UDP, Ether

ECT_0, CE = 2, 3


def main(lab: Lab, threshold: str = "20") -> None:
    """Fills the tables, sends the packets and counts the marks."""

    def control(*command: str) -> None:
        subprocess.run(["ebb-ctl", "-a", lab.addresses["s1"], "-d", "1", *command], check=True)

    marks: list[bool] = []
    lab.attach("h3", lambda at_ns, frame: marks.append(Ether(frame)[IP].tos & 3 == CE))
    receiver = lab.topology.host("h3")
    control("table", "add", "hosts", receiver.ip, "do", "send", "port=3")
    control("register", "write", "threshold", "0", threshold)
    for name in ("h1", "h2"):
        ethernet = Ether(dst=lab.topology.host(name).gateway_mac)
        packet = ethernet / IP(dst=receiver.ip, tos=ECT_0) / UDP() / bytes(1400)
        for _ in range(60):
            lab.send(name, bytes(packet))
    lab.run(until_ns=5_000_000)
    print(f"{len(marks)} of 120 packets arrived, {sum(marks)} of them marked")
