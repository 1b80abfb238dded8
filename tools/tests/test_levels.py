"""The counts that `make test` ends with."""

from __future__ import annotations

import sys
from pathlib import Path

from levels import (
    LEVELS,
    Level,
    Running,
    cargo,
    judge,
    main,
    pytest,
    run,
    table,
    unittest,
    verdicts,
)
from pytest import MonkeyPatch

CARGO = """
running 3 tests
test state::tests::opens ... ok
test packet_numbers_wrap ... ignored, takes half a minute; cargo test -- --ignored packet_numbers
test state::tests::closes ... FAILED

failures:

---- state::tests::closes stdout ----

thread 'state::tests::closes' (4711) panicked at src/state.rs:12:5:
assertion failed: closed

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.02s

running 2 tests
test simple_switch ... ignored (needs simple_switch on PATH)
test our_switch    ... ok

test result: ok. 1 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1.00s

   Doc-tests ebb_units
running 1 test
test common/units/src/lib.rs - (line 3) ... ignored

test result: ok. 0 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s
""".splitlines()

PYTEST = """
....s.F                                                                  [100%]
=========================== short test summary info ============================
SKIPPED [2] topologies/tests/test_mininet_net.py:26: network namespaces need root
SKIPPED [1] experiments/tests/test_sim.py:28: needs build/ebb-simulator: run `make build`
FAILED experiments/tests/test_sim.py::test_a - AssertionError: 3 passed in 1s
1 failed, 90 passed, 3 skipped, 1 warning, 2 errors in 43.35s
""".splitlines()

PTF = """
== 3 packet tests: ebb-p4c, ebb-switch
arp.Answered ... ok
trimming.Deflected ... skipped 'SKIP: bmv2: a full queue drops without telling the program'
trimming.Occupancy ... ERROR

----------------------------------------------------------------------
Ran 3 tests in 4.056s

FAILED (errors=1, skipped=1)
""".splitlines()

VERDICTS = """
   3.1 s  20 switches (ebb-switch) and 16 hosts are up
ok   ndp: every object arrived with the right SHA-256: 28 flows
skip dctcp: average queue in the incast below tcp-droptail's: BMv2 has no link rate
busy ndp: no timeout in the incast: 3 timeouts
FAIL scdp: no timeout in the incast: 1 timeouts
""".splitlines()


def counts(level: Level) -> tuple[int, int, int]:
    return level.passed, level.failed, level.skipped.total()


def test_cargo_and_what_prints_like_it() -> None:
    level = cargo(CARGO)
    assert counts(level) == (2, 1, 3)
    assert set(level.skipped) == {
        "takes half a minute; cargo test -- --ignored packet_numbers",
        "needs simple_switch on PATH",
        "no reason given",
    }
    assert level.failures == ["state::tests::closes panicked at src/state.rs:12:5"]


def test_pytest() -> None:
    level = pytest(PYTEST)
    assert counts(level) == (90, 3, 3)
    assert level.skipped["network namespaces need root"] == 2
    assert level.failures == [
        "experiments/tests/test_sim.py::test_a - AssertionError: 3 passed in 1s"
    ]
    assert counts(pytest(["7 passed in 0.10s"])) == (7, 0, 0)


def test_ptf() -> None:
    level = unittest(PTF)
    assert counts(level) == (1, 1, 1)
    assert list(level.skipped) == ["bmv2: a full queue drops without telling the program"]
    assert level.failures == ["trimming.Occupancy"]
    assert counts(unittest(["a.B ... ok", "Ran 1 test in 1.0s", "", "OK"])) == (1, 0, 0)


def test_verdicts() -> None:
    level = verdicts(VERDICTS)
    assert counts(level) == (1, 1, 2)
    assert "BMv2 has no link rate" in level.skipped
    assert level.failures == ["scdp: no timeout in the incast: 1 timeouts"]


def test_a_level_without_a_result_has_not_run_and_fails() -> None:
    for read, _ in LEVELS.values():
        level = judge(read(["error: could not compile `ebb-units`"]), 101)
        assert (level.ran, counts(level)) == (False, (0, 1, 0))
        assert not judge(read([]), 0).ran


def test_a_command_that_fails_is_a_failure_although_its_tests_passed() -> None:
    assert counts(judge(Level(passed=3), 2)) == (3, 1, 0)
    assert counts(judge(Level(passed=3, failed=2), 2)) == (3, 2, 0)
    assert counts(judge(Level(passed=3), 0)) == (3, 0, 0)


def test_the_table_ends_with_the_sums() -> None:
    levels = {"test-rust": cargo(CARGO), "test-ptf": judge(Level(), 2)}
    *rows, _empty, last = table(levels)
    assert last == "2 passed, 2 failed, 3 skipped"
    assert any(row.endswith("did not run") for row in rows)
    assert any(row.split()[:2] == ["FAILED", "state::tests::closes"] for row in rows)
    assert rows[0].split()[-4:] == ["wall", "s", "cpu", "s"]
    assert any(row.endswith("1   needs simple_switch on PATH") for row in rows)


def test_a_level_says_what_it_cost(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    makefile = f"test-ptf:\n\t@sleep 0.2\n\t@{sys.executable} -c 'sum(range(10**6))'\n"
    (tmp_path / "Makefile").write_text(makefile)
    monkeypatch.chdir(tmp_path)
    level = Running("test-ptf").show()
    assert level.processor_s > 0
    assert level.wall_s >= 0.2


PARTS = """
test-build:
test-fabrics:
	@sleep 0.2; touch said; echo hello; until test -e here; do sleep 0.01; done
	@echo '2 passed in 0.1s'
test-tools:
	@touch here; test -e said && echo '1 failed, 3 passed in 0.1s'
	@false
"""
"""The first waits until the second is there, which begins when the first has said a word."""


def test_parts_of_a_level_run_side_by_side_and_count_as_one(
    tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    (tmp_path / "Makefile").write_text(PARTS)
    monkeypatch.chdir(tmp_path)
    levels = run(["test-python"])
    assert list(levels) == ["test-python"]
    assert (levels["test-python"].passed, levels["test-python"].failed) == (5, 1)


def test_an_unknown_level_is_refused() -> None:
    assert main(["test-everything"]) == 2
