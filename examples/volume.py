"""The capacity that a capture needs, and how far to trust it: `ebb-volume` as a library.

python volume.py capture.pcap [..]
"""

from __future__ import annotations

import sys
from pathlib import Path

from ebb_topologies.errors import InputError
from ebb_volume import fitting, provisioning, sources

SLOT_NS = 100_000_000
EPSILON = 0.01


def main(paths: list[Path]) -> None:
    """Prints the law of each series, and the capacity that it needs."""
    loaded = sources.load(paths, SLOT_NS)
    for note in loaded.notes:
        print(f"note: {note}")
    for series in loaded.series:
        fit = fitting.fit(series, loaded.notes, with_tail=False)
        law = fit.best or f"undecided ({', '.join(fit.leading)})"
        print(f"{series.name}: {len(series)} bins, {fit.effective_bins:.0f} independent; {law}")
        for each in provisioning.provision(series, [EPSILON], learn=0.5):
            print(
                f"  {each.method:10} {each.capacity_bps / 1e6:8.2f} Mbit/s, "
                f"exceeded by {each.achieved:.2%} of the second half"
            )


if __name__ == "__main__":
    if len(sys.argv) == 1:
        sys.exit(__doc__)
    try:
        main([Path(word) for word in sys.argv[1:]])
    except InputError as error:
        sys.exit(f"volume.py: {error}")
