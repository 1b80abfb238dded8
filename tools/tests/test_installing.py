"""`make install`: what programs say of themselves becomes pages and completions, and what is put in
place is taken away again."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from installing import completions, man_page
from installing.__main__ import PYTHON, completion, ctl_modules
from installing.help_text import Command, Option, ask, describe, parse
from installing.tree import InstallError, Tree

ROOT = Path(__file__).resolve().parents[2]
CLAP = """\
Sends objects

Usage: tool send [OPTIONS] FILE

Arguments:
  <FILE>
          What is sent

Options:
  -i, --interface <PORT@INTERFACE>
          Put a port on an interface. Isn't repeated

      --io <HOW>
          How frames come

          Possible values:
          - ring:    Mapped
          - sockets: System calls

          [default: ring]

  -L, --level <LEVEL>
          [default: info]
          [possible values: trace, info]

      --pcap [<DIR>]
          Capture

Options without effect:
      --nanolog <ADDRESS>
"""
TABLE = """\
Compiles.

Usage: tool [OPTIONS] FILE

Options:
  -o, --output FILE                   the JSON
  --format binary|text
                                      the default is binary
  --disable, --disable-all[=NAMES]    ignored
  -O[LEVEL]                           the level
  -E                                  only this
"""
ARGPARSE = """\
usage: tool [-h] COMMAND ...

`tool`: links of a fabric.

positional arguments:
  COMMAND
    links        every link
    link         change one

options:
  -h, --help     show this
  --switch {ebb,bmv2}  the target

An end is SWITCH:PORT.
"""
OF_LINK = """\
usage: tool link [-h] a {up,down}

positional arguments:
  a
  {up,down}

options:
  -h, --help  show this
"""


def option(command: Command, name: str) -> Option:
    (found,) = (each for each in command.options if name in each.names)
    return found


def test_help_of_clap_is_read() -> None:
    command, below = parse(["tool", "send"], CLAP)
    assert (command.summary, command.usage, below) == (
        "Sends objects",
        ["tool send [OPTIONS] FILE"],
        [],
    )
    assert option(command, "-i").value == "PORT@INTERFACE"
    assert option(command, "--io").choices == ["ring", "sockets"]
    assert option(command, "--level").choices == ["trace", "info"]
    assert option(command, "--level").about == ["[default: info]"]
    pcap = option(command, "--pcap")
    assert (pcap.value, pcap.optional, pcap.wants) == ("DIR", True, "folder")
    assert option(command, "--nanolog").about == []
    assert [heading for heading, _ in command.sections] == [
        "Arguments",
        "Options",
        "Options without effect",
    ]


def test_the_table_of_the_compiler_is_read() -> None:
    command, _ = parse(["tool"], TABLE)
    assert option(command, "-o").wants == "file"
    assert option(command, "--format").choices == ["binary", "text"]
    disable = option(command, "--disable")
    assert (disable.names, disable.optional) == (["--disable", "--disable-all"], True)
    assert option(command, "-O").optional
    assert option(command, "-E").value == ""


def test_help_of_argparse_is_read_with_its_commands() -> None:
    texts = {(): ARGPARSE, ("links",): OF_LINK, ("link",): OF_LINK}
    command = describe("tool", lambda words: texts[tuple(words)])
    assert command.summary == "Links of a fabric"
    assert [(each.name, each.about) for each in command.commands] == [
        ("tool links", ["every link"]),
        ("tool link", ["change one"]),
    ]
    assert option(command, "--switch").choices == ["ebb", "bmv2"]
    assert command.after == ["An end is SWITCH:PORT."]
    assert [each.value for each in command.commands[1].arguments] == ["a", "{up,down}"]


def completed(script: str, *words: str) -> list[str]:
    """Offers of bash for the last word."""
    line = (
        f"{script}\nCOMP_WORDS=({' '.join(map(repr, words))}); COMP_CWORD={len(words) - 1}; _tool\n"
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, check=True, timeout=10
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_offers_commands_options_and_values() -> None:
    texts = {(): ARGPARSE, ("links",): OF_LINK, ("link",): CLAP}
    script = completions.bash(describe("tool", lambda words: texts[tuple(words)]))
    assert completed(script, "tool", "li") == ["links", "link"]
    assert completed(script, "tool", "--s") == ["--switch"]
    assert completed(script, "tool", "--switch", "") == ["ebb", "bmv2"]
    assert completed(script, "tool", "link", "--io", "r") == ["ring"]
    assert completed(script, "tool", "link", "--p") == ["--pcap"]
    assert completed(script, "tool", "links", "--i") == []


@pytest.mark.parametrize(
    ("shell", "make"), [("zsh", completions.zsh), ("fish", completions.fish)], ids=["zsh", "fish"]
)
def test_other_shells_can_read_it(tmp_path: Path, shell: str, make: completions.Made) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell} on PATH")
    file = tmp_path / "completion"
    texts = {(): ARGPARSE, ("links",): OF_LINK, ("link",): CLAP}
    file.write_text(make(describe("tool", lambda words: texts[tuple(words)])))
    subprocess.run([shell, "-n", str(file)], check=True, timeout=30)


def test_a_page_has_all_and_nothing_that_roff_takes_for_its_own() -> None:
    texts = {(): ARGPARSE, ("links",): OF_LINK, ("link",): CLAP}
    command = describe("tool", lambda words: texts[tuple(words)])
    command.after = [".request", "a\\b"]
    page = man_page.page(command, "1.0", ["other"])
    for text in (
        r"tool \- Links of a fabric",
        r"\fB\-\-nanolog\fR",
        r".SS tool link",
        r"\&.request",
    ):
        assert text in page
    if shutil.which("groff"):
        checked = ["groff", "-man", "-Tutf8", "-ww", "-z"]
        done = subprocess.run(checked, input=page, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder of programs that can tell what they are, and nothing else."""
    folder = tmp_path / "build"
    folder.mkdir()
    for name in ("ebb-p4c", "ebb-switch", "ebb-stf"):
        source = folder / f"{name}.c"
        text = TABLE.replace("tool", name).replace("\n", "\\n")
        source.write_text(
            f'#include <stdio.h>\nint main(void) {{ fputs("{text}", stdout); return 0; }}\n'
        )
        subprocess.run(["cc", "-o", folder / name, source], check=True, timeout=60)
    (folder / "COMMIT").write_text("0123456789abcdef\n")
    return folder


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "installing", *map(str, arguments)]
    return subprocess.run(
        command, cwd=ROOT / "tools", capture_output=True, text=True, timeout=60, check=False
    )


needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


@needs_compiler
def test_what_is_installed_is_taken_away_and_nothing_else(tmp_path: Path, programs: Path) -> None:
    prefix = tmp_path / "usr"
    theirs = prefix / "share" / "man" / "man1" / "other.1"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("of somebody else")
    before = everything(prefix)
    for _ in range(2):  # again over itself
        done = run("p4", "--prefix", prefix, "--build", programs, "--aliases")
        assert done.returncode == 0, done.stderr
    installed = everything(prefix)
    assert {"bin/ebb-switch", "bin/p4c", "lib/ebb/COMMIT", "share/man/man1/ebb-stf.1"} <= installed
    assert (prefix / "bin" / "simple_switch_grpc").readlink() == Path("ebb-switch")
    assert ask([str(prefix / "bin" / "p4c"), "--help"]).startswith("Compiles.")
    assert run("remove", "--prefix", prefix).returncode == 0
    assert everything(prefix) == before
    assert run("remove", "--prefix", prefix).stdout == f"nothing of Ebb in {prefix}\n"


@needs_compiler
def test_nothing_is_installed_where_a_name_is_taken(tmp_path: Path, programs: Path) -> None:
    prefix = tmp_path / "usr"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / "p4c").write_text("the reference compiler")
    before = everything(prefix)
    done = run("p4", "--prefix", prefix, "--build", programs, "--aliases")
    assert done.returncode == 1
    assert "bin/p4c is there, and Ebb has not installed it" in done.stderr
    assert everything(prefix) == before


@needs_compiler
def test_what_was_begun_can_be_taken_away(tmp_path: Path, programs: Path) -> None:
    (programs / "ebb-stf").unlink()
    prefix = tmp_path / "usr"
    done = run("p4", "--prefix", prefix, "--build", programs)
    assert done.returncode == 1
    assert "ebb-stf is not there: run `make build`" in done.stderr
    assert (prefix / "bin" / "ebb-p4c").exists()
    assert run("remove", "--prefix", prefix).returncode == 0
    assert everything(prefix) == set()


@needs_compiler
def test_what_was_killed_midway_can_be_taken_away(tmp_path: Path, programs: Path) -> None:
    waits = tmp_path / "path" / "objcopy"
    waits.parent.mkdir()
    waits.write_text('#!/bin/sh\nfor copy; do :; done\necho > "$copy"\nexec sleep 60\n')
    waits.chmod(0o755)
    prefix = tmp_path / "usr"
    command = [sys.executable, "-m", "installing", "p4"]
    command += ["--prefix", str(prefix), "--build", str(programs)]
    path = {"PATH": f"{waits.parent}:{os.environ['PATH']}"}
    begun = subprocess.Popen(command, cwd=ROOT / "tools", env=path, start_new_session=True)
    copy = prefix / "bin" / ".ebb-p4c.part"
    while not copy.exists():
        assert begun.poll() is None
        time.sleep(0.01)
    os.killpg(begun.pid, signal.SIGKILL)
    begun.wait(10)
    assert run("remove", "--prefix", prefix).returncode == 0
    assert everything(prefix) == set()


def modes(folder: Path) -> dict[str, int]:
    """Permissions of everything in a folder and of itself, links apart."""
    found = (path for path in (folder, *folder.rglob("*")) if not path.is_symlink())
    return {str(path.relative_to(folder.parent)): path.stat().st_mode & 0o7777 for path in found}


