"""Completion in shells: a script that asks `ebb-ctl` for what may come next."""

from __future__ import annotations

WORD = "__complete"
"""The first word of the question; the others are those of the line, the last one begun."""
SHELLS = ("bash", "zsh")

BASH = """\
_ebb_ctl() {
  local IFS=$'\\n'
  COMPREPLY=($(ebb-ctl WORD "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o nospace -F _ebb_ctl ebb-ctl
"""
ZSH = """\
#compdef ebb-ctl
_ebb_ctl() {
  local -a found
  found=(${(f)"$(ebb-ctl WORD "${(@)words[2,CURRENT]}" 2>/dev/null)"})
  compadd -Q -S '' -- $found
}
compdef _ebb_ctl ebb-ctl
"""


def script(shell: str) -> str:
    """For `eval "$(ebb-ctl completion bash)"`."""
    return (BASH if shell == "bash" else ZSH).replace("WORD", WORD, 1)
