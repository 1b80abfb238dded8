"""Which `llvm-profdata` reads the counts of a rustc."""

from pathlib import Path

import pytest
from profile_guided import profdata

ABOUT = "release: 1.95.0\nhost: x86_64-unknown-linux-gnu\nLLVM version: 22.1.2"


def executable(at: Path) -> Path:
    at.parent.mkdir(parents=True, exist_ok=True)
    at.touch(mode=0o755)
    return at


def test_the_component_of_rustup_comes_first(tmp_path: Path) -> None:
    bin_ = tmp_path / "lib" / "rustlib" / "x86_64-unknown-linux-gnu" / "bin"
    component = executable(bin_ / "llvm-profdata")
    executable(tmp_path / "path" / "llvm-profdata-22")
    assert profdata(ABOUT, tmp_path, str(tmp_path / "path")) == component


def test_that_of_the_same_llvm_will_do(tmp_path: Path) -> None:
    executable(tmp_path / "llvm-profdata-14")
    found = executable(tmp_path / "llvm-profdata-22")
    assert profdata(ABOUT, tmp_path / "sysroot", str(tmp_path)) == found


def test_without_one_the_message_says_what_to_install(tmp_path: Path) -> None:
    executable(tmp_path / "llvm-profdata-14")
    with pytest.raises(LookupError, match=r"LLVM 22, which rustc 1\.95\.0 has: .*llvm-22"):
        profdata(ABOUT, tmp_path / "sysroot", str(tmp_path))
