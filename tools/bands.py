#!/usr/bin/env python3
"""Refuses commits that changed the band of a claim and do not say why (docs/experiments.md)."""

from __future__ import annotations

import sys

from ebb_experiments.study.history import changes, git, without_reason


def main() -> int:
    repository = git()
    if repository is None or not repository.whole:
        print("bands: the history is not here, so that no commit is checked")
        return 0
    found = without_reason(changes(repository))
    for each in found:
        print(
            f"bands: {each.commit} ({each.subject}) changes the band of '{each.text}' in "
            f"{each.experiment}, and its message does not say why: a paragraph with the word 'band'"
        )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
