"""`ebb-volume`: traffic volume per time bin, the law that it follows, the link that it needs, what
it costs, and what is unusual about it.

INPUT is a capture (pcap, pcapng; .gz and .zst too), or bins or packets as CSV or Parquet; - is
standard input. Instead of it, counters of a switch (--p4runtime, --gnmi).
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ebb_controller.ctl import tls
from ebb_topologies.arguments import Parser, address, device_id
from ebb_topologies.errors import InputError
from ebb_topologies.installation import Version
from ebb_topologies.text import printable
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable

from ebb_volume import quantities, sources
from ebb_volume.notes import Notes
from ebb_volume.selection import DIMENSIONS, LENGTHS, Selection
from ebb_volume.series import Series
from ebb_volume.sources import Loaded

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ebb_volume.records import Record
    from ebb_volume.text import Table

MOST_SERIES = 20
"""Series that are looked at; those with most bytes, of more."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as of a shell."""
PIPE_CLOSED = 141
"""Exit code when the reader of the output has ended, as of a command that SIGPIPE ends."""
Answer = tuple["Record", list["Table"], Callable[[], "Figure"] | None]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `ebb-volume`; returns the exit code."""
    try:
        options = parser().parse_args(_joined(sys.argv[1:] if argv is None else argv))
        return int(options.command(options))
    except BrokenPipeError:
        # Python would complain again when it flushes stdout at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except (InputError, OSError) as error:
        print(f"ebb-volume: {printable(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED


def _joined(argv: Sequence[str]) -> list[str]:
    """The words of the command line; a value as `-1s`, which argparse takes for an option, stands
    behind its option and `=`."""
    found: list[str] = []
    for word in argv:
        is_value = re.match(r"-\.?\d", word) and found and re.fullmatch(r"--[a-z0-9-]+", found[-1])
        if is_value:
            found[-1] += f"={word}"
        else:
            found.append(word)
    return found


def parser() -> argparse.ArgumentParser:
    """The command line."""
    found = Parser(
        prog="ebb-volume", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found.add_argument("--version", action=Version)
    commands = found.add_subparsers(
        dest="name", metavar="COMMAND", required=True, parser_class=Parser
    )

    def command(name: str, about: str, run: Callable[[argparse.Namespace], int]) -> Parser:
        each = commands.add_parser(name, help=about, description=about)
        each.set_defaults(command=run)
        _input(each)
        return each

    bins = command("bins", "bytes and packets per bin, as CSV or Parquet", _bins)
    bins.add_argument(
        "-o",
        "--out",
        type=Path,
        metavar="FILE",
        help="FILE.parquet, or CSV (default: CSV on standard output)",
    )
    fit = _analysis(command("fit", "which law the volume follows", _fit))
    _bootstrap(fit)
    provision = _analysis(command("provision", "the capacity that the traffic needs", _provision))
    _epsilons(provision)
    provision.add_argument(
        "--learn",
        type=quantities.share,
        default=1.0,
        metavar="SHARE",
        help="learn from the first bins, score on the others",
    )
    provision.add_argument(
        "--moments", action="store_true", help="log-normal law by mean and variance, not likelihood"
    )
    provision.add_argument(
        "--log-base",
        choices=("e", "10"),
        default="e",
        help="of Meent's formula (default e; 10 is no bound)",
    )
    p95 = _analysis(command("p95", "the 95th percentile, billed and predicted", _p95))
    _interval(p95)
    anomalies = _analysis(command("anomalies", "bins and stretches that leave the law", _anomalies))
    _capacity(anomalies)
    report = command("report", "all of it, as one HTML file", _report)
    report.add_argument(
        "-o",
        "--out",
        type=Path,
        default=Path("volume.html"),
        metavar="FILE",
        help="HTML; FILE.json has the same for programs (%(default)s)",
    )
    for more in (_bootstrap, _epsilons, _interval, _capacity):
        more(report)
    return found


def _input(found: argparse.ArgumentParser) -> None:
    add = found.add_argument
    add("inputs", nargs="*", type=Path, metavar="INPUT", help="captures, CSV, Parquet, or -")
    add(
        "--bin",
        type=quantities.duration_ns,
        metavar="TIME",
        dest="slot_ns",
        help="length of a bin, as 100ms, 5us, 5min (default 100ms, or that of the table)",
    )
    add("--by", default="", metavar="WHAT", help=f"series by any of {','.join(DIMENSIONS)}")
    add(
        "--inside",
        action="append",
        default=[],
        metavar="PREFIX",
        help="our network, for --by direction; may be given several times",
    )
    add(
        "--prefix",
        action="append",
        default=[],
        metavar="PREFIX",
        help="for --by prefix: source or destination in it; may be given several times",
    )
    add(
        "--length",
        choices=LENGTHS,
        default="frame",
        help="bytes that count: of the frame on the link (default), or of the IP packet",
    )
    add(
        "--overhead-bytes",
        type=int,
        default=0,
        metavar="N",
        help="added to each packet: 24 are FCS, preamble and gap of Ethernet",
    )
    add("--point", metavar="NAME", help="captures are parts of one, of this name")
    add(
        "--p4runtime",
        type=address,
        metavar="HOST:PORT",
        help="counters of a switch, a reading per bin",
    )
    add(
        "--device-id", type=device_id, default=0, metavar="N",
        help="of the switch (default %(default)s)",
    )  # fmt: skip
    add(
        "--counter", default="port_out", metavar="NAME", help="of its program (default %(default)s)"
    )
    add(
        "--gnmi",
        type=address,
        metavar="HOST:PORT",
        help="counters of interfaces, a reading per bin",
    )
    tls.add_options(found)
    add(
        "--for",
        type=quantities.duration_ns,
        default=60 * 10**9,
        metavar="TIME",
        dest="for_ns",
        help="how long counters are read (default 1min; Ctrl-C ends it)",
    )
    add("--json", action="store_true", help="the answer as JSON")


def _analysis(found: argparse.ArgumentParser) -> argparse.ArgumentParser:
    found.add_argument("--figure", type=Path, metavar="FILE", help="FILE.svg or FILE.png")
    return found


def _bootstrap(found: argparse.ArgumentParser) -> None:
    found.add_argument(
        "--bootstrap",
        type=_count,
        default=0,
        metavar="N",
        help="samples for p-values of laws (default: none; 100: ± 0.05)",
    )
    found.add_argument(
        "--seed", type=_count, default=1, metavar="N", help="of the samples (default %(default)s)"
    )


def _epsilons(found: argparse.ArgumentParser) -> None:
    found.add_argument(
        "--epsilon",
        type=quantities.share,
        action="append",
        metavar="SHARE",
        help="of bins that may need more (default 0.5, 0.1, 0.05, 0.01)",
    )
    found.add_argument(
        "--also",
        type=quantities.duration_ns,
        action="append",
        default=[],
        metavar="TIME",
        help="longer bins, too; may be given several times",
    )


def _interval(found: argparse.ArgumentParser) -> None:
    found.add_argument(
        "--interval",
        type=quantities.duration_ns,
        default=300 * 10**9,
        metavar="TIME",
        help="that is billed (default 5min)",
    )


def _capacity(found: argparse.ArgumentParser) -> None:
    found.add_argument(
        "--capacity",
        type=quantities.rate_bps,
        metavar="RATE",
        help="of the link, as 1G (default: found if bins pile up below it)",
    )


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 100_000:
        raise InputError(f"'{text}' is no number from 0 to 100000")
    return int(text)


def _selection(options: argparse.Namespace) -> Selection:
    from ebb_volume.headers import network

    by = [word for word in options.by.split(",") if word]
    for word in by:
        if word not in DIMENSIONS:
            raise InputError(f"--by: there is no '{word}'; expected any of {', '.join(DIMENSIONS)}")
    if "direction" in by and not options.inside:
        raise InputError("--by direction needs --inside PREFIX: which network is ours")
    if "prefix" in by and not options.prefix:
        raise InputError("--by prefix needs --prefix PREFIX, once for each")
    if not 0 <= options.overhead_bytes <= 1000:
        raise InputError(f"--overhead-bytes {options.overhead_bytes}: expected 0 to 1000")
    inside, prefixes = ([network(p) for p in given] for given in (options.inside, options.prefix))
    return Selection(by, inside, prefixes, options.length, options.overhead_bytes)


def _load(options: argparse.Namespace, keep_edges: bool = False) -> Loaded:
    given = [bool(options.inputs), bool(options.p4runtime), bool(options.gnmi)]
    if sum(given) != 1:
        raise InputError("give either INPUT files, or --p4runtime, or --gnmi (see --help)")
    if options.inputs:
        from ebb_volume.progress import shown

        selection = _selection(options)
        with shown(Console(stderr=True)) as watch:
            return sources.load(
                options.inputs, options.slot_ns, selection, watch, keep_edges, options.point
            )
    from ebb_controller.ctl.client import Place

    from ebb_volume import live

    slot_ns, notes = options.slot_ns or 10**9, Notes()
    place = Place(
        options.p4runtime or options.gnmi,
        options.device_id,
        options.cacert,
        options.cert,
        options.key,
    )
    switch = live.p4runtime(place, options.counter) if options.p4runtime else live.openconfig(place)
    with switch as read:
        series, interrupted = live.record(read, slot_ns, options.for_ns // slot_ns, notes)
    return Loaded(series, notes, interrupted=interrupted)


def _chosen(loaded: Loaded) -> list[Series]:
    """The series with most bytes."""
    if len(loaded.series) <= MOST_SERIES:
        return loaded.series
    loaded.notes.add(f"{len(loaded.series)} series; the {MOST_SERIES} with most bytes are used")
    return sorted(loaded.series, key=lambda series: -int(series.bytes.sum()))[:MOST_SERIES]


def _end(loaded: Loaded) -> int:
    """Tells what was remarked; the exit code."""
    for note in loaded.notes:
        print(f"ebb-volume: {printable(note)}", file=sys.stderr)
    return INTERRUPTED if loaded.interrupted else 0


def _bins(options: argparse.Namespace) -> int:
    from ebb_volume import records, tables, text

    loaded = _load(options, keep_edges=True)
    if options.out:
        tables.write(loaded.series, options.out)
    if options.json:
        record = {"series": [records.of_series(series) for series in loaded.series]}
        print(records.as_json(record, loaded.notes))
    elif options.out:
        _print([text.of_series(loaded.series)])
    else:
        tables.write_csv(loaded.series, sys.stdout.buffer)
    return _end(loaded)


def _each(
    options: argparse.Namespace, ask: Callable[[Series, Notes], Answer], loaded: Loaded
) -> int:
    """Asks of each series; one that gives no answer says why. 1 if none gives one."""
    from ebb_volume import figures, records
    from ebb_volume.fitting import Unfit

    found, tables, drawings, why = [], [], [], []
    for series in _chosen(loaded):
        try:
            record, more, draw = ask(series, loaded.notes)
        except (Unfit, InputError) as error:
            why.append(str(error))
            loaded.notes.add(str(error))
            continue
        found.append(record)
        tables += more
        drawings.append(draw)
    if options.json:
        print(records.as_json({"series": found}, loaded.notes))
    else:
        _print(tables)
    if options.figure and drawings and (draw := drawings[0]):
        _figure_kind(options.figure)
        figures.write(draw(), options.figure)
        if len(drawings) > 1:
            loaded.notes.add(f"{options.figure} shows the first of {len(drawings)} series")
    code = _end(loaded)
    return code or (1 if why and not found else 0)


def _figure_kind(path: Path) -> None:
    if path.suffix not in (".svg", ".png"):
        raise InputError(f"--figure {path}: expected a name that ends in .svg or .png")


def _fit(options: argparse.Namespace) -> int:
    from ebb_volume import figures, fitting, records, text

    def ask(series: Series, notes: Notes) -> Answer:
        fit = fitting.fit(series, notes, options.bootstrap, options.seed)
        return records.of_fit(fit), text.of_fit(fit), lambda: figures.distribution(fit)

    return _each(options, ask, _load(options))


def _provision(options: argparse.Namespace) -> int:
    from ebb_volume import figures, provisioning, records, text
    from ebb_volume.report import provisions

    epsilons = options.epsilon or list(provisioning.EPSILONS)

    def ask(series: Series, notes: Notes) -> Answer:
        found = provisions(
            series, options.also, epsilons, options.learn, options.moments, options.log_base == "10"
        )
        return (
            records.of_provisions(series, found),
            [text.of_provisions(series, found)],
            lambda: figures.exceedance(found),
        )

    return _each(options, ask, _load(options))


def _anomalies(options: argparse.Namespace) -> int:
    from ebb_volume import anomalies, figures, records, text

    def ask(series: Series, notes: Notes) -> Answer:
        found = anomalies.find(series, options.capacity)
        return (
            records.of_anomalies(series, found),
            [text.of_anomalies(series, found)],
            lambda: figures.time_line(series, None, found),
        )

    return _each(options, ask, _load(options))


def _p95(options: argparse.Namespace) -> int:
    from ebb_volume import billing, figures, records, text
    from ebb_volume.fitting import Unfit

    loaded = _load(options)
    try:
        chosen = _chosen(loaded)
        bills = billing.bills(chosen, options.interval, loaded.notes)
        whole = billing.whole(chosen, bills, options.interval)
    except Unfit as error:
        raise InputError(str(error)) from error
    if options.json:
        print(records.as_json(records.of_bills(bills, whole), loaded.notes))
    else:
        _print([text.of_bills(bills, whole)])
    if options.figure:
        _figure_kind(options.figure)
        figures.write(figures.percentiles(bills), options.figure)
    return _end(loaded)


def _report(options: argparse.Namespace) -> int:
    from ebb_topologies.files import replacing

    from ebb_volume import provisioning, records, report

    loaded = _load(options)
    questions = report.Questions(
        options.epsilon or provisioning.EPSILONS,
        options.also,
        options.interval,
        options.capacity,
        options.bootstrap,
        options.seed,
    )
    html, record = report.make(_chosen(loaded), questions, loaded.notes)
    with replacing(options.out) as part:
        part.write_text(html, encoding="utf-8")
    with replacing(options.out.with_suffix(".json")) as part:
        part.write_text(records.as_json(record, loaded.notes) + "\n", encoding="utf-8")
    if options.json:
        print(records.as_json(record, loaded.notes))
    else:
        print(f"{options.out}, {options.out.with_suffix('.json')}")
    return _end(loaded)


def _print(tables: Sequence[Table]) -> None:
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    for table in tables:
        console.print(printable(table.title), markup=False, style="bold")
        found = RichTable(box=SIMPLE_HEAD, header_style="bold", padding=(0, 1))
        for index, heading in enumerate(table.head):
            found.add_column(heading, justify="left" if index == 0 else "right", no_wrap=True)
        for row in table.rows:
            found.add_row(*(printable(cell).replace("[", r"\[") for cell in row))
        console.print(found)
        if table.note:
            console.print(printable(table.note), markup=False, soft_wrap=True)
        console.print()
