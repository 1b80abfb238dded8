"""Root writes into no folder that others can change, and believes no list that lies in one."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from ebb_topologies import own_folder, run_state
from ebb_topologies.files import InputError
from ebb_topologies.mininet_net import remove_interfaces
from ebb_topologies.model import Topology, from_table
from ebb_topologies.processes import claim, end_leftovers
from probes import interfaces, start_time

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="root is who is to be led astray")
pytestmark = as_root


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A folder of another user."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    os.chown(folder, NOBODY, NOBODY)
    return folder


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    """A process of root that leads its group, as daemons do."""
    process = subprocess.Popen(["sleep", "60"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def interface() -> Iterator[str]:
    name = "zvictim0"
    subprocess.run(["ip", "link", "add", name, "type", "veth", "peer", "zvictim1"], check=True)
    yield name
    subprocess.run(["ip", "link", "del", name], check=False)


@pytest.fixture
def one_switch() -> Topology:
    return from_table(
        {
            "switch": [{"name": "zva"}],
            "host": [{"name": "zvh"}],
            "link": [{"ends": ["zvh", "zva"]}],
        },
        "test",
    )


def planted(run: Path, secret: Path, victim: subprocess.Popen[bytes], interface: str) -> None:
    """Attacks that led root to truncate a file, kill a process and delete an interface."""
    run.mkdir(exist_ok=True)
    (run / "lock").symlink_to(secret)
    (run / "pids").write_text(f"{victim.pid} {start_time(victim.pid)} sshd\n")
    (run / "interfaces").write_text(f"{interface}\n")


@pytest.mark.parametrize("whose", [NOBODY, 0])
def test_what_lies_in_the_folder_of_a_run_is_not_believed(
    tmp_path: Path,
    theirs: Path,
    victim: subprocess.Popen[bytes],
    interface: str,
    one_switch: Topology,
    whose: int,
) -> None:
    """Refused where others can write; and in a folder of root's own it is believed no more."""
    secret = tmp_path / "secret"
    secret.write_text("of root")
    run = theirs / "run" if whose else tmp_path / "run"
    planted(run, secret, victim, interface)

    def without_interfaces(run: Path) -> list[str]:
        with claim(run):
            return remove_interfaces(one_switch, run)

    for work in (end_leftovers, without_interfaces):
        if whose:
            with pytest.raises(InputError, match=r"root writes nothing into .* belongs to nobody"):
                work(run)
        else:
            assert work(run) == []
    assert secret.read_text() == "of root"
    assert victim.poll() is None
    assert interface in interfaces()


def test_an_interface_with_another_index_is_none_of_the_run(
    tmp_path: Path, interface: str, one_switch: Topology
) -> None:
    """A name may be somebody else's by now; an index is given once."""
    record = run_state.made_state_folder(tmp_path) / "interfaces"
    index = socket.if_nametoindex(interface)
    record.write_text(f"{interface} {index + 1}\n{interface}\n")
    assert remove_interfaces(one_switch, tmp_path) == []
    record.write_text(f"{interface} {index}\n")
    assert remove_interfaces(one_switch, tmp_path) == [interface]
    record.parent.rmdir()


@pytest.mark.parametrize(
    ("below", "mode", "why"),
    [
        ("run", 0o777, "can be written by others"),
        ("run", 0o1777, "can be written by others"),  # they could add a link to the folder itself
        ("between", 0o777, "can be written by others"),
        ("between", 0o775, "can be written by others"),
    ],
)
def test_where_others_can_write_is_refused(tmp_path: Path, below: str, mode: int, why: str) -> None:
    run = tmp_path / "between" / "run"
    run.mkdir(parents=True)
    changed = run if below == "run" else run.parent
    os.chown(changed, 0, 100)  # a group with others in it
    changed.chmod(mode)
    with pytest.raises(InputError, match=f"{changed} {why}"):
        own_folder.own_folder(run)
    changed.chmod(0o755)
    assert own_folder.own_folder(run) == run


def test_among_temporary_files_a_folder_of_ones_own_is_well(tmp_path: Path) -> None:
    """Others can add to a folder with the sticky bit, and not take away."""
    tmp_path.chmod(0o1777)
    made = own_folder.own_folder(tmp_path / "results" / "run")
    assert made.is_dir()


def test_nothing_is_made_in_a_folder_of_others(theirs: Path) -> None:
    with pytest.raises(InputError, match="belongs to nobody"):
        own_folder.own_folder(theirs / "results" / "run")
    assert list(theirs.iterdir()) == []


def test_a_link_of_others_is_not_followed(tmp_path: Path, theirs: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (tmp_path / "mine").mkdir()
    (shared / "results").symlink_to(tmp_path / "mine")
    os.chown(shared / "results", NOBODY, NOBODY, follow_symlinks=False)
    with pytest.raises(InputError, match="results belongs to nobody"):
        own_folder.own_folder(shared / "results" / "run")
    # Nor one of our own that leads through a folder of theirs.
    (theirs / "on").symlink_to(tmp_path / "mine")
    (tmp_path / "link").symlink_to("theirs/on")
    with pytest.raises(InputError, match="theirs belongs to nobody"):
        own_folder.own_folder(tmp_path / "link" / "run")


def test_a_link_of_our_own_is_followed(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "results").symlink_to("disk")
    own_folder.own_folder(tmp_path / "results" / "run")
    assert (tmp_path / "disk" / "run").is_dir()
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(InputError, match="too many links"):
        own_folder.own_folder(tmp_path / "circle" / "run")


def test_who_has_become_root_by_sudo_may_start_in_a_folder_of_theirs(
    theirs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_UID", str(NOBODY))
    own_folder.own_folder(theirs / "run")


def test_whatever_the_umask_others_write_nothing(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        own_folder.own_folder(tmp_path / "results" / "run")
        own_folder.keep_from_others()
        (tmp_path / "results" / "run" / "logs").mkdir()
    finally:
        os.umask(before)
    for folder in ("results", "results/run", "results/run/logs"):
        assert (tmp_path / folder).stat().st_mode & 0o777 == 0o755, folder


def test_a_state_that_somebody_else_has_made_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = tmp_path / "ebb"
    monkeypatch.setattr(run_state, "OF_ROOT", base)
    claim(tmp_path / "run").close()
    assert base.stat().st_mode & 0o777 == 0o700
    base.chmod(0o755)
    with pytest.raises(InputError, match="not a folder of this user alone"):
        claim(tmp_path / "run")
    base.chmod(0o700)
    os.chown(base, NOBODY, NOBODY)
    with pytest.raises(InputError, match="not a folder of this user alone"):
        claim(tmp_path / "run")
    base.rmdir()
    base.symlink_to(tmp_path)
    with pytest.raises(InputError, match="not a folder of this user alone"):
        claim(tmp_path / "run")


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of root")
    lock = run_state.made_state_folder(tmp_path) / run_state.LOCK_FILE
    lock.symlink_to(secret)
    try:
        with pytest.raises(OSError, match="Too many levels of symbolic links"):
            claim(tmp_path)
    finally:
        lock.unlink()
        lock.parent.rmdir()
    assert secret.read_text() == "of root"
