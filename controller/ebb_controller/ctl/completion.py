"""Completion in shells: a script that asks `ebb-ctl` for what may come next."""

from __future__ import annotations

WORD = "__complete"
"""The first word of the question; the others are those of the line, the last one begun."""
SHELLS = ("bash", "zsh")

BASH = """\
_ebb_ctl() {
  mapfile -t COMPREPLY < <(ebb-ctl WORD "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o nospace -o default -F _ebb_ctl ebb-ctl
"""
ZSH = """\
#compdef ebb-ctl
_ebb_ctl() {
  local -a found
  found=(${(f)"$(ebb-ctl WORD "${(@)words[2,CURRENT]}" 2>/dev/null)"})
  if (( $#found )); then compadd -Q -S '' -- $found; else _files; fi
}
if [[ $funcstack[1] == _ebb-ctl ]]; then _ebb_ctl "$@"; else compdef _ebb_ctl ebb-ctl; fi
"""


def script(shell: str) -> str:
    """For `eval "$(ebb-ctl completion bash)"`, and as a file where a shell looks for such. Where
    the switch knows no word, names of files are offered."""
    return (BASH if shell == "bash" else ZSH).replace("WORD", WORD, 1)