def expected_modes(found: dict[str, int]) -> None:
    assert found
    for name, mode in found.items():
        assert mode in (0o644, 0o755), f"{name}: {mode:o}"


@needs_compiler
@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_whatever_the_umask_all_can_read_and_only_the_owner_write(
    tmp_path: Path, programs: Path, umask: int
) -> None:
    before = os.umask(umask)
    try:
        done = run("p4", "--prefix", tmp_path / "usr", "--build", programs, "--aliases")
    finally:
        os.umask(before)
    assert done.returncode == 0, done.stderr
    found = modes(tmp_path / "usr")
    expected_modes(found)
    assert found["usr/bin/ebb-p4c"] == found["usr/share/man/man1"] == 0o755
    assert found["usr/lib/ebb/installed"] == 0o644


PYTHON_PART = """
import sys
from installing import __main__ as installing
installing.install = lambda options, tree: installing.python(options, tree, installing.commands())
sys.exit(installing.main())
"""


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_so_are_the_python_packages(tmp_path: Path, umask: int) -> None:
    wheel = tmp_path / "example-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.writestr("example/__init__.py", "")
        packed.writestr(
            "example-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: example\nVersion: 1\n"
        )
        packed.writestr(
            "example-1.dist-info/WHEEL",
            "Wheel-Version: 1.0\nTag: py3-none-any\nRoot-Is-Purelib: true\n",
        )
        packed.writestr("example-1.dist-info/RECORD", "")
    command = [sys.executable, "-c", PYTHON_PART, "all", "--wheel", wheel]
    command += ["--prefix", "/usr", "--destination", tmp_path / "root"]
    before = os.umask(umask)
    try:
        done = subprocess.run(
            list(map(str, command)), cwd=ROOT / "tools", capture_output=True, text=True, timeout=60
        )
    finally:
        os.umask(before)
    assert "Traceback" not in done.stderr, done.stderr
    found = modes(tmp_path / "root")
    expected_modes(found)
    assert found["root/usr/lib/ebb/python/example/__init__.py"] == 0o644
    assert found["root/usr/bin/ebb-ctl"] == 0o755


@pytest.mark.skipif(
    not (ROOT / "controller" / "ebb_controller" / "ebb_tm_pb2.py").exists(),
    reason="needs generated modules: run `make build`",
)
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--version"], "ebb-ctl 0.1.0 (commit "),
        (["table", "add", "--help"], "usage: ebb-ctl table add"),
        (["completion", "bash"], "ebb-ctl"),
        (["-a", "127.0.0.1:1", "info"], "no P4Runtime server answers at 127.0.0.1:1"),
        (["-s", "s1", "info"], "no fabric answers at "),
    ],
)
def test_ebb_ctl_runs_on_what_the_p4_tools_bring(
    tmp_path: Path, words: list[str], says: str
) -> None:
    """With the modules that are copied, and of others' packages those that are installed for it: in
    a Python that finds none of this work tree."""
    tree = Tree(tmp_path)
    ctl_modules(tree)
    packages = tmp_path / "packages"
    packages.mkdir()
    found = importlib.util.find_spec("finsy")
    assert found is not None and found.origin is not None
    site = Path(found.origin).parents[1]
    for name in ("finsy", "grpc", "google", "parsy", "pyee", "typing_extensions.py"):
        (packages / name).symlink_to(site / name)
    start = f"import sys; sys.path[:0] = {[str(tmp_path / PYTHON), str(packages)]}; "
    start += "from ebb_controller.commands import ctl; sys.exit(ctl())"
    done = subprocess.run(
        ["/usr/bin/python3", "-I", "-c", start, *words],
        capture_output=True, text=True, timeout=60, cwd=tmp_path,
    )  # fmt: skip
    assert says in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@needs_compiler
def test_a_package_is_made_below_a_destination(tmp_path: Path, programs: Path) -> None:
    done = run("p4", "--prefix", "/usr", "--destination", tmp_path / "root", "--build", programs)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "root" / "usr" / "bin" / "ebb-p4c").exists()


def test_a_completion_of_its_own_is_installed_instead_of_ours() -> None:
    ctl, other = Command(["ebb-ctl"]), Command(["ebb-p4c"])

    def ask_it(words: Sequence[str]) -> str:
        return f"prints {' '.join(words)}"

    assert completion(ctl, completions.bash, ask_it) == "prints completion bash"
    assert completion(ctl, completions.zsh, ask_it) == "prints completion zsh"
    assert completion(ctl, completions.fish, ask_it) == completions.fish(ctl)
    assert completion(other, completions.bash, ask_it) == completions.bash(other)


def test_a_file_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "p4c").write_text("the reference compiler")
    tree = Tree(tmp_path)
    with pytest.raises(InstallError, match="Ebb has not installed it"):
        tree.link("bin/p4c", "ebb-p4c")
    assert (tmp_path / "bin" / "p4c").read_text() == "the reference compiler"


def test_a_prefix_is_absolute() -> None:
    with pytest.raises(InstallError, match="must be absolute"):
        Tree(Path("usr"))
