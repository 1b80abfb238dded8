"""The P4Runtime controller: from a topology and mechanism parameters to table entries."""

import os

# gRPC's C core writes of its own accord to stderr when a switch goes away; we tell that ourselves.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
