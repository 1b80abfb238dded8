"""Completion for bash, zsh and fish from what a program says of itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from installing.help_text import Command, Option

Made = Callable[[Command], str]
"""Makes the file of a shell."""


def bash(program: Command) -> str:
    """A file of share/bash-completion/completions."""
    function = _function(program)
    lines = [
        f"# {program.name}: made from its --help",
        f"{function}() {{",
        "  local word previous each path=0 commands= options=",
        "  word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} COMPREPLY=()",
    ]
    numbers = {id(command): number for number, command in enumerate(program.all())}
    if program.commands:
        lines += [
            '  for each in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
            '    case "$path $each" in',
        ]
        for command in program.all():
            lines += [
                f'      "{numbers[id(command)]} {each.words[-1]}") path={numbers[id(each)]} ;;'
                for each in command.commands
            ]
        lines += ["    esac", "  done"]
    lines.append('  case "$path $previous" in')
    for command in program.all():
        lines += [f"    {case}" for case in _bash_values(command, numbers[id(command)])]
    lines += ["  esac", '  case "$path" in']
    for command in program.all():
        below = _quoted(" ".join(each.words[-1] for each in command.commands))
        names = _quoted(" ".join(name for each in command.options for name in each.names))
        lines.append(f"    {numbers[id(command)]}) commands={below} options={names} ;;")
    lines += [
        "  esac",
        '  if [[ $word == -* ]]; then COMPREPLY=($(compgen -W "$options" -- "$word"))',
        '  elif [[ $commands ]]; then COMPREPLY=($(compgen -W "$commands" -- "$word"))',
        '  else COMPREPLY=($(compgen -f -- "$word")); fi',
        "}",
        f"complete -o filenames -F {function} {program.name}",
    ]
    return "\n".join(lines) + "\n"


def _bash_values(command: Command, number: int) -> Iterator[str]:
    """Words that follow options with a value."""
    for option in command.options:
        if not option.value or option.optional:
            continue
        what = {"file": "-f", "folder": "-d"}.get(option.wants, "")
        if option.choices:
            what = f"-W {_quoted(' '.join(option.choices))}"
        reply = f'COMPREPLY=($(compgen {what} -- "$word")); ' if what else ""
        places = "|".join(f'"{number} {name}"' for name in option.names)
        yield f"{places}) {reply}return ;;"


def zsh(program: Command) -> str:
    """A file of share/zsh/site-functions."""
    lines = [f"#compdef {program.name}", f"# {program.name}: made from its --help"]
    for command in reversed([*program.all()]):
        lines += [f"{_function(command)}() {{", *_zsh_body(command), "}"]
    lines.append(f'{_function(program)} "$@"')
    return "\n".join(lines) + "\n"


def _zsh_body(command: Command) -> Iterator[str]:
    specs = [spec for option in command.options for spec in _zsh_option(option)]
    if command.commands:
        specs += ["'1: :->command'", "'*:: :->rest'"]
    else:
        specs.append("'*:argument:_files'")
    yield "  local context state state_descr line"
    yield "  typeset -A opt_args"
    yield "  _arguments -C -s \\"
    for spec in specs[:-1]:
        yield f"    {spec} \\"
    yield f"    {specs[-1]}"
    if command.commands:
        yield "  case $state in"
        below = " ".join(
            _quoted(f"{each.words[-1]}:{_zsh_text(each.summary)}") for each in command.commands
        )
        yield f"    command) local -a found=({below}); _describe command found ;;"
        yield "    rest) case $line[1] in"
        for each in command.commands:
            yield f"      {each.words[-1]}) {_function(each)} ;;"
        yield "    esac ;;"
        yield "  esac"


def _zsh_option(option: Option) -> Iterator[str]:
    about = _zsh_text(option.about[0]) if option.about else ""
    action = {"file": "_files", "folder": "_files -/"}.get(option.wants, "")
    if option.choices:
        action = f"({' '.join(option.choices)})"
    colon = "::" if option.optional else ":"
    value = f"{colon}{_zsh_text(option.value)}:{action}" if option.value else ""
    for name in option.names:
        if re.fullmatch(r"--?[A-Za-z0-9][\w-]*", name):
            yield _quoted(f"*{name}[{about}]{value}")


def _zsh_text(text: str) -> str:
    """Text in which _arguments finds nothing of its own."""
    return re.sub(r"([\[\]:\\])", r"\\\1", text)


def fish(program: Command) -> str:
    """A file of share/fish/vendor_completions.d."""
    lines = [f"# {program.name}: made from its --help"]
    for command in program.all():
        where = _fish_where(command, program)
        for each in command.commands:
            about = f" -d {_quoted(each.summary)}" if each.summary else ""
            lines.append(f"complete -c {program.name}{where} -f -a {each.words[-1]}{about}")
        for option in command.options:
            lines.append(f"complete -c {program.name}{where} {_fish_option(option)}")
    return "\n".join(lines) + "\n"


def _fish_where(command: Command, program: Command) -> str:
    """When something of a command is offered: once its name is there, and none of those below."""
    seen = [f"__fish_seen_subcommand_from {word}" for word in command.words[1:]]
    if command.commands:
        below = " ".join(each.words[-1] for each in command.commands)
        seen.append(f"not __fish_seen_subcommand_from {below}")
    return f" -n {_quoted('; and '.join(seen))}" if program.commands else ""


def _fish_option(option: Option) -> str:
    words = []
    for name in option.names:
        bare = name.lstrip("-")
        kind = "-l" if name.startswith("--") else "-s" if len(bare) == 1 else "-o"
        words.append(f"{kind} {_quoted(bare)}")
    if option.value and not option.optional:
        words.append("-x" if option.choices or not option.wants else "-r")
    if option.choices:
        words.append(f"-a {_quoted(' '.join(option.choices))}")
    elif option.wants == "folder":
        words.append("-a '(__fish_complete_directories)'")
    if option.about:
        words.append(f"-d {_quoted(option.about[0])}")
    return " ".join(words)


def _function(command: Command) -> str:
    """A name that is no other's."""
    return "_" + re.sub(r"\W", "_", command.name)


def _quoted(text: str) -> str:
    """A word of any of the shells. Fish takes no other escape in single quotes than of these."""
    return "'" + text.replace("'", "'\\''") + "'"
