"""Options of `ebb-ctl` and the environment variables that stand for them."""

from __future__ import annotations

import pytest
from ebb_controller.ctl import cli


@pytest.mark.parametrize(
    ("words", "variables", "told"),
    [
        (["-a", "127.0.0.1:99999"], {}, "argument -a/--addr: expected HOST:PORT"),
        ([], {"EBB_CTL_ADDR": "switch"}, "argument -a/--addr: expected HOST:PORT"),
        ([], {"EBB_CTL_DEVICE": "two"}, "argument -d/--device-id: invalid int value: 'two'"),
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
