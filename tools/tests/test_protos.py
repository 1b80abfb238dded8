"""Comparison of generated Rust."""

from __future__ import annotations

from protos import AGAIN, problems, recorded, sums

BEFORE = {"a.rs": "11", "b.fds": "22"}


def test_a_file_that_was_changed_added_or_removed_is_told() -> None:
    assert not [*problems(BEFORE, BEFORE)]
    for now, name in (
        (BEFORE | {"a.rs": "12"}, "a.rs"),
        (BEFORE | {"c.rs": "33"}, "c.rs"),
        ({"a.rs": "11"}, "b.fds"),
    ):
        (problem,) = problems(BEFORE, now)
        assert problem.startswith(f"{name}: ") and AGAIN in problem


def test_sums_are_read_as_sha256sum_writes_them() -> None:
    assert recorded("11  a.rs\n22  b.fds\n") == BEFORE


def test_descriptors_generator_messages_and_services_count() -> None:
    names = sums().keys()
    for part in ("descriptors.fds", "generate/src/main.rs", "p4-proto/src/generated/p4.v1.rs"):
        assert any(part in name for name in names), part
    assert "switch/p4runtime/src/services/p4.v1.rs" in names
