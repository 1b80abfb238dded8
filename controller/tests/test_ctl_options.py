"""Options of `ebb-ctl` and the environment variables that stand for them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ebb_controller.ctl import cli
from ebb_controller.ctl.words import key, members, replicas, with_parameters
from ebb_topologies.errors import InputError


@pytest.mark.parametrize(
    ("words", "variables", "told"),
    [
        (["-a", "127.0.0.1:99999"], {}, "argument -a/--addr: expected HOST:PORT"),
        ([], {"EBB_CTL_ADDR": "switch"}, "argument -a/--addr: expected HOST:PORT"),
        ([], {"EBB_CTL_DEVICE": "two"}, "argument -d/--device-id: expected a whole number from 0"),
        (["-d", "-1"], {}, "argument -d/--device-id: expected a whole number from 0 to 2^64-1"),
        (["-d", str(2**64)], {}, "argument -d/--device-id: expected a whole number from 0"),
    ],
)
def test_wrong_ones_are_told_in_a_line(
    words: list[str],
    variables: dict[str, str],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    cli.parser.cache_clear()
    assert cli.main([*words, "table", "list"]) == 1
    cli.parser.cache_clear()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"ebb-ctl: {told}")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("mirror set -1 2", "argument ID: expected a number from 0 to 2^32-1, not '-1'"),
        ("mirror set 4294967296 2", "argument ID: expected a number from 0 to 2^32-1"),
        (
            "mirror set 1 2 --length 2147483648",
            "argument --length: expected a number from 0 to 2^31",
        ),
        ("mirror set 1 2 --class -3", "argument --class: expected a number from 0 to 2^32-1"),
        ("multicast delete x", "argument ID: expected a number from 0 to 2^32-1, not 'x'"),
        ("profile delete-group ecmp -1", "argument ID: expected a number from 0 to 2^32-1"),
        ("counter read c -1", "argument INDEX: expected a number from 0 to 2^63-1"),
        (f"counter write c 0 1 {2**63}", "argument BYTES: expected a number from 0 to 2^63-1"),
        ("trace 4294967296", "argument PORT: expected a number from 0 to 2^32-1"),
    ],
)
def test_numbers_beyond_those_of_p4runtime_are_told_with_their_argument(
    words: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["-a", "127.0.0.1:1", *words.split()]) == 1
    assert capsys.readouterr().err.startswith(f"ebb-ctl: {told}")


def test_numbers_of_entries_are_told_with_their_name() -> None:
    with pytest.raises(InputError, match=r"^port: expected a number from 0 to 2\^32-1, not '-1'"):
        replicas(["-1"])
    with pytest.raises(InputError, match=r"^instance: expected a number from 0 to 2\^32-1"):
        replicas([f"1:{2**32}"])
    with pytest.raises(InputError, match=r"^weight: expected a number from 0 to 2\^31-1"):
        members([f"1:{2**31}"])
    table: Any = SimpleNamespace(alias="t", match_fields=[])
    for word, bits in (("priority", 31), ("timeout_ms", 43)):
        with pytest.raises(InputError, match=rf"^{word}: expected a number from 0 to 2\^{bits}-1"):
            key(table, [f"{word}={2**bits}"])


@pytest.mark.parametrize(
    "words",
    [
        ["queue", "set-config", "/dev/zero"],
        ["program", "push", "/dev/zero", "/dev/null"],
        ["program", "push", "/dev/null", "/dev/zero"],
        ["--cacert", "/dev/zero", "info"],
    ],
)
def test_a_file_without_an_end_is_not_read_to_its_end(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["-a", "127.0.0.1:1", *words]) == 1
    assert capsys.readouterr().err == "ebb-ctl: /dev/zero: has more than 256 MiB\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["prot=2"], "action send: there is no parameter 'prot'; did you mean 'port'?"),
        ([], "action send: parameters are missing: port"),
        (["2", "3"], "action send: parameter 2: '3' is one too many; there are: port"),
    ],
)
def test_wrong_parameters_of_an_action_are_told(words: list[str], told: str) -> None:
    send = SimpleNamespace(alias="send", params=[SimpleNamespace(name="port")])
    with pytest.raises(InputError) as error:
        with_parameters(send, words)
    assert str(error.value) == told
