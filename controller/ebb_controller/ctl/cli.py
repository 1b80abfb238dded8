"""`ebb-ctl`: tables, counters, registers, meters, groups, packets, digests, ports, queues and
traces of a switch.

Without a command it reads commands: from the prompt in a terminal, else a line each from its input.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import NoReturn

from ebb_topologies.arguments import Parser, address, device_id
from ebb_topologies.errors import InputError
from ebb_topologies.text import printable

from ebb_controller.ctl import arrays, completion, device, groups, packets, tables, tls
from ebb_controller.ctl.client import Client, Place, switch_of_fabric
from ebb_controller.ctl.command import Command
from ebb_controller.ctl.output import as_json, as_text
from ebb_controller.ctl.stream import SwitchError

DEFAULT_ADDRESS = "127.0.0.1:9559"
"""Default address of ebb-switch."""
COMMANDS: dict[str, dict[str, Command]] = {
    **device.COMMANDS, **packets.COMMANDS, **tables.COMMANDS, **groups.COMMANDS, **arrays.COMMANDS
}  # fmt: skip
"""Commands by noun and verb; the verb of a noun that is a command itself is empty."""
PROMPT = "ebb-ctl> "
HARMLESS = re.compile(r"[\w.=\[\]-]+", re.ASCII)
"""Words in which neither a shell nor a terminal finds anything to obey."""
HELP_WORDS = ("help", "?")
END_WORDS = ("exit", "quit")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `ebb-ctl`; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(words)
    except (InputError, SwitchError) as error:
        _complain(error)
    except BrokenPipeError:
        # Python would complain again when it flushes stdout at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # as of a command that SIGPIPE ends
    except KeyboardInterrupt:
        return 130
    return 1


def _run(words: list[str]) -> int:
    if words[:1] == [completion.WORD]:
        return _complete(words[1:])
    options = parser().parse_args(words)
    if options.noun == "completion":
        print(completion.script(options.shell), end="")
        return 0
    client = Client(_place(options))
    try:
        if options.noun is None:
            return _lines(client, options)
        _do(client, options)
    finally:
        client.close()
    return 0


@cache
def parser(kind: type[argparse.ArgumentParser] = Parser) -> argparse.ArgumentParser:
    """The command line. Options may be given by environment variables, too."""
    found = kind(prog="ebb-ctl", description=__doc__, formatter_class=_Formatter)
    _connection(found)
    found.add_argument("--version", action=_Version, nargs=0, help="print version and commit")
    nouns = found.add_subparsers(dest="noun", metavar="COMMAND", parser_class=kind)
    found.set_defaults(command=None)
    for noun, verbs in COMMANDS.items():
        if "" in verbs:
            _leaf(nouns.add_parser(noun, help=verbs[""].about), verbs[""])
            continue
        group = nouns.add_parser(noun, help=", ".join(verbs))
        leaves = group.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=kind)
        for verb, command in verbs.items():
            _leaf(leaves.add_parser(verb, help=command.about), command)
    script = nouns.add_parser("completion", help="a script for the shell")
    script.add_argument("shell", choices=completion.SHELLS)
    return found


class _Version(argparse.Action):
    """As that of other commands, whose module takes time to load."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from ebb_topologies.installation import Version

        Version(["--version"], self.dest)(parser)


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Help without the braces of all choices."""


def _connection(found: argparse.ArgumentParser) -> None:
    environment = os.environ.get
    found.add_argument(
        "-a", "--addr", type=address, default=environment("EBB_CTL_ADDR", DEFAULT_ADDRESS),
        metavar="HOST:PORT", help="P4Runtime of the switch (EBB_CTL_ADDR; default %(default)s)",
    )  # fmt: skip
    found.add_argument(
        "-d", "--device-id", type=device_id, default=environment("EBB_CTL_DEVICE", "0"),
        metavar="N", help="its device id (EBB_CTL_DEVICE; default %(default)s)",
    )  # fmt: skip
    found.add_argument(
        "-s", "--switch", default=environment("EBB_CTL_SWITCH"), metavar="NAME",
        help="a switch of a fabric in one process instead of an address (EBB_CTL_SWITCH)",
    )  # fmt: skip
    found.add_argument(
        "--socket", type=Path, metavar="FILE", help="where that fabric is served (make run's)"
    )
    tls.add_options(found)
    found.add_argument("--json", action="store_true", help="answers as JSON")


def _leaf(found: argparse.ArgumentParser, command: Command) -> None:
    command.arguments(found)
    found.set_defaults(command=command)


def _place(options: argparse.Namespace) -> Place:
    if options.switch:
        return switch_of_fabric(options.switch, options.socket)
    return Place(options.addr, options.device_id, options.cacert, options.cert, options.key)


def _do(client: Client, options: argparse.Namespace) -> None:
    answer = options.command.run(client, options)
    if isinstance(answer, Generator):
        # Closing it undoes its changes at the switch, also where the reader of the output has gone.
        with closing(answer):
            for item in answer:
                text = as_json(item) if options.json else printable(options.command.line(item))
                print(text, flush=True)
    elif isinstance(answer, str):
        print(printable(answer), end="")
    elif options.json:
        print(as_json({} if answer is None else answer))
    elif answer is not None:
        print(as_text(answer), end="")


class _LineParser(Parser):
    """Parser of a line at the prompt: `--help` does not end the process."""

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise _Shown


class _Shown(Exception):
    """The parser has printed a help text."""


def _lines(client: Client, options: argparse.Namespace) -> int:
    """Runs commands from the prompt, or from standard input, where the first error ends them."""
    is_prompt = sys.stdin.isatty()
    for number, line in enumerate(_prompted(client) if is_prompt else sys.stdin, start=1):
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            words = []
            if not is_prompt:
                raise InputError(f"line {number}: {error}") from error
            _complain(error)
        if words[:1] == [END_WORDS[0]] or words[:1] == [END_WORDS[1]]:
            break
        if not words:
            continue
        try:
            _line(client, options, ["--help"] if words[0] in HELP_WORDS else words)
        except (InputError, SwitchError) as error:
            if not is_prompt:
                raise type(error)(f"line {number}: {error}") from error
            _complain(error)
        except KeyboardInterrupt:
            print()
    return 0


def _line(client: Client, options: argparse.Namespace, words: list[str]) -> None:
    with suppress(_Shown):
        line = parser(_LineParser).parse_args(words)
        if line.command is None:
            raise InputError("a command is missing (see help)")
        line.json |= options.json
        _do(client, line)


def _prompted(client: Client) -> Iterator[str]:
    import readline

    found: list[str] = []

    def candidate(text: str, number: int) -> str | None:
        # readline asks for one after the other.
        if number == 0:
            words = readline.get_line_buffer()[: readline.get_begidx()].split()
            found[:] = candidates(client, words, text)
        return found[number] if number < len(found) else None

    readline.set_completer_delims(" \t")
    readline.parse_and_bind("tab: complete")
    readline.set_completer(candidate)
    print(f"switch at {client.place.address}; help, exit, TAB completes")
    while True:
        try:
            yield input(PROMPT)
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            print()


def candidates(client: Client | None, words: Sequence[str], text: str) -> list[str]:
    """Offers for the next word, which begins with `text`. A switch that does not answer knows no
    names; those that a shell would do something about are left out, since they are put into the
    line as they are."""
    known = _option_names(words) if text.startswith("-") else _next(client, words)
    found = [word for word in known if word.startswith(text) and HARMLESS.fullmatch(word)]
    return [word if word.endswith("=") else f"{word} " for word in found]


def _next(client: Client | None, words: Sequence[str]) -> Iterable[str]:
    if not words:
        return [*COMMANDS, "completion"]
    verbs = COMMANDS.get(words[0], {})
    if "" not in verbs and len(words) == 1:
        return verbs
    command = _command(words)
    if command is None or client is None:
        return ()
    try:
        given = [word for word in words[1 if "" in verbs else 2 :] if not word.startswith("-")]
        return command.complete(client.schema, given)
    except (InputError, SwitchError):
        return ()


def _command(words: Sequence[str]) -> Command | None:
    verbs = COMMANDS.get(words[0], {})
    return verbs.get("", verbs.get(words[1] if len(words) > 1 else ""))


def _option_names(words: Sequence[str]) -> Iterable[str]:
    """Options of the command, or those before any command."""
    found = Parser()
    if not words:
        _connection(found)
        found.add_argument("--version")
    elif command := _command(words):
        command.arguments(found)
    return found.option_names


def _complete(words: list[str]) -> int:
    """Prints what may come next; the last of the words has been begun."""
    *before, begun = words or [""]
    options, rest = _options(before)
    client = None
    with suppress(InputError, SwitchError):
        client = Client(_place(options)) if options else None
    for word in candidates(client, rest, begun):
        print(word)
    if client:
        client.close()
    return 0


def _options(words: list[str]) -> tuple[argparse.Namespace | None, list[str]]:
    """The options before a command, and the words from the command on."""
    found = Parser(add_help=False)
    _connection(found)
    try:
        return found.parse_known_args(words)
    except InputError:
        return None, [word for word in words if not word.startswith("-")]


def _complain(error: Exception) -> None:
    print(f"ebb-ctl: {printable(error)}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
