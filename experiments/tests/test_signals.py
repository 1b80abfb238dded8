"""Signals at the prompt."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest
from ebb_experiments import cli
from ebb_topologies.processes import ENDING_SIGNALS


class NetThatMissesASignal:
    """Its prompt is where a signal has arrived, but Python will not look before something else
    happens."""

    def prompt(self) -> None:
        writer = signal.set_wakeup_fd(-1)
        signal.set_wakeup_fd(writer)
        os.write(writer, bytes([signal.SIGTERM]))
        time.sleep(20)


def test_a_signal_in_the_instant_the_prompt_appears_ends_the_run() -> None:
    before = {number: signal.signal(number, cli._end) for number in ENDING_SIGNALS}
    net: Any = NetThatMissesASignal()
    started = time.monotonic()
    try:
        with pytest.raises(cli.Ended) as ended:
            cli._prompt(net)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert ended.value.signal == signal.SIGTERM
    assert time.monotonic() - started < 10
