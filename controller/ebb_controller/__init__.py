"""The P4Runtime controller: from a topology and mechanism parameters to table entries."""

import os

# The controller reports a lost switch itself: without this gRPC's C core writes to stderr as well.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
