"""`python -m ebb_experiments.bench`: runs `cli`."""

import sys

from ebb_experiments.bench.cli import main

sys.exit(main())
