"""`python -m ebb_dashboard`."""

import sys

from ebb_dashboard.commands import main

sys.exit(main())
