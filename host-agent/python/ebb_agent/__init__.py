"""Transfers over NDP, SCDP, Trevi and the TCP family, by the `ebb-agent run` of this host.

    with Agent() as agent:
        agent.send("model.bin", to="10.0.0.3", scheme="ndp")
        data = agent.fetch("index.db", ["10.0.0.4", "10.0.0.5"])

Only the standard library is needed. The protocol behind it: docs/agent-api.md.
"""

from ebb_agent.agent import Agent
from ebb_agent.blobs import Blob, BlobError, Blobs
from ebb_agent.errors import AgentError, AgentGoneError, RequestError, TimedOutError, TransferError
from ebb_agent.incoming import IncomingObject, IncomingStream, Listener
from ebb_agent.record import Flow
from ebb_agent.transfer import Progress, Transfer

__all__ = [
    "Agent",
    "AgentError",
    "AgentGoneError",
    "Blob",
    "BlobError",
    "Blobs",
    "Flow",
    "IncomingObject",
    "IncomingStream",
    "Listener",
    "Progress",
    "RequestError",
    "TimedOutError",
    "Transfer",
    "TransferError",
]
