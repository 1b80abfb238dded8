"""History of experiments in git: when bands changed and why, and how far the programs have moved on
since trials were run."""

from __future__ import annotations

import subprocess
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ebb_topologies.installation import DIFFERING, work_tree

from ebb_experiments.study.check import Check

PAPERS = "experiments/papers"
INPUTS = (
    "p4src", "common", "simulator", "topologies/ebb_topologies", "controller/ebb_controller",
    "switch/bmv2-json", "switch/engine", "switch/p4c", "switch/p4runtime", "switch/pipeline",
    "switch/serve", "switch/traffic-manager", "host-agent/host", "host-agent/nic",
    "host-agent/transport", "host-agent/workload", "experiments/schemes",
    "experiments/ebb_experiments/scenario", "experiments/ebb_experiments/results",
    "experiments/ebb_experiments/run", "experiments/ebb_experiments/tenants",
)  # fmt: skip
"""Folders of what a trial's result depends on, beside its experiment's file."""
WITHOUT = (":!**/tests/**", ":!**/*.md")
WITHOUT_REASON = ("0745dc3a", "15686046", "905bf4b2", "b6832042")
"""Commits that changed bands before a reason was asked for, and do not name them."""
COMMIT = "\x1e"
"""In front of each commit, or content, that git prints."""
REASON = "band"
"""The word that the body of a commit has which changes one."""


@dataclass(frozen=True)
class Change:
    """A claim whose band a commit changed."""

    commit: str
    date: str
    subject: str
    body: str
    experiment: str
    text: str
    before: Any
    after: Any

    @property
    def reason(self) -> str | None:
        """The commit's words on bands; none: it has none."""
        told = [each for each in self.body.split("\n\n") if REASON in each.lower()]
        return " ".join(" ".join(told).split()) or None


class Git:
    """Questions to the repository that this package is run from."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._bands: dict[str, dict[str, Any]] = {}

    def __call__(self, *command: str, given: str = "") -> str:
        """Output of a git command in the repository that reads `given`; empty if it fails."""
        done = subprocess.run(
            ["git", "-C", str(self.root), *command],
            input=given.encode(),
            capture_output=True,
            check=False,
        )
        return done.stdout.decode(errors="replace") if done.returncode == 0 else ""

    def bands(self, blobs: Iterable[str]) -> Mapping[str, dict[str, Any]]:
        """Bands of these versions of experiments' files, by the text of the claim."""
        new = sorted(set(blobs) - self._bands.keys())
        # After each content a line of its own, which no file has.
        told = self("cat-file", f"--batch={COMMIT}", given="\n".join(new) + "\n")
        contents = told.split(f"{COMMIT}\n")[1:]
        self._bands |= zip(new, map(_bands, contents), strict=True)
        return self._bands

    @property
    def whole(self) -> bool:
        """Whether it has the whole history."""
        return self("rev-parse", "--is-shallow-repository").strip() == "false"

    @property
    def dirty(self) -> list[str]:
        """Files that differ from the commit, those of docs/results apart, which are made."""
        told = self(*DIFFERING)
        return [line[3:] for line in told.splitlines()]

    def keeps(self, path: Path) -> bool:
        """Whether a file there could be committed."""
        if not path.resolve().is_relative_to(self.root.resolve()):
            return False
        command = ["git", "-C", str(self.root), "check-ignore", "--quiet", str(path.resolve())]
        return subprocess.run(command, check=False).returncode == 1


@cache
def git() -> Git | None:
    """None: this is no work tree with a history."""
    root = work_tree()
    if root is None or not (found := Git(root))("rev-parse", "HEAD"):
        return None
    return found


# -- bands ----------------------------------------------------------------------------------------


def changes(repository: Git, since: str = "") -> list[Change]:
    """Bands that commits changed, oldest first. A claim is known by its text."""
    span = [f"{since}..HEAD"] if since else []
    # Each commit with its files in which bands changed, and their contents before and after.
    told = repository("log", "--reverse", "--no-merges", "-G", "^ *band *=", "--diff-filter=M",
                      "--raw", "--no-abbrev", "--date=short", *span,
                      f"--format={COMMIT}%H%x1f%ad%x1f%s%x1f%b%x1f", "--", PAPERS)  # fmt: skip
    commits = [entry.split("\x1f") for entry in told.split(COMMIT)[1:]]
    files = [[(*line.split()[2:4], line.split("\t")[1]) for line in raw.split("\n") if line]
             for *_about, raw in commits]  # fmt: skip
    bands = repository.bands({blob for each in files for *both, _path in each for blob in both})
    return [
        Change(commit[:12], date, subject, body.strip(), Path(path).stem, text,
               bands[before][text], band)
        for (commit, date, subject, body, _raw), each in zip(commits, files, strict=True)
        for before, after, path in each
        for text, band in bands[after].items()
        if text in bands[before] and bands[before][text] != band
    ]  # fmt: skip


