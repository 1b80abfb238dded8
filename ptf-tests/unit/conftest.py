# SPDX-License-Identifier: Apache-2.0
"""The modules of the packet tests are scripts in a folder, not a package."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
