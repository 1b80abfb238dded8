"""`python -m ebb_volume`: as `ebb-volume`."""

import sys

from ebb_volume.commands import main

sys.exit(main())
