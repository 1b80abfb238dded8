"""Who mistypes a name is told which one may be meant, wherever a name is asked for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Literal

import pytest
from ebb_topologies.arguments import Parser, address, whole_from
from ebb_topologies.errors import InputError
from ebb_topologies.files import load, validate
from ebb_topologies.installation import scenario
from ebb_topologies.nearest import hint, nearest
from pydantic import BaseModel, ConfigDict, Field


def parser() -> Parser:
    found = Parser(prog="tool")
    found.add_argument("--error-format")
    commands = found.add_subparsers(dest="noun")
    commands.add_parser("table")
    commands.add_parser("counter")
    return found


def test_one_name_is_proposed_or_all_are_listed() -> None:
    assert hint("npd", ["dctcp", "hull", "ndp"]) == "did you mean 'ndp'?"
    assert hint("zzz", ["dctcp", "hull"]) == "known: dctcp, hull"
    assert hint("zzz", []) == "there is none"
    assert nearest("HULL", ["hull"]) == "hull"


@pytest.mark.parametrize(
    ("words", "meant"), [(["tabel"], "'table'"), (["--error-fromat=x"], "--error-format")]
)
def test_a_command_line_proposes_words_and_options(words: list[str], meant: str) -> None:
    with pytest.raises(InputError, match=f"did you mean {meant}\\?"):
        parser().parse_args(words)


def test_the_help_of_an_option_says_its_default() -> None:
    found = Parser(prog="tool")
    found.add_argument("--seconds", default=5, help="how long")
    found.add_argument("--size", default="full", help="which (default: all)")
    found.add_argument("--by", default="", help="series")
    found.add_argument("--json", action="store_true", help="for programs")
    found.add_argument("--seed", type=int, help="by default by chance")
    said = found.format_help()
    assert "how long (default: 5)" in said
    assert said.count("default") == 3


def test_every_option_of_every_program_is_explained() -> None:
    for program in sorted(Path(sys.executable).parent.glob("ebb-*")):
        said = _help(program)
        commands = re.search(r"{([a-z,]+)} \.\.\.", said)
        for command in commands[1].split(",") if commands else ():
            said += _help(program, command)
        for option, explained in re.findall(
            r"^  (-.*?)(?:  +(\S.*)|\n {8,}(?:\S.*))?$", said, re.M
        ):
            assert explained or f"{option}\n   " in said, (program.name, option)


def _help(program: Path, *words: str) -> str:
    wide = os.environ | {"COLUMNS": "200"}
    command = [str(program), *words, "--help"]
    return subprocess.run(command, env=wide, capture_output=True, text=True, check=True).stdout


def test_a_file_that_is_not_there_is_looked_for_beside(tmp_path: Path) -> None:
    (tmp_path / "incast.toml").write_text("")
    with pytest.raises(
        InputError, match=r"No such file or directory; did you mean '.*incast.toml'"
    ):
        load(tmp_path / "incats.toml")
    with pytest.raises(InputError, match=r"No such file or directory$"):
        load(tmp_path / "nope.toml")


def test_a_scenario_is_named_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A word with a suffix is a file; a name is a scenario of ours whatever else has that name."""
    shipped = scenario(Path("smoke"))
    assert shipped.exists()
    monkeypatch.chdir(tmp_path)
    for name in ("smoke", "mine"):
        Path(name).write_text("")
    assert scenario(Path("smoke")) == shipped
    assert scenario(Path("smoke.toml")) == Path("smoke.toml")
    with pytest.raises(InputError, match=r"no scenario 'mine'; .* \(or a file: NAME.toml\)"):
        scenario(Path("mine"))
    with pytest.raises(InputError, match="no scenario 'smok'; did you mean 'smoke'"):
        scenario(Path("smok"))


class Fct(BaseModel):
    model_config = ConfigDict(extra="forbid")
    of: Literal["fct"]
    scale: float = 1


class Lost(BaseModel):
    of: Literal["lost"]


class Page(BaseModel):
    model_config = ConfigDict(extra="forbid")
    schemes: list[str] = []
    repeat: int = 1
    metric: dict[str, Annotated[Fct | Lost, Field(discriminator="of")]] = {}


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"schemas": []}, "unknown key 'schemas'; did you mean 'schemes'? (valid keys: "),
        ({"metric": {"m": {"of": "ftc"}}}, "'metric.m.of': there is no 'ftc'; did you mean 'fct'?"),
        ({"metric": {"m": {"scale": 2}}}, "'metric.m.of' is missing"),
        ({"metric": {"m": 7}}, "'metric.m': must be a table, not 7"),
        ({"schemes": "ndp"}, "'schemes': must be a list, not 'ndp'"),
        ({"schemes": [1]}, "'schemes.0': must be text, not 1"),
        ({"repeat": "many"}, "'repeat': must be a whole number, not 'many'"),
    ],
)
def test_findings_in_files_are_in_the_words_of_toml(table: dict[str, object], told: str) -> None:
    with pytest.raises(InputError) as caught:
        validate(Page, table, "page.toml")
    assert str(caught.value).startswith(f"page.toml: {told}")


@pytest.mark.parametrize("given", ["0", "-1", "two", "1.5", "9" * 5000, "\u0661"])
def test_numbers_of_command_lines_are_checked_before_anything_runs(given: str) -> None:
    found = Parser(prog="tool")
    found.add_argument("--workers", type=whole_from(1))
    assert found.parse_args(["--workers", "7"]).workers == 7
    with pytest.raises(InputError) as caught:
        found.parse_args([f"--workers={given}"])
    told = f"argument --workers: expected a whole number from 1, not '{given}' (see --help)"
    assert str(caught.value) == told


@pytest.mark.parametrize("given", ["switch", "127.0.0.1:99999", "127.0.0.1:0", ":9559", "h:x"])
def test_an_address_has_a_host_and_a_port(given: str) -> None:
    found = Parser(prog="tool")
    found.add_argument("--addr", type=address)
    for right in ("127.0.0.1:9559", "[::1]:1", "switch:65535", "unix:/run/switch"):
        assert found.parse_args(["--addr", right]).addr == right
    told = f"argument --addr: expected HOST:PORT, with a port to 65535, not '{given}'"
    with pytest.raises(InputError, match=re.escape(told)):
        found.parse_args([f"--addr={given}"])
