"""Puts Ebb below a prefix, or takes it away: what `make install` and `make uninstall` run.

python -m installing {all,p4,remove} --prefix DIR [--destination DIR] [..]
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from modulefinder import ModuleFinder
from pathlib import Path

from installing import completions, man_page
from installing.help_text import Command, ask, describe
from installing.tree import OWN, InstallError, Tree, for_all_to_read, unfinished

ROOT = Path(__file__).resolve().parents[2]
QUICK_START = ROOT / "docs" / "quick-start-p4.md"
P4_TOOLS = ("ebb-p4c", "ebb-switch", "ebb-stf")
PROGRAMS = (*P4_TOOLS, "ebb-agent", "ebb-simulator")
ALIASES = {
    "p4c": "ebb-p4c",
    "p4c-bm2-ss": "ebb-p4c",
    "simple_switch_grpc": "ebb-switch",
}
"""Names of the reference tools, for build scripts that call these."""
PYTHON = OWN / "python"
"""Folder of the Python packages, those of others too: nobody else's Python sees them."""
CTL = "ebb-ctl"
"""The command in Python that comes with the P4 tools."""
CTL_NEEDS = ("finsy", "grpcio", "protobuf")
"""Packages of others that it imports."""
CTL_MODULES = ("ebb_controller.commands", "ebb_controller.ctl.cli")
"""Modules of ours that it begins with: that of the command, which imports the other by its name."""
CTL_FOLDERS = ("controller", "topologies")
"""Folders where all modules of ours are that these import."""
STUDIES = ("ebb-sim", "ebb-experiment", "ebb-volume")
"""Commands that need the scientific packages."""
SHELLS = {
    "share/bash-completion/completions/{}": completions.bash,
    "share/zsh/site-functions/_{}": completions.zsh,
    "share/fish/vendor_completions.d/{}.fish": completions.fish,
}
"""Where shells look for the completion of a command, and what makes it of its `--help`."""
COMPLETES_ITSELF: dict[str, dict[completions.Made, str]] = {
    "ebb-ctl": {completions.bash: "bash", completions.zsh: "zsh"}
}
"""Commands that print a completion of their own (`COMMAND completion SHELL`), which knows more."""
Asked = Callable[[Sequence[str]], str]
"""A command: what it prints for some words."""
LAUNCHER = """\
#!/usr/bin/python3 -I
import os
import sys

sys.path.insert(0, {packages!r})
os.environ.setdefault("EBB_BUILD", {programs!r})
from {module} import {function} as main

sys.exit(main())
"""
"""A command in Python. It sees the packages of Ebb and of the distribution (Mininet), not those of
the user (-I), and starts the programs that were installed with it."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make install", description=__doc__)
    parser.add_argument("what", choices=("all", "p4", "remove"))
    parser.add_argument("--prefix", type=Path, required=True)
    parser.add_argument("--destination", type=Path)
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="folder of the programs")
    parser.add_argument(
        "--aliases", action="store_true", help="the names of the reference tools too"
    )
    parser.add_argument("--wheel", type=Path, help="of Ebb's Python packages")
    parser.add_argument("--study", action="store_true", help="with the scientific packages")
    parser.add_argument("--ctl", action="store_true", help="with the P4 tools ebb-ctl, too")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    for_all_to_read()
    try:
        tree = Tree(options.prefix, options.destination)
        if options.what == "remove":
            removed = tree.remove()
            print(
                f"{len(removed)} files removed from {tree.root}"
                if removed
                else f"nothing of Ebb in {tree.root}"
            )
            return 0
        install(options, tree)
    except (InstallError, OSError, ValueError, subprocess.CalledProcessError) as error:
        print(f"make install: {error}", file=sys.stderr)
        return 1
    return 0


def install(options: argparse.Namespace, tree: Tree) -> None:
    """Installs all or nothing where a name is taken. What else goes wrong, and who ends it midway,
    leaves a part, which the list has."""
    whole = options.what == "all"
    names = PROGRAMS if whole else P4_TOOLS
    aliases = ALIASES if options.aliases else {}
    in_python = commands() if whole else {CTL: commands()[CTL]} if options.ctl else {}
    tree.refuse(f"bin/{name}" for name in (*names, *aliases, *in_python))
    if whole:
        tree.remove()  # also what an earlier one had and this one has not
    for name in names:
        program(options.build / name, tree, f"bin/{name}")
    tree.write(OWN / "COMMIT", commit(options.build))
    scripts = python(options, tree, in_python) if whole else ctl(tree, in_python)
    for alias, target in aliases.items():
        tree.link(f"bin/{alias}", target)
    for name in ("LICENSE", "README.md", "CHANGELOG.md"):
        tree.write(f"share/doc/ebb/{name}", (ROOT / name).read_bytes())
    for kind in ("p4", "stf"):
        tree.write(f"share/doc/ebb/first.{kind}", first_program(kind))
    asked = {name: asking(tree, name) for name in (*names, *scripts)}
    described = [described_by(name, ask_it) for name, ask_it in asked.items()]
    for command in described:
        others = [each.name for each in described if each is not command]
        tree.write(f"share/man/man1/{command.name}.1", man_page.page(command, version(), others))
        for path, made in SHELLS.items():
            tree.write(path.format(command.name), completion(command, made, asked[command.name]))
    print(f"{len(described)} commands, their pages and completions installed in {tree.root}")


def program(built: Path, tree: Tree, name: str) -> None:
    """A program without what only a debugger reads."""
    if not built.exists():
        raise InstallError(f"{built} is not there: run `make build`")
    path = tree.place(name)
    part = unfinished(path)
    if shutil.which("objcopy"):
        subprocess.run(["objcopy", "--strip-debug", built, part], check=True)
    else:
        shutil.copyfile(built, part)
    part.chmod(0o755)
    part.replace(path)


def ctl(tree: Tree, scripts: dict[str, str]) -> dict[str, str]:
    """Installs the packages that `ebb-ctl` imports, and its command; returns that. A whole
    installation has it already."""
    folder = tree.root / PYTHON
    if not scripts or (folder / "ebb_experiments").exists():
        return {}
    shutil.rmtree(folder, ignore_errors=True)
    pip(folder, *CTL_NEEDS)
    ctl_modules(tree)
    launch(tree, scripts)
    return scripts


def ctl_modules(tree: Tree) -> None:
    """Modules of ours that `ebb-ctl` imports."""
    finder = ModuleFinder([str(ROOT / folder) for folder in CTL_FOLDERS])
    for name in CTL_MODULES:
        finder.import_hook(name)
    files = [getattr(module, "__file__", None) for module in finder.modules.values()]
    # Those that are built into Python have none.
    for path in [Path(file) for file in files if file]:
        _, *inner = path.relative_to(ROOT).parts
        tree.write(PYTHON.joinpath(*inner), path.read_bytes())
    tree.write(PYTHON / "ebb_topologies" / "data" / "COMMIT", commit(ROOT / "build"))
    about = f"Metadata-Version: 2.1\nName: ebb\nVersion: {version()}\n"
    tree.write(PYTHON / f"ebb-{version()}.dist-info" / "METADATA", about)


def pip(folder: Path, *wanted: str) -> None:
    """Installs packages and those that they need in a folder, in the versions of the lock file."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--root-user-action=ignore", "--no-warn-script-location", "--target", str(folder)]
    subprocess.run([*command, "-c", str(ROOT / "requirements.lock"), *wanted], check=True)
    shutil.rmtree(folder / "bin", ignore_errors=True)  # commands that start another Python


