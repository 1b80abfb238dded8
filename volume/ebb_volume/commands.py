"""The command that is installed."""

from __future__ import annotations

import sys

from ebb_topologies.interruption import interruptible

STUDY = "install Ebb with its extra, as `pip install 'dist/ebb-VERSION-py3-none-any.whl[study]'`"
NEEDED = ("jinja2", "matplotlib", "numpy", "powerlaw", "pyarrow", "scipy", "statsmodels")


def main() -> int:
    """`ebb-volume`; says in a line which package is missing, if one is."""
    return interruptible("ebb-volume", _run)


def _run() -> int:
    try:
        from ebb_volume.cli import main as run

        return run()
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in NEEDED:
            raise
        print(f"ebb-volume: Python package '{package}' is missing: {STUDY}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
