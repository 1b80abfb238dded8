"""Which neighbours of a switch are in a set of switches, in little time."""

from __future__ import annotations


class Wired:
    """A switch and its links that are up to other switches. Sets of switches are integers with a
    bit for each, which a large fabric compares in little time."""

    def __init__(self, bit: int, wires: tuple[tuple[int, int], ...]) -> None:
        """`wires`: its ports, and the bit of the switch at the other end."""
        self.bit = bit
        self.beside = 0
        """The switches at the other ends."""
        for _port, far in wires:
            self.beside |= far
        self._wires = wires
        self._ports: dict[int, tuple[int, ...]] = {}

    def ports_to(self, switches: int) -> tuple[int, ...]:
        """Ports to some of the switches beside it: a fat-tree asks for few different ones."""
        if switches not in self._ports:
            ports = (port for port, far in self._wires if far & switches)
            self._ports[switches] = tuple(sorted(ports))
        return self._ports[switches]
