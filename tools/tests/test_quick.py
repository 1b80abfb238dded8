"""Selection of `make test-quick` for a change."""

from __future__ import annotations

from quick import NOT_RUN, commands, imported, parts


def run_for(*files: str) -> list[str]:
    """The commands as lines, from the name of the tool on."""
    found = [" ".join(command) for command in commands(parts(files), files)]
    return [line.partition("-m ")[2] or line for line in found]


def test_of_a_crate_its_unit_tests_are_run() -> None:
    lines = run_for("switch/traffic-manager/src/lib.rs", "common/wire/Cargo.toml")
    cargo = [line for line in lines if line.startswith("cargo")]
    assert cargo == ["cargo test --locked --quiet --lib -p ebb-traffic-manager -p ebb-wire"]
    lines = run_for("switch/p4c/src/lib.rs", "host-agent/agent/src/main.rs")
    assert [line for line in lines if line.startswith("cargo")] == [
        "cargo test --locked --quiet --lib -p ebb-p4c",
        "cargo test --locked --quiet --bins -p ebb-agent -p ebb-p4c",
    ]


def test_of_a_changed_integration_test_the_crate_is_run_whole() -> None:
    lines = run_for("switch/ebb-stf/tests/suites.rs", "switch/ebb-stf/src/main.rs")
    assert [line for line in lines if line.startswith("cargo")] == [
        "cargo test --locked --quiet -p ebb-stf"
    ]


def test_of_a_module_the_tests_are_run_that_import_it() -> None:
    found = parts(["experiments/ebb_experiments/tour/figures.py"]).tests
    assert "experiments/tests/test_runs.py" in found
    assert "topologies/tests/test_model.py" not in found
    assert "tools/tests/test_widths.py" in parts(["tools/widths.py"]).tests
    assert "topologies/tests/test_model.py" in parts(["topologies/tests/test_model.py"]).tests


def test_of_a_module_that_everything_uses_only_its_own_tests_are_run() -> None:
    found = parts(["topologies/ebb_topologies/files.py"])
    assert found.tests == {"topologies/tests/test_files.py"}
    assert "experiments/tests/test_runs.py" in found.left_out


def test_of_a_mechanism_its_packet_tests_are_run() -> None:
    assert parts(["p4src/include/trimming.p4"]).mechanisms == {"trimming"}
    assert parts(["p4src/include/headers.p4"]).mechanisms == set()
    assert parts(["ptf-tests/tests/mlfq.py"]).mechanisms == {"mlfq"}


def test_programs_are_built_only_for_those_who_start_them() -> None:
    assert "make build" not in run_for("common/wire/src/lib.rs", "docs/ndp.md")
    assert "make build" in run_for("p4src/include/trimming.p4")


def test_of_a_page_only_pages_are_checked() -> None:
    assert [line.split()[-1] for line in run_for("docs/ndp.md")] == [
        "tools/widths.py",
        "tools/links.py",
    ]


def test_imports_are_found_however_they_are_written() -> None:
    source = "import a.b\nfrom c import d\ndef f():\n    from e.f import g\nfrom . import h\n"
    assert imported(source) == {"a.b", "c", "c.d", "e.f", "e.f.g"}


def test_it_says_what_it_does_not_run() -> None:
    assert "make test" in NOT_RUN
