"""The tables and counters of the P4 program and what the controller installs, as Markdown.

They are made from P4Info and from the mechanisms; `make pages` puts them into pages, between two
marks.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from ebb_topologies.installation import compiled, work_tree
from finsy.proto import p4i

from ebb_controller.errors import ControllerError
from ebb_controller.mechanisms import COUNTERS, MECHANISMS, FabricParameters
from ebb_controller.mechanisms.volume_counters import Volume
from ebb_controller.program import Program

DOCS = (work_tree() or Path()) / "docs"
"""Folder of the pages, which are in no package."""
PROGRAM = Program.of(compiled(), FabricParameters(volume=Volume()))
"""The program with all tables."""
BEGIN, END = "<!-- made by `make pages` -->\n", "<!-- /made -->\n"


def pages(program: p4i.P4Info) -> dict[Path, str]:
    """The pages as they should be for this program."""
    made = {"architecture.md": _tables(program), "controller.md": _entries()}
    return {DOCS / name: _renewed(DOCS / name, lines) for name, lines in made.items()}


def _renewed(path: Path, lines: Iterator[str]) -> str:
    """A page with these lines between its marks."""
    before, _begin, rest = path.read_text().partition(BEGIN)
    _old, _end, after = rest.partition(END)
    return "".join([before, BEGIN, *(f"{line}\n" for line in lines), END, after])


def _entries() -> Iterator[str]:
    yield "| module | entries |"
    yield "|---|---|"
    meanings = {each.name: " ".join((each.entries.__doc__ or "").split()) for each in MECHANISMS}
    for name, text in sorted(meanings.items()):
        yield f"| `{name}.py` | {text[:1].lower()}{text[1:].removesuffix('.')} |"


def _tables(program: p4i.P4Info) -> Iterator[str]:
    mechanism_pages = {
        table.name: f"{each.name.replace('_', '-')}.md"
        for each in MECHANISMS
        for table in each.tables
    }
    yield "| table | key | actions | meaning |"
    yield "|---|---|---|---|"
    for table in program.tables:
        name = table.preamble.alias
        page = mechanism_pages.get(name, "")
        shown = f"[`{name}`]({page})" if (DOCS / page).is_file() else f"`{name}`"
        yield f"| {shown} | {_keys(table)} | {_actions(table, program)} | {_brief(table)} |"
    yield ""
    yield "| counter of packets and bytes | by | meaning |"
    yield "|---|---|---|"
    for counter in program.counters:
        name = counter.preamble.alias
        index = COUNTERS[name].index if name in COUNTERS else "port"
        yield f"| `{name}` | {index} | {_brief(counter)} |"


def _keys(table: p4i.Table) -> str:
    kinds = p4i.MatchField.MatchType
    keys = [f"`{key.name}` {kinds.Name(key.match_type).lower()}" for key in table.match_fields]
    return ", ".join(keys) or "none: the default action"


def _actions(table: p4i.Table, program: p4i.P4Info) -> str:
    """Actions of entries, with the width of each argument in bits."""
    definitions = {action.preamble.id: action for action in program.actions}
    selectors = {profile.preamble.id: profile.preamble.alias for profile in program.action_profiles}
    shown = []
    for reference in table.action_refs:
        if reference.scope != p4i.ActionRef.DEFAULT_ONLY:
            action = definitions[reference.id]
            arguments = ", ".join(f"{each.name}:{each.bitwidth}" for each in action.params)
            shown.append(f"`{action.preamble.alias}({arguments})`")
    selector = selectors.get(table.implementation_id)
    return ", ".join(shown) + (f"; members of the selector `{selector}`" if selector else "")


def _brief(thing: p4i.Table | p4i.Counter) -> str:
    return str(thing.preamble.doc.brief)


def main() -> int:
    """Writes the pages."""
    try:
        program = PROGRAM.check()
    except ControllerError as error:
        print(f"reference: {error}", file=sys.stderr)
        return 1
    for path, text in pages(program).items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
