"""Sends the packets of a test: `python send.py TEST.stf PORT=INTERFACE ..`, as root.

The interface is the other end of the veth pair that the switch has as this port.
"""

import socket
import sys
from pathlib import Path


def main(test: str, *places: str) -> None:
    """Sends the packets of a test to interfaces: `port=interface` each."""
    interfaces = dict(place.split("=") for place in places)
    if not interfaces:
        raise ValueError
    for line in Path(test).read_text().splitlines():
        words = line.split()
        if words[:1] == ["packet"] and words[1] in interfaces:
            with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
                try:
                    sender.bind((interfaces[words[1]], 0))
                except OSError as error:
                    raise OSError(error.errno, error.strerror, interfaces[words[1]]) from error
                size = sender.send(bytes.fromhex("".join(words[2:])))
            print(f"port {words[1]}: {size} bytes")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (TypeError, ValueError):
        sys.exit(__doc__)
    except OSError as error:
        sys.exit(f"send.py: {error}")
