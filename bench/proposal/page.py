"""One page of what was measured: ``python -m bench.proposal.page DIR`` reads ``readings.parquet`` there.

It writes the figures (``DIR/figures``) and ``DIR/page.html``, which needs nothing else: figures and style are inside.
So both can be made again from readings that were kept, without measuring anything.
"""

import argparse
import base64
import sys
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from bench.measure.extra import needing
from bench.proposal.lost import Loss, compared, losses
from bench.proposal.point import CASES, HARNESS, Point
from bench.proposal.results import Measured, Readings, middle, net_cpu, range_of, takes_callbacks

if TYPE_CHECKING:
    from bench.proposal.plots import Drawn

__all__ = ["main", "write_page"]

NOT_SHOWN = (
    (
        "A contestant on a machine of its own. Load, contestant and answers share one process and one core; what the "
        "load costs alone is the dotted line."
    ),
    (
        "A comparison with Java. The proposal ran Kafka's purgatory in a JVM; here the older designs are small "
        "faithful implementations in Python, without the locks and threads that they would need there."
    ),
    "Callbacks beside awaited tasks. A task costs more than any purgatory, so each kind has figures of its own.",
    "Several keys for an awaited request. A peer has no watch lists, so each of these waits for a key of its own.",
    "What a real service does with a request. Its own work would make every difference smaller.",
    "Other rates, timeouts and sizes of requests than those that were measured.",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Make figures and page of the directory that is named.

    Returns:
        0; 2 if there are no readings.
    """
    parser = argparse.ArgumentParser(prog="python -m bench.proposal.page", description=__doc__)
    parser.add_argument("directory", type=Path, metavar="DIR", help="where readings.parquet is")
    directory: Path = parser.parse_args(arguments).directory
    with needing("spark"):
        from bench.proposal.files import load  # noqa: PLC0415 - what is missing is said in a sentence
        from bench.proposal.plots import draw  # noqa: PLC0415
    try:
        measured = load(directory)
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    drawn = draw(measured.readings, directory / "figures")
    page = directory / "page.html"
    write_page(measured, drawn, page)
    print(f"{page}, and {len(drawn)} figures beside it")
    return 0


def write_page(measured: Measured, figures: Iterable["Drawn"], path: Path) -> None:
    """Write the page.

    Args:
        measured: What it tells.
        figures: In the order of the page.
        path: The file.
    """
    found = list(losses(measured.readings))
    parts = (
        _header(measured, found),
        _figures(figures),
        _lost(found),
        _table(measured.readings),
        _not_shown(measured),
    )
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    body = "\n".join(parts)
    path.write_text(
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<title>The purgatory proposal's benchmark</title>\n"
        f"<style>\n{style}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n",
        encoding="utf-8",
    )


def _header(measured: Measured, found: Sequence[Loss]) -> str:
    machine = measured.machine
    build = "profile-guided build" if machine.optimised_build else "build without profile-guided optimisation"
    repeats = sorted({len(of_point) for of_point in measured.readings.values()})
    facts = {
        "machine": escape(f"{machine.cpu}, {machine.cores} cores, {machine.system}"),
        "python": escape(f"{machine.python}, {build}; uvloop {machine.uvloop}"),
        "date": measured.date,
        "command": f"<code>{escape(measured.command)}</code>",
        "readings": f"{' to '.join(map(str, repeats[:: max(1, len(repeats) - 1)]))} of each point, in turns; lines are "
        "medians, bars the range",
        "load": "exponential arrivals, log-normal latency (median and third quartile "
        + ", ".join(f"{p50 * 1000:g} and {p75 * 1000:g} ms: {case}" for case, (p50, p75) in CASES.items())
        + "), timeout 200 ms, tick 1 ms, 100 bytes and 3 watch keys each; awaited ones a key each",
    }
    rows = "\n".join(f"<dt>{name}</dt><dd>{fact}</dd>" for name, fact in facts.items())
    return (
        '<header>\n<div class="name">The purgatory proposal\'s benchmark</div>\n'
        f"<h1>{_headline(measured.readings, found)}</h1>\n<dl>\n{rows}\n</dl>\n</header>"
    )


def _headline(readings: Readings, found: Sequence[Loss]) -> str:
    """How often no contestant used less processor time, by kind of request."""
    ours = {mine for mine, _ in compared(readings)}
    lost = {loss.ours for loss in found if "processor time" in loss.words}
    parts = []
    for kind, callbacks in (("answered by a callback", True), ("awaited", False)):
        points = [point for point in ours if takes_callbacks(point) == callbacks]
        if points:
            won = sum(point not in lost for point in points)
            parts.append(f"at {won} of {len(points)} points where requests are {kind}")
    if not parts:
        return "Nothing was compared."
    return f"No contestant used less processor time than the library {', and '.join(parts)}."


def _figures(figures: Iterable["Drawn"]) -> str:
    parts = [
        "<h2>Figures</h2>",
        '<p class="lead">Blue and thick: the library. Grey band: all that is offered.</p>',
    ]
    for figure in figures:
        image = base64.b64encode(figure.path.read_bytes()).decode()
        parts.append(
            f'<figure><img alt="{escape(figure.title)}" src="data:image/svg+xml;base64,{image}"></figure>'
        )
    return "\n".join(parts)


def _lost(found: Sequence[Loss]) -> str:
    if not found:
        return "<h2>Lost points</h2>\n<p>At no point was another contestant better in any figure.</p>"
    clear = sum(not loss.doubt for loss in found)
    items = "\n".join(f"<li{' class=doubt' if loss.doubt else ''}>{escape(str(loss))}</li>" for loss in found)
    return (
        f'<h2>Lost points</h2>\n<p class="lead">In {len(found)} figures another contestant\'s median was '
        f'better; in {clear} every one of its readings was.</p>\n<ul class="lost">\n{items}\n</ul>'
    )


_FIGURES = (
    ("rate_reached", "reached/s", 0),
    ("timeout_rate", "timed out", 3),
    ("early", "early", 0),
    ("lateness_ms_p50", "late p50", 2),
    ("lateness_ms_p99", "p99", 2),
    ("lateness_ms_p999", "p99.9 ms", 2),
    ("gc_ms", "GC ms", 0),
    ("gc_longest_ms", "longest", 1),
    ("peak_pending", "pending", 0),
    ("peak_rss_mib", "peak MiB", 0),
    ("held_mib", "held MiB", 1),
    ("entries_left", "entries", 0),
)
"""Attributes of a reading whose medians the table has, their headings, and their digits."""


def _table(readings: Readings) -> str:
    names = ("contestant", "loop", "case", "GC", "offered", "CPU s/M", "range", "net")
    heads = "".join(f'<th scope="col">{name}</th>' for name in (*names, *(name for _, name, _ in _FIGURES)))
    ours = {mine for mine, _ in compared(readings)}
    order = sorted(readings, key=lambda point: (point.loop, point.case, point.collector, point.rate))
    rows = "\n".join(
        f'<tr class="{"ours" if point in ours else "other"}">{_cells(readings, point)}</tr>'
        for point in order
    )
    return (
        '<h2>Every point</h2>\n<p class="lead">Medians. Net is without the processor time of the harness in the same '
        "round. Timed out is a share of all.</p>\n"
        f'<div class="box"><table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>'
    )


def _cells(readings: Readings, point: Point) -> str:
    of_point = readings[point]
    cpu = range_of(of_point, lambda reading: reading.cpu_s_per_million)
    assert cpu is not None, f"{point} has no reading"
    net = None if point.contestant == HARNESS else net_cpu(readings, point)
    cells = (
        *(point.loop, point.case, point.collector, point.offered),
        *(f"{cpu.median:.2f}", f"{cpu.low:.2f}–{cpu.high:.2f}"),  # noqa: RUF001 - a range has a dash
        _digits(None if net is None else net.median, 2),
        *(_digits(middle(of_point, name), digits) for name, _, digits in _FIGURES),
    )
    body = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
    return f'<th scope="row">{escape(point.name)}</th>{body}'


def _digits(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def _not_shown(measured: Measured) -> str:
    items = [f"<li>{escape(sentence)}</li>" for sentence in NOT_SHOWN]
    items += [f"<li>Not measured: {escape(sentence)}.</li>" for sentence in measured.failed]
    return "<h2>What this does not show</h2>\n<ul>\n" + "\n".join(items) + "\n</ul>"


if __name__ == "__main__":
    sys.exit(main())
