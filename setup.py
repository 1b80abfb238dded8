"""Parts of a wheel that pyproject.toml cannot describe: data from other folders, and the commit.

Everything that Python reads at run time is copied into one folder of a package, laid out as the
repository is, where `ebb_topologies.installation.data` finds it.
"""

import shutil
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
DATA = ("experiments/scenarios", "experiments/papers", "topologies")
"""Folders whose TOML files are copied, those in folders below them too."""
TNA = sorted(path.stem for path in (ROOT / "p4src/tna").glob("*.p4"))
"""Programs for Tofino."""
COMPILED = [
    f"build/{program}.{kind}"
    for program in (
        *("fabric", "fabric_codel", "fabric_tenants", "fabric_full"),
        *(f"tna/{name}" for name in TNA),
    )
    for kind in ("json", "p4info.txtpb")
]
"""Compiled programs of p4src and p4src/tna."""
GENERATED = ("ebb_tm", "ebb_fabric", "ebb_trace")
"""Modules of the controller that `make build` generates."""


class BuildWithData(build_py):  # type: ignore[misc]
    """Copies the data after the modules. An editable installation reads the repository itself."""

    def run(self) -> None:
        """Builds, and says what `make build` has not made yet."""
        super().run()
        if self.editable_mode:
            return
        needed = [*COMPILED, *(f"controller/ebb_controller/{name}_pb2.py" for name in GENERATED)]
        missing = [name for name in needed if not (ROOT / name).exists()]
        if missing:
            raise SystemExit(f"a wheel needs {', '.join(missing)}: run `make wheels`")
        folder = Path(self.build_lib) / "ebb_topologies" / "data"
        for name in (*self._tables(), *COMPILED):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
        (folder / "COMMIT").write_text(_commit())

    def _tables(self) -> list[str]:
        found = (path for name in DATA for path in (ROOT / name).rglob("*.toml"))
        return sorted(str(path.relative_to(ROOT)) for path in found if "tests" not in path.parts)


def _commit() -> str:
    """The commit with + if files differ from it; empty outside of a git repository."""
    command = [
        "git",
        "-C",
        str(ROOT),
        *["describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+"],
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


setup(cmdclass={"build_py": BuildWithData})
