"""Folders that root may write into: those that no other user can change.

Whoever can change a folder on the way to a file can put a link there, and root would write,
truncate or delete the target of the link. So root refuses such folders, all the way from `/`, as
sshd does for keys. Other users are not restricted: such a link abuses no more than their own
rights, and they may share folders as they like.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

from ebb_topologies.errors import InputError
from ebb_topologies.installation import work_tree

MAX_LINKS = 40
"""Most symbolic links that the kernel follows on the way to a file."""
WRITABLE = stat.S_IWGRP | stat.S_IWOTH
"""Mode bits by which users other than the owner may write."""


def own_folder(path: Path) -> Path:
    """`path`, made if it is missing, with its parents. Raises `InputError` if it cannot be made, or
    if root would write where others can change files."""
    try:
        _refuse(path, sticky=True)
        for folder in reversed((path, *path.parents)):
            try:
                folder.mkdir(0o755)
            except FileExistsError:
                if not folder.is_dir():
                    raise
        _refuse(path, sticky=False)  # others may have made a folder meanwhile
    except OSError as error:
        raise InputError(f"folder {path}: {error.strerror}") from error
    return path


def keep_from_others() -> None:
    """From here on files of root are never writable by others, whatever the umask."""
    if os.geteuid() == 0:
        os.umask(os.umask(0o077) | WRITABLE)


def _refuse(path: Path, *, sticky: bool) -> None:
    """Raises `InputError` if root would write below a folder that others can change. In a sticky
    folder they can add files, but not remove or rename those of others: that is safe on the way to
    `path`, and for the last folder that exists if `sticky`."""
    if os.geteuid() != 0:
        return
    trusted, way = _trusted(), list(_way(path))
    for number, (part, status) in enumerate(way, start=1):
        may_add = status.st_mode & stat.S_ISVTX and (sticky or number < len(way))
        if status.st_uid not in trusted:
            why = f"belongs to {_user(status.st_uid)}"
        elif stat.S_ISDIR(status.st_mode) and _writable(status) and not may_add:
            why = "can be written by others"
        else:
            continue
        raise InputError(
            f"root writes nothing into {path}: {part} {why}, who could lead it to other files; "
            "start in a folder of your own, or name one"
        )


def _way(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Folders and links on the way to a path, as the kernel follows it, as far as they exist."""
    at = Path("/")
    left = [*path.absolute().parts[1:]]
    links = 0
    yield at, at.lstat()
    while left:
        name = left.pop(0)
        if name == "..":
            at = at.parent
            continue
        try:
            status = (at / name).lstat()
        except FileNotFoundError:
            return
        yield at / name, status
        if not stat.S_ISLNK(status.st_mode):
            at /= name
            continue
        links += 1
        if links > MAX_LINKS:
            raise InputError(f"{path}: too many links")
        target = (at / name).readlink()
        left = [*(part for part in target.parts if part != "/"), *left]
        at = Path("/") if target.is_absolute() else at


def _trusted() -> set[int]:
    """Users who may own folders that root writes into: root, the user who called sudo, the owner of
    the work tree whose code runs. The last two can act as root anyway."""
    users = {0}
    if (given := os.environ.get("SUDO_UID", "")).isdecimal():
        users.add(int(given))
    if (root := work_tree()) is not None:
        users.add(root.stat().st_uid)
    return users


def _writable(status: os.stat_result) -> bool:
    """Whether users other than the owner can change a folder. A group with the name of the owner
    and no other member counts as the owner."""
    if status.st_mode & stat.S_IWOTH:
        return True
    return bool(status.st_mode & stat.S_IWGRP) and not _alone(status.st_uid, status.st_gid)


def _alone(user: int, group: int) -> bool:
    try:
        name, entry = pwd.getpwuid(user).pw_name, grp.getgrgid(group)
    except KeyError:
        return False
    return entry.gr_name == name and set(entry.gr_mem) <= {name}


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"