def _bands(text: str) -> dict[str, Any]:
    """Bands by the texts of claims."""
    try:
        claims = tomllib.loads(text).get("claim", [])
    except tomllib.TOMLDecodeError:
        return {}
    return {each["text"]: each["band"] for each in claims if "band" in each}


def without_reason(found: Iterable[Change]) -> list[Change]:
    """Changes of bands whose commits give no reason."""
    return [
        each for each in found if each.reason is None and not each.commit.startswith(WITHOUT_REASON)
    ]


# -- age ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Age:
    """How old the trials of a page are."""

    commits: int | None
    """Commits since that changed what their results depend on; none: git does not know."""
    dirty: bool
    """Whether files differed from the commit that they were run at."""
    other_file: bool = False
    """Whether the experiment's file has another scenario, scheme, axis or size now."""
    differs: bool = False
    """Whether a trial that was run again gave something else."""

    @property
    def stale(self) -> bool:
        """Whether any input has changed since the trials, or since they were last checked."""
        return self.commits != 0 or self.dirty or self.other_file or self.differs

    @property
    def text(self) -> str:
        """In words; empty if they are of today's programs."""
        parts = []
        if self.commits is None:
            parts.append("of a commit that is not in the history")
        elif self.commits:
            parts.append(f"stale since {self.commits} commit{'s' if self.commits > 1 else ''}")
        if self.other_file:
            parts.append("the file's scenario has changed since")
        if self.dirty:
            parts.append("run in a tree that differed from its commit")
        if self.differs:
            parts.append("a trial that was run again differs")
        return ", ".join(parts)


def age(
    commits: Sequence[str], experiment: str, seeds: Sequence[int], check: Check | None = None
) -> Age | None:
    """Age of trials that were run at these commits with these seeds; none: there is no history to
    ask. The oldest commit counts, or that of a check that gave a trial of every scheme again. A
    commit that ends in + had files that differed."""
    repository = git()
    if repository is None or not commits:
        return None
    programs = [check.commit] if check is not None and check.whole else commits
    counts = {each: _since(repository, each.rstrip("+")) for each in programs}
    known = [count for count in counts.values() if count is not None]
    oldest = max(known) if len(known) == len(counts) else None
    clean = [each for each in commits if not each.endswith("+")]
    path = f"{PAPERS}/{experiment}.toml"
    table = tomllib.loads((repository.root / path).read_text())
    now = _simulated(table)
    then = (repository("show", f"{each}:{path}") for each in clean)
    other = any(text and _simulated(tomllib.loads(text)) != now for text in then)
    lacks = not set(_seeds(table)) <= set(seeds)
    dirty = any(each.endswith("+") for each in programs)
    return Age(oldest, dirty, other or lacks, check is not None and bool(check.differing))


def _seeds(table: dict[str, Any]) -> Iterable[int]:
    """Seeds of the full size of an experiment's file."""
    seeds = table["size"].get("full", {}).get("seeds", [])
    return range(1, seeds + 1) if isinstance(seeds, int) else seeds


def _simulated(table: dict[str, Any]) -> dict[str, Any]:
    """Parts of an experiment's file that make one of its trials: all but the number of seeds."""
    found = {key: table.get(key) for key in ("scenario", "tenants", "set", "axis")}
    found["scheme"] = {name: {k: v for k, v in of_it.items() if k != "look"}
                       for name, of_it in table["scheme"].items()}  # fmt: skip
    full = table["size"].get("full", {})
    return found | {"full": {key: full.get(key) for key in ("axes", "set", "schemes")}}


@cache
def _since(repository: Git, commit: str) -> int | None:
    told = repository("rev-list", "--count", "--no-merges", f"{commit}..HEAD", "--",
                      *INPUTS, *WITHOUT)  # fmt: skip
    return int(told) if told.strip() else None
