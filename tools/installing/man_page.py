"""A manual page (man(7)) from what a program says of itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from installing.help_text import Command, Option


def page(program: Command, version: str, others: Sequence[str]) -> str:
    """The page of section 1. `others`: programs whose pages it names."""
    lines = [
        f'.TH {program.name.upper()} 1 "" "Ebb {_escaped(version)}" "Ebb"',
        *(".SH NAME", rf"{_escaped(program.name)} \- {_escaped(program.summary)}"),
        *(".SH SYNOPSIS", ".ad l", *_usage(program), ".ad"),
        *(".SH DESCRIPTION", *_paragraphs(program.about)),
        *_sections(program, ".SH"),
    ]
    if program.commands:
        lines.append(".SH COMMANDS")
        for command in (each for each in program.all() if each is not program):
            lines += [f".SS {_escaped(command.name)}", *_paragraphs(command.about)]
            lines += [*_usage(command), *_sections(command, ".PP")]
    if program.after:
        lines += [".SH NOTES", *_paragraphs(program.after)]
    if others:
        see = ", ".join(rf"\fB{_escaped(name)}\fR(1)" for name in sorted(others))
        lines += [".SH SEE ALSO", see]
    return "\n".join(lines) + "\n"


def _usage(command: Command) -> Iterator[str]:
    for line in command.usage:
        yield from (_escaped(line), ".br")


def _sections(command: Command, macro: str) -> Iterator[str]:
    for heading, entries in command.sections:
        yield from ([f".SH {heading.upper()}"] if macro == ".SH" else [macro, f"{heading}:"])
        for entry in entries:
            yield from (".TP", _head(entry))
            yield from _paragraphs(entry.about, ".IP") if entry.about else ["."]


def _head(entry: Option) -> str:
    names = ", ".join(rf"\fB{_escaped(name)}\fR" for name in entry.names)
    value = rf"\fI{_escaped(entry.value)}\fR" if entry.value else ""
    if not names:
        return value
    return f"{names} [{value}]" if entry.optional else f"{names} {value}".rstrip()


def _paragraphs(paragraphs: Sequence[str], between: str = ".PP") -> Iterator[str]:
    for number, paragraph in enumerate(paragraphs):
        if number:
            yield between
        yield _escaped(paragraph)


def _escaped(text: str) -> str:
    """Text that roff takes literally: no request at the beginning of a line, plain hyphens."""
    plain = text.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{plain}" if plain[:1] in (".", "'") else plain
