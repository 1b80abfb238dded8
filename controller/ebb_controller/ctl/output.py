"""Answers as columns for people, or as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ebb_topologies.text import printable

Row = dict[str, Any]
"""An answer: values by name, without those that are absent."""


def as_json(answer: Any) -> str:
    """An answer as one line of JSON."""
    return json.dumps(answer)


def as_text(answer: Row | Sequence[Row]) -> str:
    """A list as a table with a column per name, one object as a line per name."""
    if isinstance(answer, Mapping):
        width = max((len(name) for name in answer), default=0)
        lines = [f"{name:<{width}}  {cell(value)}" for name, value in answer.items()]
    else:
        lines = _table(answer)
    return "".join(f"{printable(line.rstrip())}\n" for line in lines)


def cell(value: Any) -> str:
    """A value as a table shows it."""
    match value:
        case {"name": name, "parameters": parameters, **others}:
            weight = f"{others['weight']}*" if "weight" in others else ""
            return f"{weight}{name}({', '.join(f'{k}={v}' for k, v in parameters.items())})"
        case Mapping() if not value:
            return "-"
        case Mapping():
            return " ".join(f"{name}={cell(inner)}" for name, inner in value.items())
        case list() | tuple():
            return " ".join(cell(inner) for inner in value)
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.1f}"
        case None:
            return "-"
    return str(value)


def _columns(rows: Sequence[Row]) -> list[str]:
    """All names, each after the one before it in its row; the first one of a row at the end."""
    names: list[str] = []
    for row in rows:
        place = len(names)
        for name in row:
            if name not in names:
                names.insert(place, name)
            place = names.index(name) + 1
    return names


def _table(rows: Sequence[Row]) -> list[str]:
    names = _columns(rows)
    cells = [names, *([cell(row.get(name, "")) for name in names] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(names))]
    return [
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True))
        for line in (cells if rows else [])
    ]
