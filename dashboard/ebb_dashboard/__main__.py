"""`python -m ebb_dashboard`."""

import sys

from ebb_dashboard.cli import main

sys.exit(main())
