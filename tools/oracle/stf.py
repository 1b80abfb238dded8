"""STF text to commands and expectations: what P4Testgen writes, for a run on BMv2.

ebb-stf has a reader of its own for all of STF; this one is here to ask BMv2 about a test that
failed there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .commands import Add, Call, Command, Match, Mirror, Packet, SetDefault
from .model import Key, Program, Table

TOKEN = re.compile(r'"([^"]*)"|([A-Za-z0-9_$.\[\]*]+)|([:(),=/])|(\S)')


class StfError(Exception):
    """The text, or what it says of the program, cannot be understood."""


@dataclass
class Script:
    commands: list[Command] = field(default_factory=list)
    expected: dict[int, list[str]] = field(default_factory=dict)
    """Patterns of expected frames in order, by port: hexadecimal digits, `*` for any, `$` for the
    end."""


def read(text: str, program: Program) -> Script:
    script = Script()
    for number, line in enumerate(text.splitlines(), 1):
        try:
            statement(without_comment(line), program, script)
        except (StfError, ValueError, IndexError) as error:
            raise StfError(f"line {number}: {error}") from None
    return script


def without_comment(line: str) -> str:
    found = re.match(r'(?:[^"#]|"[^"]*")*', line)
    return found.group().strip() if found else ""


def statement(line: str, program: Program, script: Script) -> None:
    word, _, rest = line.partition(" ")
    match word.lower():
        case "":
            return
        case "packet":
            port, _, data = rest.strip().partition(" ")
            script.commands.append(Packet(int(port), bytes.fromhex(data)))
        case "expect":
            port, _, data = rest.strip().partition(" ")
            script.expected.setdefault(int(port), []).append("".join(data.split()).upper())
        case "mirroring_add":
            session, port = rest.split()
            script.commands.append(Mirror(int(session), int(port)))
        case "add":
            label = f"line{len(script.commands)}"
            script.commands.append(add(Words(rest), program, label))
        case "setdefault":
            words = Words(rest)
            table = find("table", words.take(), program.tables)
            script.commands.append(SetDefault(table, call(words, program, words.take())))
        case _:
            raise StfError(f"`{word}` is not known here")


class Words:
    """The words of a line that have not been read yet."""

    def __init__(self, text: str) -> None:
        self.words: list[str] = []
        for quoted, word, mark, bad in TOKEN.findall(text):
            if bad:
                raise StfError(f"what is `{bad}`?")
            self.words.append(word or mark or quoted)

    def take(self) -> str:
        if not self.words:
            raise StfError("the line ends too early")
        return self.words.pop(0)

    def eat(self, mark: str) -> bool:
        if self.words[:1] == [mark]:
            del self.words[0]
            return True
        return False


def add(words: Words, program: Program, label: str) -> Add:
    table = program.tables[find("table", words.take(), program.tables)]
    priority = int(words.take()) if words.words[0].isdigit() else 0
    given: dict[int, Match] = {}
    while True:
        name = words.take()
        if not words.eat(":"):
            break
        value = words.take()
        length = int(words.take()) if words.eat("/") else None
        at = key_place(table, name)
        given[at] = match(table.keys[at], value, length)
    keys = tuple(given.get(at, Match("any")) for at in range(len(table.keys)))
    ranked = priority if table.has_priorities else None
    return Add(table.name, keys, call(words, program, name), label, ranked)


def key_place(table: Table, name: str) -> int:
    name = re.sub(r"\$([0-9]+)", r"[\1]", name)
    names = [key.name for key in table.keys]
    for spelling in (name, f"{name}$", f"{name}.$valid$"):
        if spelling in names:
            return names.index(spelling)
    ends = [at for at, known in enumerate(names) if known.endswith(f".{name}")]
    if not ends:
        raise StfError(f"table {table.name} has no key field `{name}`")
    return ends[-1]


def match(key: Key, text: str, length: int | None) -> Match:
    """Reads the value of a key; of a ternary field only the digits that are written are
    compared."""
    prefix, digits = (
        (text[:2].lower(), text[2:]) if text[:1] == "0" and len(text) > 2 else ("", text)
    )
    width = {"0x": 4, "0o": 3, "0b": 1}.get(prefix)
    if width is None:
        return Match("exact", int(text))
    value = int(digits.replace("*", "0"), 1 << width)
    written = "".join("0" if digit == "*" else "1" for digit in digits)
    mask = sum(
        ((1 << width) - 1) << at * width for at, bit in enumerate(written[::-1]) if bit == "1"
    )
    if key.kind == "ternary":
        return Match("ternary", value, mask=mask)
    if key.kind == "lpm":
        prefix_length = width * written.count("1") if length is None else length
        return Match("lpm", value, prefix_length=min(prefix_length, key.bits))
    return Match("exact", value)


def call(words: Words, program: Program, name: str) -> Call:
    action = find("action", name, program.actions)
    arguments = {}
    words.eat("(")
    while not words.eat(")"):
        parameter = words.take()
        words.eat(":")
        arguments[parameter] = int(words.take(), 0)
        words.eat(",")
    return Call(action, arguments)


def find(
    kind: str, name: str, known: dict[str, object] | dict[str, Table] | dict[str, dict[str, int]]
) -> str:
    """The whole name for a name, or for an end that only one name has."""
    if name in known:
        return name
    ends = [other for other in known if other.endswith(name)]
    if len(ends) != 1:
        raise StfError(f"{kind} `{name}` is {'not there' if not ends else ' or '.join(ends)}")
    return ends[0]


def differences(script: Script, frames: list[tuple[int, bytes]]) -> str:
    """In words, the first thing that is not as expected; empty if all is."""
    sent: dict[int, list[str]] = {}
    for port, frame in frames:
        sent.setdefault(port, []).append(frame.hex().upper())
    for port in sorted({*sent, *script.expected}):
        patterns, texts = script.expected.get(port, []), sent.get(port, [])
        if len(patterns) != len(texts):
            return f"port {port}: {len(texts)} frames, {len(patterns)} are expected"
        for pattern, text in zip(patterns, texts, strict=True):
            if not fits(pattern, text):
                return f"port {port}: {text}, expected {pattern}"
    return ""


def fits(pattern: str, frame: str) -> bool:
    digits = pattern.removesuffix("$")
    if len(frame) < len(digits) or (pattern.endswith("$") and len(frame) > len(digits)):
        return False
    return all(wanted in ("*", digit) for wanted, digit in zip(digits, frame, strict=False))
