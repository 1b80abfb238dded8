"""The `--help` of a program: options, arguments, commands, as data.

The programs have three kinds of it: clap's (Rust), argparse's (Python) and the table of ebb-p4c. In
all of them an entry begins with little indentation and its text follows after two blanks or more,
or on lines that are indented further.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

WIDE = "10000"
"""Columns, so that argparse breaks no line."""
TEXT_INDENT = 8
"""Least indentation of a line that continues the entry above it, columns."""
NAMES = re.compile(r"(?:^|, )(-[^\s,=\[<{]+)")
POSSIBLE = re.compile(r"\s*\[possible values: ([^\]]*)\]")
PLACEHOLDERS = ("FILE", "FILES", "PATH", "JSON", "NETWORK", "SCENARIO", "PARAMS", "SOCKET")
"""Words that stand for a file."""
FOLDERS = ("DIR", "FOLDER", "RESULTS", "OUT", "BUILD")


@dataclass
class Option:
    """An option, or with no names an argument."""

    names: list[str]
    value: str = ""
    """Name of its value; empty: it takes none."""
    optional: bool = False
    """Whether the value may be left out."""
    about: list[str] = field(default_factory=list)
    """Paragraphs."""
    choices: list[str] = field(default_factory=list)
    """All values that are valid; none: any."""

    @property
    def wants(self) -> str:
        """Completion of its value: "file", "folder" or nothing."""
        words = set(re.findall(r"[A-Z]+", self.value.upper()))
        if words & {*FOLDERS}:
            return "folder"
        return "file" if words & {*PLACEHOLDERS} else ""


@dataclass
class Command:
    """A program, or one of its commands."""

    words: list[str]
    """The name of the program, and of the command."""
    about: list[str] = field(default_factory=list)
    """Paragraphs."""
    usage: list[str] = field(default_factory=list)
    sections: list[tuple[str, list[Option]]] = field(default_factory=list)
    """Headings, with their options or arguments."""
    commands: list[Command] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    """Paragraphs after all."""

    @property
    def name(self) -> str:
        return " ".join(self.words)

    @property
    def summary(self) -> str:
        """The first paragraph as one phrase without a full stop."""
        return self.about[0].removesuffix(".") if self.about else ""

    @property
    def options(self) -> list[Option]:
        return [each for _, entries in self.sections for each in entries if each.names]

    @property
    def arguments(self) -> list[Option]:
        return [each for _, entries in self.sections for each in entries if not each.names]

    def all(self) -> Iterator[Command]:
        """This one and all below it."""
        yield self
        for each in self.commands:
            yield from each.all()


def ask(words: Sequence[str]) -> str:
    """Output of a program."""
    environment = os.environ | {"COLUMNS": WIDE, "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0 or not done.stdout:
        raise ValueError(f"{words[0]} {words[-1]} failed: {done.stderr.strip() or 'no text'}")
    return done.stdout


def describe(name: str, help_of: Callable[[Sequence[str]], str]) -> Command:
    """A program and its commands. `help_of`: the text for a list of commands."""
    return _describe([name], help_of)


def _describe(words: list[str], help_of: Callable[[Sequence[str]], str]) -> Command:
    command, below = parse(words, help_of(words[1:]))
    for name, about in below:
        if name == "help":  # clap's own, which prints what --help does
            continue
        each = _describe([*words, name], help_of)
        each.about = each.about or [about]
        command.commands.append(each)
    return command


def parse(words: list[str], text: str) -> tuple[Command, list[tuple[str, str]]]:
    """A help text, and the names of its commands with what is said of them there."""
    command = Command(words)
    below: list[tuple[str, str]] = []
    for heading, lines in _blocks(text):
        if heading is None:
            target = command.after if command.sections or below else command.about
            target += _paragraphs(lines)
        elif heading.lower().startswith("usage"):
            command.usage += [line.strip() for line in lines if line.strip()]
        elif heading == "Commands":
            below += [(entry.value, " ".join(entry.about)) for entry in _entries(lines)]
        else:
            nested = _commands_of_argparse(lines)
            below += nested
            entries = [each for each in _entries(lines) if each.names or not nested]
            if entries:
                command.sections.append((heading.capitalize(), entries))
    command.about = [_without_name(each, words[0]) for each in command.about]
    return command, below


def _without_name(text: str, name: str) -> str:
    """Without "`ebb-sim SCENARIO`: " before it, which the docstrings of Python's commands have."""
    changed = re.sub(rf"^`{re.escape(name)}[^`]*`:? ", "", text)
    return changed[:1].upper() + changed[1:]


