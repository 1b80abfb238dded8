"""finsy's session with its gRPC channel, for requests and replies that stay encoded."""

from __future__ import annotations

import finsy
import grpc


class ChannelSwitch(finsy.Switch):  # type: ignore[misc]  # final only for those who read types
    """A switch whose channel others may use. finsy has no public name for it: this is the place
    where a private one is read."""

    @property
    def channel(self) -> grpc.aio.Channel | None:
        """The channel; none: it is not connected."""
        return None if self._p4client is None else self._p4client.channel
