"""A small program: Ethernet and IPv4, a table of each kind of key, an action profile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from oracle.model import Program

P4INFO = r"""
pkg_info { arch: "v1model" }  # a comment
tables {
  preamble { id: 1 name: "I.route" alias: "route" }
  match_fields { id: 1 name: "hdr.ipv4.dst" bitwidth: 32 match_type: LPM }
  action_refs { id: 10 }
  action_refs { id: 11 annotations: "@defaultonly" scope: DEFAULT_ONLY }
  size: 1024
}
tables {
  preamble { id: 2 name: "I.acl" }
  match_fields { id: 1 name: "hdr.ipv4.src" bitwidth: 32 match_type: TERNARY }
  match_fields { id: 2 name: "hdr.ipv4.ttl" bitwidth: 8 match_type: RANGE }
  match_fields { id: 3 name: "hdr.ipv4.dst" bitwidth: 32 match_type: OPTIONAL }
  action_refs { id: 10 scope: TABLE_ONLY }
  const_default_action_id: 11
  size: 8
}
tables {
  preamble { id: 3 name: "I.ecmp" }
  match_fields { id: 1 name: "hdr.eth.type" bitwidth: 16 match_type: EXACT }
  action_refs { id: 10 }
  implementation_id: 20
  size: 1024
}
actions {
  preamble { id: 10 name: "I.forward" }
  params { id: 1 name: "port" bitwidth: 9 }
}
actions { preamble { id: 11 name: "I.drop" } }
action_profiles {
  preamble { id: 20 name: "I.members" annotations: "@name(\"a\\b\")" }
  table_ids: [3]
  with_selector: true
  size: 4
}
"""


def field(header: str, name: str) -> dict[str, Any]:
    return {"type": "field", "value": [header, name]}


def extract(header: str) -> dict[str, Any]:
    return {"op": "extract", "parameters": [{"type": "regular", "value": header}]}


def table(name: str, match_type: str, *keys: tuple[str, str, str, str]) -> dict[str, Any]:
    names = ("name", "match_type", "target")
    key = [dict(zip(names, (k[0], k[1], [k[2], k[3]]), strict=True)) for k in keys]
    return {"name": name, "match_type": match_type, "key": key}


def transition(value: str | None, following: str | None) -> dict[str, Any]:
    kind = "default" if value is None else "hexstr"
    return {"type": kind, "value": value, "mask": None, "next_state": following}


IPV4 = [
    *(["ver_ihl", 8, False], ["tos", 8, False], ["length", 16, False], ["rest", 32, False]),
    *(["ttl", 8, False], ["protocol", 8, False], ["checksum", 16, False]),
    *(["src", 32, False], ["dst", 32, False]),
]


def document() -> dict[str, Any]:
    ecmp = table("I.ecmp", "exact", ("hdr.eth.type", "exact", "eth", "type"))
    acl = table(
        *("I.acl", "range", ("hdr.ipv4.src", "ternary", "ipv4", "src")),
        ("hdr.ipv4.ttl", "range", "ipv4", "ttl"),
        ("hdr.ipv4.dst", "ternary", "ipv4", "dst"),
    )
    route = table("I.route", "lpm", ("hdr.ipv4.dst", "lpm", "ipv4", "dst"))
    covered = [field("ipv4", f[0]) for f in IPV4 if f[0] != "checksum"]  # type: ignore[arg-type]
    eth = [["dst", 48, False], ["src", 48, False], ["type", 16, False]]
    port = {"name": "port", "bitwidth": 9}
    return {
        "header_types": [
            {"name": "eth_t", "id": 0, "fields": eth},
            {"name": "ipv4_t", "id": 1, "fields": IPV4},
            {"name": "meta_t", "id": 2, "fields": [["x", 8, False]]},
        ],
        "headers": [
            {"name": "eth", "id": 0, "header_type": "eth_t", "metadata": False},
            {"name": "ipv4", "id": 1, "header_type": "ipv4_t", "metadata": False},
            {"name": "meta", "id": 2, "header_type": "meta_t", "metadata": True},
        ],
        "header_stacks": [],
        "parsers": [
            {
                "name": "parser",
                "init_state": "start",
                "parse_states": [
                    {
                        "name": "start",
                        "id": 0,
                        "parser_ops": [extract("eth")],
                        "transition_key": [field("eth", "type")],
                        "transitions": [transition("0x0800", "ip"), transition(None, None)],
                    },
                    {
                        "name": "ip",
                        "id": 1,
                        "parser_ops": [extract("ipv4")],
                        "transition_key": [],
                        "transitions": [transition(None, None)],
                    },
                ],
            }
        ],
        "deparsers": [],
        "field_lists": [],
        "learn_lists": [],
        "register_arrays": [{"name": "I.counts", "size": 4, "bitwidth": 16}],
        "calculations": [{"name": "calc", "algo": "csum16", "input": covered}],
        "checksums": [{"target": ["ipv4", "checksum"], "calculation": "calc", "verify": True}],
        "actions": [
            {"name": "I.forward", "runtime_data": [port], "primitives": []},
            {"name": "I.drop", "runtime_data": [], "primitives": []},
        ],
        "pipelines": [
            {"name": "ingress", "tables": [route, acl, {**ecmp, "action_profile": "I.members"}]}
        ],
    }


def program(folder: Path) -> Program:
    path = folder / "program.json"
    path.write_text(json.dumps(document()))
    return Program(path)
