"""A Debian package of an installation below a folder: what `make deb` runs after `make install`.

    python -m installing.deb ROOT PACKAGE.deb

ROOT has been made with `make install PREFIX=/usr DESTDIR=ROOT`. Python's packages that were
compiled are for the Python of this distribution release, so the package asks for that one.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from installing.__main__ import ROOT, version
from installing.tree import for_all_to_read

NEEDS = (
    *("ca-certificates", "ethtool", "iproute2", "iputils-ping", "libgcc-s1", "mininet", "procps"),
    "tcpdump",
)
"""Packages that tools/setup installs and programs need when they run."""
DESCRIPTION = """\
data-centre fabrics with (almost) no queues
 A P4_16 compiler and switch with a byte-accurate traffic manager, a host agent
 with NDP, SCDP, DCTCP and HULL, a P4Runtime controller, Mininet fabrics, and a
 simulator that runs the same parts in virtual time."""


def control(root: Path) -> str:
    """The control file (deb-control(5))."""
    libc = os.confstr("CS_GNU_LIBC_VERSION").split()[1]  # type: ignore[union-attr]
    major, minor = sys.version_info[:2]
    python = (f"python3 (>= {major}.{minor})", f"python3 (<< {major}.{minor + 1})")
    size = sum(path.lstat().st_size for path in files(root)) // 1024
    architecture = subprocess.run(
        ["dpkg", "--print-architecture"], capture_output=True, text=True, check=True
    )
    commit = (root / "usr" / "lib" / "ebb" / "COMMIT").read_text().strip()
    fields = {
        "Package": "ebb",
        "Version": version(),
        "Architecture": architecture.stdout.strip(),
        "Maintainer": "The maintainers of Ebb",
        "Section": "net",
        "Priority": "optional",
        "Depends": ", ".join([f"libc6 (>= {libc})", *python, *NEEDS]),
        "Installed-Size": str(size),
        "Description": f"{DESCRIPTION}\n .\n Built from commit {commit or 'unknown'}.",
    }
    return "".join(f"{name}: {value}\n" for name, value in fields.items())


def files(root: Path) -> list[Path]:
    """Files that are installed."""
    own = root / "DEBIAN"
    found = (path for path in root.rglob("*") if not path.is_relative_to(own))
    return sorted(path for path in found if path.is_symlink() or path.is_file())


def main() -> int:
    root, package = map(Path, sys.argv[1:])
    for_all_to_read()
    about = root / "DEBIAN"
    about.mkdir(exist_ok=True)
    copyright_file = root / "usr" / "share" / "doc" / "ebb" / "copyright"
    copyright_file.write_bytes((ROOT / "LICENSE").read_bytes())
    (about / "control").write_text(control(root))
    sums = (
        f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(root)}\n"
        for path in files(root)
        if not path.is_symlink()
    )
    (about / "md5sums").write_text("".join(sums))
    package.parent.mkdir(exist_ok=True)
    command = ["dpkg-deb", "--root-owner-group", "-Zxz", "-z1", "--build", str(root), str(package)]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
