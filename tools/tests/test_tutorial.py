"""docs/tutorial does what it says: files are written, commands run, their output compared."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
PAGES = sorted((ROOT / "docs" / "tutorial").glob("[0-9]*.md"))
PROGRAMS = [BUILD, Path(sys.executable).parent]
PATIENCE_S = 120.0
# Between the outputs of commands.
MARK = "~~ next ~~"
# A fenced block, with the paragraph before it that names the file.
BLOCK = re.compile(
    r"(?:^`(?P<file>[^`\n]+)`:.*\n(?:.+\n)*\n)?```(?P<kind>\w*)\n(?P<text>(?:.*\n)*?)```", re.M
)

needs_build = pytest.mark.skipif(
    not (BUILD / "ebb-simulator").exists(), reason="needs build/: run `make build`"
)


@dataclass
class Command:
    line: str
    says: str


def files(page: str) -> dict[str, str]:
    return {m["file"]: m["text"] for m in BLOCK.finditer(page) if m["file"]}


def commands(page: str) -> list[Command]:
    found: list[Command] = []
    for block in BLOCK.finditer(page):
        if block["kind"] == "console":
            for line in block["text"].splitlines():
                if line.startswith("$ "):
                    found.append(Command(line.removeprefix("$ "), ""))
                else:
                    found[-1].says += line + "\n"
    return found


def agrees(told: str, said: str) -> bool:
    """Whether the output is what the page tells; `...` is anything, a line of it any lines."""
    pattern = re.escape(f"\n{told.strip()}\n").replace(re.escape("\n...\n"), r"\n(?:.*\n)*?")
    pattern = pattern.replace(re.escape("..."), ".*")
    lines = "\n" + "\n".join(line.rstrip() for line in said.strip().splitlines()) + "\n"
    return re.fullmatch(pattern, lines) is not None


@needs_build
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_does_what_it_says(path: Path, tmp_path: Path) -> None:
    page = path.read_text()
    if "As root" in page and os.geteuid() != 0:
        pytest.skip("needs root")
    for name, text in files(page).items():
        (tmp_path / name).write_text(text)
    wanted = commands(page)
    assert wanted, "a page without a command"
    kinds = [block["kind"] for block in BLOCK.finditer(page)]
    assert kinds.count("console") == page.count("```console"), "a fence is not closed"
    script = [
        f"cd {shlex.quote(str(tmp_path))}",
        "trap 'kill $(jobs -p) 2> /dev/null || true' EXIT",
    ]
    for command in wanted:
        script += [f"echo '{MARK}'", command.line]
        if command.line.endswith("&"):
            # A server is there when it has said so.
            script.append("until grep -qs 'P4Runtime on' switch.log; do sleep 0.05; done")
    of_user, elsewhere = listing(ROOT / "results"), Path(os.environ["EBB_RESULTS"])
    of_others = listing(elsewhere)
    done = subprocess.run(
        ["bash", "-e", "-c", "\n".join(script)],
        env=os.environ | {"PATH": os.pathsep.join([*map(str, PROGRAMS), os.environ["PATH"]])},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    said = done.stdout.split(MARK + "\n")[1:]
    told = [(command.line, command.says.strip()) for command in wanted]
    for (line, expected), output in zip(told, said, strict=False):
        assert agrees(expected, output), f"{line}\n--- the page\n{expected}\n--- it says\n{output}"
    assert done.returncode == 0, done.stdout[-2000:]
    assert len(said) == len(wanted)
    assert listing(ROOT / "results") == of_user, "the results of the work tree are its user's"
    assert listing(elsewhere) == of_others, "who follows the page finds all in the folder of it"


def listing(folder: Path) -> set[tuple[Path, int]]:
    """Everything below a folder, with when it was changed."""
    return {(path, path.lstat().st_mtime_ns) for path in folder.rglob("*")}


def test_the_index_names_every_page() -> None:
    index = (ROOT / "docs" / "tutorial" / "README.md").read_text()
    assert re.findall(r"\]\(([0-9][^)]+)\)", index) == [path.name for path in PAGES]


@pytest.mark.parametrize(
    ("told", "said", "same"),
    [
        ("a\n...\nd", "a\nb\nc\nd", True),
        ("...\nd", "a\nb\nd", True),
        ("a ... d", "a b d", True),
        ("a ... d", "a b\nd", False),
        ("", "", True),
        ("a", "a  \n", True),
        ("", "a", False),
    ],
)
def test_what_a_page_leaves_open(told: str, said: str, same: bool) -> None:
    assert agrees(told, said) is same
