"""The command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import capture_files as made
import numpy as np
import pytest
from ebb_volume import cli, synthetic, tables

MS = 10**6


@pytest.fixture
def bins(tmp_path: Path) -> Path:
    path = tmp_path / "bins.parquet"
    values = synthetic.lognormal(1_200, 1e6, 0.45, np.random.default_rng(1), 0.3)
    tables.write([synthetic.series(values, "s1:2")], path)
    return path


def run(capsys: pytest.CaptureFixture[str], *words: object, code: int = 0) -> tuple[str, str]:
    assert cli.main([str(word) for word in words]) == code
    said = capsys.readouterr()
    return said.out, said.err


def test_bins_of_a_capture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture = tmp_path / "a.pcap"
    capture.write_bytes(made.pcap([(i * MS, made.ethernet(made.ipv4())) for i in range(3)]))
    out, _ = run(capsys, "bins", capture, "--bin", "2ms")
    assert out.splitlines()[0] == '"slot_start_ns","slot_ns","point","class","bytes","packets"'
    assert out.splitlines()[1].endswith(',2000000,"a","all",228,2')
    out, _ = run(capsys, "bins", capture, "--bin", "2ms", "-o", tmp_path / "b.parquet", "--json")
    (series,) = json.loads(out)["series"]
    assert (series["bytes"], series["packets"], series["bins"]) == (342, 3, 2)
    out, _ = run(capsys, "bins", tmp_path / "b.parquet")
    assert len(out.splitlines()) == 3


def test_fit_as_text_json_and_figure(
    bins: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = run(capsys, "fit", bins, "--bootstrap", 20, "--figure", tmp_path / "a.svg")
    assert out.startswith("s1:2, bins of 100 ms: log-normal beats every other law")
    assert not err
    assert (tmp_path / "a.svg").read_text().startswith("<?xml")
    out, _ = run(capsys, "fit", bins, "--json", "--bootstrap", 20)
    (found,) = json.loads(out)["series"]
    assert found["best"] == "log-normal"
    assert found["laws"]["log-normal"]["plot_correlation"] > 0.99
    assert found["laws"]["log-normal"]["ks_p"] > 0.05
    assert found["laws"]["exponential"]["ks_p"] == 0
    assert found["tail"]["candidates"] <= 200
    assert found["stationarity"]["verdict"] == "stationary"
    again, _ = run(capsys, "fit", bins, "--json", "--bootstrap", 20)
    assert again == out


def test_provision_in_several_bins(
    bins: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--also", "1s", "--epsilon", "0.05", "--learn", "0.5", "--json")
    out, _ = run(capsys, "provision", bins, *options, "--figure", tmp_path / "a.png")
    (found,) = json.loads(out)["series"]
    assert {row["slot_ns"] for row in found["capacities"]} == {10**8, 10**9}
    assert {row["bins"] for row in found["capacities"]} == {600, 60}
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    natural, _ = run(capsys, "provision", bins, "--epsilon", "0.01")
    base10, _ = run(capsys, "provision", bins, "--epsilon", "0.01", "--log-base", "10")
    assert natural != base10


def test_p95_and_anomalies(bins: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = run(capsys, "p95", bins, "--interval", "1s", "--figure", tmp_path / "a.svg")
    assert "NRMSE" in out
    out, _ = run(capsys, "p95", bins, "--interval", "1s", "--json")
    assert json.loads(out)["all"]["intervals"] == 120
    out, _ = run(capsys, "anomalies", bins, "--json", "--figure", tmp_path / "b.svg")
    assert json.loads(out)["series"][0]["flags"] == []


def test_report_of_series_of_which_one_is_unfit(
    bins: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    constant = tmp_path / "b.csv"
    rows = "".join(f"{i * 10**8},{10**8},<b>,all,1500,1\n" for i in range(50))
    constant.write_text("slot_start_ns,slot_ns,point,class,bytes,packets\n" + rows)
    out_file = tmp_path / "r.html"
    out, _ = run(capsys, "report", bins, constant, "-o", out_file, "--also", "1s")
    assert str(out_file) in out
    html = out_file.read_text()
    assert html.count("<img") == 5 + 3
    assert "&lt;b&gt;: all 50 bins" in html
    assert "<b>" not in html
    record = json.loads(out_file.with_suffix(".json").read_text())
    assert [("fit" in series) for series in record["series"]] == [True, False]
    assert [("provision" in series) for series in record["series"]] == [True, True]
    slots = {row["slot_ns"] for row in record["series"][0]["provision"]["capacities"]}
    assert slots == {10**8, 10**9}
    assert record["p95"]["nrmse"]["log-normal"] < 0.2


@pytest.mark.parametrize(
    "words, said",
    [
        (("fitt", "a"), "did you mean 'fit'?"),
        (("fit",), "give either INPUT files, or --p4runtime, or --gnmi"),
        (
            ("bins", "--p4runtime", "127.0.0.1:1", "--device-id", "-1"),
            "argument --device-id: expected a whole number from 0 to 2^64-1, not '-1'",
        ),
        (("fit", "a", "--gnmi", "x:1"), "give either INPUT files"),
        (("fit", "a", "--bin", "0ms"), "more than 0"),
        (("fit", "a", "--bin", "-5ms"), "'-5ms' is no duration; expected a number above 0"),
        (("fit", "a", "--bin", "5"), "'5' is no duration"),
        (("fit", "a", "--by", "colour"), "there is no 'colour'"),
        (("fit", "a", "--by", "direction"), "needs --inside"),
        (("fit", "a", "--by", "prefix"), "needs --prefix"),
        (("fit", "a", "--by", "prefix", "--prefix", "10.0.0.1/8"), "'10.0.0.1/8' is no prefix"),
        (("fit", "a", "--overhead-bytes", "-1"), "expected 0 to 1000"),
        (("provision", "a", "--epsilon", "1"), "'1' is no share"),
        (("anomalies", "a", "--capacity", "fast"), "'fast' is no rate"),
        (("fit", "{bins}", "--figure", "a.pdf"), "ends in .svg or .png"),
        (("provision", "{bins}", "--also", "150ms"), "a multiple of these"),
        (("provision", "{bins}", "--also", "1h"), "has no whole bin of 3600000000000 ns"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    bins: Path, words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, err = run(capsys, *(word.replace("{bins}", str(bins)) for word in words), code=1)
    assert said in err
    assert err.startswith("ebb-volume: ")
    assert len(err.splitlines()) == 1


def test_a_capture_that_is_too_short_to_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capture = tmp_path / "a.pcap"
    capture.write_bytes(made.pcap([(i * MS, made.ethernet(made.ipv4())) for i in range(3)]))
    _, err = run(capsys, "fit", capture, "--bin", "1ms", code=1)
    assert err == (
        "ebb-volume: a: has 1 bins with traffic of 1; at least 20 are needed to fit a law: "
        "capture for longer, or take shorter bins\n"
    )


def test_standard_input(tmp_path: Path) -> None:
    capture = made.pcap([(i * MS, made.ethernet(made.ipv4())) for i in range(3)])
    command = [sys.executable, "-m", "ebb_volume", "bins", "-", "--bin", "1s", "--json"]
    done = subprocess.run(command, input=capture, capture_output=True, check=True, timeout=60)
    assert json.loads(done.stdout)["series"][0]["packets"] == 3


def test_help_loads_no_scientific_package() -> None:
    code = """
import sys
from ebb_volume import cli
heavy = {"scipy", "statsmodels", "powerlaw", "matplotlib", "pandas"}
try:
    cli.main(["--help"])
finally:
    print(sorted(heavy & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


def test_a_closed_pipe_ends_it_as_sigpipe_would(bins: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "ebb_volume", "bins", str(bins)]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False, timeout=60)
    os.close(writer)
    assert (done.returncode, done.stderr) == (cli.PIPE_CLOSED, b"")