def python(options: argparse.Namespace, tree: Tree, scripts: dict[str, str]) -> dict[str, str]:
    """The Python packages, with those that they need, and their commands; returns these."""
    if options.wheel is None:
        raise InstallError("a whole installation needs --wheel")
    pip(tree.root / PYTHON, f"{options.wheel}[{'web,study' if options.study else 'web'}]")
    if not options.study:
        print(f"without the scientific packages: no {' and no '.join(STUDIES)} (STUDY=1)")
        scripts = {name: where for name, where in scripts.items() if name not in STUDIES}
    launch(tree, scripts)
    return scripts


def launch(tree: Tree, scripts: dict[str, str]) -> None:
    """Commands in Python."""
    for name, where in scripts.items():
        module, _, function = where.partition(":")
        text = LAUNCHER.format(
            packages=str(tree.prefix / PYTHON),
            programs=str(tree.prefix / "bin"),
            module=module,
            function=function,
        )
        tree.write(f"bin/{name}", text, 0o755)


def commands() -> dict[str, str]:
    """The commands in Python: where their functions are, by name."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return dict(table["project"]["scripts"])


def asking(tree: Tree, name: str) -> Asked:
    """An installed command, before it is where it will be found, too."""
    path = tree.root / "bin" / name
    start = [str(path)]
    if path.read_bytes().startswith(b"#!"):
        # Its packages are not yet where the launcher looks for them.
        text = path.read_text().replace(str(tree.prefix / PYTHON), str(tree.root / PYTHON))
        start = ["/usr/bin/python3", "-I", "-c", text]
    destination = str(tree.root).removesuffix(str(tree.prefix))
    return lambda words: ask([*start, *words]).replace(destination, "")


def described_by(name: str, ask_it: Asked) -> Command:
    return describe(name, lambda words: ask_it([*words, "--help"]))


def completion(command: Command, made: completions.Made, ask_it: Asked) -> str:
    """The file of a shell: the command's own, or what its `--help` tells."""
    shell = COMPLETES_ITSELF.get(command.name, {}).get(made)
    return ask_it(["completion", shell]) if shell else made(command)


def first_program(kind: str) -> str:
    """The program of docs/quick-start-p4.md, or its test."""
    (found,) = re.findall(rf"```{kind}\n(.*?)```", QUICK_START.read_text(), re.DOTALL)
    return str(found)


def version() -> str:
    table = tomllib.loads((ROOT / "Cargo.toml").read_text())
    return str(table["workspace"]["package"]["version"])


def commit(build: Path) -> str:
    """That of the programs."""
    file = build / "COMMIT"
    return file.read_text() if file.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
