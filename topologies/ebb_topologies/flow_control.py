"""Thresholds of priority flow control, from rates and delays of links (Zats, "Achieving Consistent
Latencies in Datacenter Networks", UC Berkeley 2014, section 5.2.3).

From the moment at which a port asks its neighbour to pause a queue, H bytes still arrive: the PFC
frame waits for a frame that has just begun, travels, is obeyed late, and one more frame that had
just begun comes back. So the buffer has to keep H bytes free for each lossless queue, and a queue
that goes on at H bytes does not run empty before packets come again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ebb_topologies.files import InputError
from ebb_topologies.model import Link

PFC_FRAME_BYTES = 84
"""Bytes of a PFC frame on the wire: 64 bytes, preamble and inter-frame gap."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When neighbours are asked to pause, and to go on."""

    pause_bytes: int
    """They are asked to pause a queue when more bytes than this count for it."""
    resume_bytes: int
    """They are asked to go on when no more than this count."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """The ingress buffer of every port of a switch, and what takes time there."""

    ingress_bytes: int
    """Buffer of an input port, in bytes."""
    lossless_queues: int
    """Queues that share it and may not drop, at least 1."""
    reaction_ns: int
    """Time beside that of frames and links until a neighbour obeys and we have seen it."""
    max_frame_bytes: int
    """Longest frame with all that it costs on the wire."""

    def headroom_bytes(self, link: Link) -> int:
        """H = C * T / 8: what still arrives on a link after a pause was asked for. T is the time of
        two frames, the delay both ways, and the reaction."""
        waits_ns = 2 * link.delay_ns + self.reaction_ns
        return 2 * self.max_frame_bytes + -(-link.rate_bps * waits_ns // 8_000_000_000)

    def thresholds(self, links: Iterable[Link], where: str) -> Thresholds:
        """Thresholds that hold at all links of a switch. Raises `InputError` if the buffer is too
        small; `where` names the switch.

        `resume_bytes` is the least that keeps a queue from running empty, H, and `pause_bytes` the
        middle between that and the most that loses nothing, which of B bytes for N queues is
        B / N - H: so B / 2N. Below that most is also room for the frame that crosses the threshold,
        and for what arrives during the PFC frame.
        """
        needed = max(map(self.headroom_bytes, links))
        each = self.ingress_bytes // self.lossless_queues
        pause = min(each // 2, each - needed - self.max_frame_bytes - PFC_FRAME_BYTES)
        if pause < needed:
            queues, size = self.lossless_queues, self.ingress_bytes
            raise InputError(
                f"{where}: {queues} lossless queues need {queues} * {needed} = {queues * needed} "
                f"bytes of headroom of the {size} of ingress_bytes, and as much again before they "
                "pause; use fewer lossless queues, more ingress_bytes or slower links"
            )
        return Thresholds(pause, needed)
