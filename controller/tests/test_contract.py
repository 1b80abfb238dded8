"""`fabric.p4` as compiled has the tables, actions and counters that the controller writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from contract import TABLES, findings, p4info
from finsy.proto import p4i
from google.protobuf import text_format

P4INFO = Path(__file__).resolve().parents[2] / "build" / "fabric.p4info.txtpb"


def test_the_contract_fulfils_itself() -> None:
    assert list(findings(p4info())) == []


def test_findings_are_named() -> None:
    broken = p4info()
    broken.tables[0].match_fields[0].bitwidth = 8
    del broken.tables[list(TABLES).index("arp_responder")]
    del broken.counters[0]
    assert list(findings(broken)) == [
        "traffic_class: keys are {'dscp': (2, 8)}, not {'dscp': (2, 6)}",
        "no table arp_responder",
        "no counter port_in",
    ]


@pytest.mark.skipif(not P4INFO.exists(), reason=f"{P4INFO.name} is not built: run `make build`")
def test_the_program_fulfils_the_contract() -> None:
    assert list(findings(text_format.Parse(P4INFO.read_text(), p4i.P4Info()))) == []