def _blocks(text: str) -> Iterator[tuple[str | None, list[str]]]:
    """Lines by their heading; none: text of no section."""
    heading: str | None = None
    lines: list[str] = []
    for line in text.splitlines():
        found = re.match(r"(Usage|usage): *(.*)", line) or re.match(r"(\S[^:]*):$", line)
        if found or (line and not line[0].isspace() and heading is not None):
            yield heading, lines
            heading, lines = None, []
            if found:
                heading, lines = found[1], [found[2]] if found.lastindex == 2 else []
                continue
        lines.append(line)
    yield heading, lines


def _paragraphs(lines: Sequence[str]) -> list[str]:
    """Lines as paragraphs, which blank lines part. A line that begins with `- ` is one of its
    own."""
    found: list[str] = []
    fresh = True
    for line in (each.strip() for each in lines):
        if not line:
            fresh = True
        elif fresh or line.startswith("- "):
            found.append(line)
            fresh = False
        else:
            found[-1] += f" {line}"
    return found


def _entries(lines: Sequence[str]) -> Iterator[Option]:
    head: str | None = None
    text: list[str] = []
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if line.strip() and indent < TEXT_INDENT:
            if head is not None:
                yield _option(head, text)
            head, _, rest = re.sub(r" {2,}", "\0", line.strip(), count=1).partition("\0")
            text = [rest]
        else:
            text.append(line)
    if head is not None:
        yield _option(head, text)


def _option(head: str, text: Sequence[str]) -> Option:
    names = NAMES.findall(head) if head.startswith("-") else []
    value = head
    if names:
        last = head.rindex(names[-1]) + len(names[-1])
        value = head[last:].strip().removeprefix("=")
    optional = value.startswith("[") and value.endswith("]") and bool(names)
    value = value[1:-1].removeprefix("=") if optional else value
    choices = _alternatives(value)
    if value.startswith("<"):  # clap's, with what says that it may be repeated
        value = re.sub(r"[<>]", "", value)
    about = []
    for paragraph in _paragraphs(text):
        if found := POSSIBLE.search(paragraph):
            choices = found[1].split(", ")
            paragraph = POSSIBLE.sub("", paragraph)
        elif found := re.match(r"- ([\w-]+)(?::|$)", paragraph):
            choices.append(found[1])
        if paragraph:
            about.append(paragraph)
    return Option(names, value, optional, about, choices)


def _alternatives(value: str) -> list[str]:
    """`{a,b}` or `a|b`."""
    if value.startswith("{") and value.endswith("}"):
        return value[1:-1].split(",")
    return value.split("|") if re.fullmatch(r"[a-z][\w-]*(\|[a-z][\w-]*)+", value) else []


def _commands_of_argparse(lines: Sequence[str]) -> list[tuple[str, str]]:
    """Commands below a line such as `COMMAND` or `{list,run}`, which are indented by four."""
    if not any(re.fullmatch(r"  ([A-Z]+|\{[\w,-]+\})", line) for line in lines):
        return []
    found = (re.match(r" {4}(\w[\w-]*)(?: {2,}(.*))?$", line) for line in lines)
    return [(match[1], match[2] or "") for match in found if match]
