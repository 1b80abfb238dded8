"""The page that is committed is the one of its sources, and makes no HTML of what it is told."""

from __future__ import annotations

import re
import shutil
import subprocess
from hashlib import sha256

import pytest
from support import ROOT

PAGE = ROOT / "dashboard" / "page"
STATIC = ROOT / "dashboard" / "ebb_dashboard" / "static"
HTML_SINKS = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment"
    r"|setHTML|\beval\b|new Function|srcdoc"
)


def test_the_built_page_is_that_of_the_sources() -> None:
    """As dashboard/page/build.mjs computes it; this needs no node."""
    hashed = sha256()
    sources = [f"src/{path.name}" for path in sorted((PAGE / "src").iterdir())]
    for path in [*sources, "build.mjs", "package-lock.json"]:
        hashed.update(f"{path}\n".encode() + (PAGE / path).read_bytes())
    for name in ("page.js", "page.css"):
        first = (STATIC / name).open().readline()
        assert hashed.hexdigest() in first, f"{name} is of other sources: run `make page`"
    assert (STATIC / "index.html").read_text() == (PAGE / "src" / "index.html").read_text()


@pytest.mark.skipif(
    not (PAGE / "node_modules").exists() or shutil.which("node") is None,
    reason="needs node and the page's packages: run `make page`",
)
def test_the_sources_build_to_what_is_there() -> None:
    done = subprocess.run(
        ["npm", "run", "--silent", "check"], cwd=PAGE, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_was_told_never_becomes_html() -> None:
    for path in [*(PAGE / "src").glob("*.ts"), STATIC / "page.js"]:
        assert not HTML_SINKS.search(path.read_text()), path


def test_the_page_asks_nobody_else() -> None:
    """It works without a network: no address of another server is in it."""
    for name in ("page.js", "page.css", "index.html"):
        addresses = re.findall(r"(?:https?:)?//[\w.-]+\.\w+", (STATIC / name).read_text())
        assert set(addresses) <= {"http://www.w3.org"}, name
