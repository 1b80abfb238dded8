"""The stream between a switch and a controller: who is the primary, packets, digests."""

from __future__ import annotations

import queue
from collections.abc import Iterator

from finsy.proto import U128, p4r, p4r_grpc, rpc_code

ANSWERED = (rpc_code.OK, rpc_code.ALREADY_EXISTS)
"""Codes of an arbitration notice where the role has a primary."""


class SwitchError(Exception):
    """Messages of a switch, or the end of its stream."""


class Stream:
    """One stream in one role. Raises `SwitchError`, and the errors of gRPC."""

    def __init__(self, p4runtime: p4r_grpc.P4RuntimeStub, device_id: int, role: str = "") -> None:
        self.device_id = device_id
        self.role = role
        """None of P4Runtime's roles is named: the default one, which has full access."""
        self._requests: queue.SimpleQueue[p4r.StreamMessageRequest | None] = queue.SimpleQueue()
        self._replies = p4runtime.StreamChannel(iter(self._requests.get, None))

    def send(self, request: p4r.StreamMessageRequest) -> None:
        """Queues a message for the switch."""
        self._requests.put(request)

    def replies(self) -> Iterator[p4r.StreamMessageResponse]:
        """Messages of the switch, until it refuses something."""
        for reply in self._replies:
            if reply.HasField("error"):
                error = reply.error
                raise SwitchError(f"{rpc_code.Code.Name(error.canonical_code)}: {error.message}")
            yield reply
        raise SwitchError("the switch ended the stream")

    def arbitrate(self, election_id: int | None) -> p4r.MasterArbitrationUpdate:
        """Asks to be the primary, or without election id who is; what the switch says of it."""
        update = p4r.MasterArbitrationUpdate(device_id=self.device_id)
        if self.role:
            update.role.name = self.role
        if election_id is not None:
            update.election_id.CopyFrom(U128.encode(election_id))
        self.send(p4r.StreamMessageRequest(arbitration=update))
        return next(r.arbitration for r in self.replies() if r.HasField("arbitration"))

    def close(self) -> None:
        """Ends the stream."""
        self._requests.put(None)
        self._replies.cancel()
