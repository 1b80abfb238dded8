"""The page of a program, from logs of the form that p4c's schemas describe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tna import resources


def usage(table: str, purpose: str) -> dict[str, Any]:
    return {"usages": [{"used_by": table, "used_for": purpose}]}


def stage(number: int, **used: list[dict[str, Any]]) -> dict[str, Any]:
    """A stage of Tofino with what is used of it."""
    return {
        "stage_number": number,
        "logical_tables": {"size": 16, "ids": used.get("tables", [])},
        "rams": {"nRows": 8, "nColumns": 10, "srams": used.get("srams", [])},
        "tcams": {"nRows": 12, "nColumns": 2, "tcams": used.get("tcams", [])},
        "map_rams": {"nRows": 8, "nUnits": 6, "maprams": []},
        "gateways": {"nRows": 8, "nUnits": 2, "gateways": []},
        "meter_alus": {"nAlus": 4, "meters": []},
        "statistic_alus": {"nAlus": 4, "stats": []},
        "vliw": {"size": 32, "instructions": [{}, {}]},
        "action_bus_bytes": {"size": 128, "bytes": []},
        "xbar_bytes": {
            "exact_size": 128,
            "ternary_size": 66,
            "bytes": [{"byte_type": "exact"}, {"byte_type": "exact"}, {"byte_type": "ternary"}],
        },
    }


STAGES = [
    stage(
        0,
        tables=[{"id": 0, "table_name": "I.route"}, {"id": 1, "table_name": "I.<acl>"}],
        srams=[usage("I.route", "match_entry_ram"), usage("I.route", "action_ram")],
        tcams=[usage("I.<acl>", "ternary_match")],
    ),
    stage(1, tables=[{"id": 0, "table_name": "I.route"}], srams=[usage("I.route", "action_ram")]),
]


def container(width: int, *slices: tuple[int, int]) -> dict[str, Any]:
    held = [{"slice_info": {"lsb": lsb, "msb": msb}} for lsb, msb in slices]
    return {"container_type": "normal", "bit_width": width, "gress": "ingress", "slices": held}


def edge(number: int, ends: str, kind: str, critical: bool) -> dict[str, Any]:
    """An edge; `ends`: its two nodes."""
    kind, detail = kind.split(": ")
    about: dict[str, Any] = {"type": kind, "sub_type": detail, "tags": ["dependency"]}
    about |= {"is_critical": True} if critical else {}
    return {"id": str(number), "source": ends[0], "target": ends[1], "metadata": about}


def graph(*edges: dict[str, Any]) -> dict[str, Any]:
    """Four tables of three stages."""
    names = {"7": ("I.<acl>", 0), "8": ("I.route", 2), "9": ("I.class", 1), "5": ("I.count", 1)}
    nodes = [
        {"id": key, "metadata": {"tables": [{"name": name}], "min_stage": stage}}
        for key, (name, stage) in names.items()
    ]
    return {"metadata": {"gress": "ingress"}, "nodes": nodes, "edges": list(edges)}


def logs(folder: Path) -> Path:
    (folder / "pipe" / "logs").mkdir(parents=True)
    made = {
        "resources.json": {"resources": {"mau": {"nStages": 12, "mau_stages": STAGES}}},
        "phv.json": {"containers": [container(16, (0, 7), (4, 11)), container(16)]},
        "dep.json": {
            "graphs": [
                graph(edge(0, "78", "action: output", False)),
                graph(
                    edge(0, "79", "match: ixbar_read", True),
                    edge(1, "98", "action: output", True),
                    edge(2, "78", "control: exit", False),
                    edge(3, "75", "match: ixbar_read", True),
                ),
            ]
        },
        "other.json": [],
    }
    for name, content in made.items():
        (folder / "pipe" / "logs" / name).write_text(json.dumps(content))
    return folder


def test_stages_tables_containers_and_dependencies_are_told(tmp_path: Path) -> None:
    stages, tables, containers, dependencies = resources.sections(logs(tmp_path))
    first = dict(zip(stages.head, stages.rows[0], strict=True))
    assert first["tables"] == "2/16"
    assert (first["SRAMs"], first["TCAMs"], first["gateways"]) == ("2/80", "1/24", "0/16")
    assert first["instructions"] == "2/32"
    assert (first["exact crossbar bytes"], first["ternary crossbar bytes"]) == ("2/128", "1/66")
    assert tables.rows == [
        ("I.<acl>", "0", "0", "1", "0", "ternary_match"),
        ("I.route", "0, 1", "3", "0", "0", "action_ram, match_entry_ram"),
    ]
    # Bits 4 to 7 are shared, and the second container is empty.
    assert containers.rows == [("normal", "16", "ingress", "1", "12/16")]
    # The last attempt counts, and its order of control is left out. The last edge sets the first
    # stage of its table, but no chain from there is as long.
    assert dependencies.rows == [
        ("ingress", "I.<acl>", "I.class", "match: ixbar_read", "yes"),
        ("ingress", "I.class", "I.route", "action: output", "yes"),
        ("ingress", "I.<acl>", "I.count", "match: ixbar_read", ""),
    ]


def test_page_and_text_have_every_section(tmp_path: Path) -> None:
    page = Path(resources.write("fabric", logs(tmp_path / "logs"), tmp_path / "out"))
    shown = page.read_text()
    assert shown.count("<h2>") == 4 and "I.&lt;acl&gt;" in shown and "<acl>" not in shown
    text = (tmp_path / "out" / "fabric.txt").read_text().splitlines()
    assert text[0] == "fabric"
    at = text.index("Tables and their memories")
    assert text[at + 1].split() == ["table", "stages", "SRAMs", "TCAMs", "map", "RAMs", "for"]
    assert text[at + 2].startswith("I.<acl>  0       0      1")


def test_a_log_with_a_document_in_each_line_is_no_graph(tmp_path: Path) -> None:
    folder = logs(tmp_path)
    (folder / "events.json").write_text('{"schema_version": "1.2.0"}\n{"file_id": 0}\n')
    assert len(resources.sections(folder)) == 4


def test_without_logs_there_is_no_page(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"neither resources\.json nor phv\.json"):
        resources.write("fabric", tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()
