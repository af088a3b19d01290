"""A benchmark as a command: its options, its output and its files."""

import dataclasses
import json

import pytest

from bench.measure.command import Benchmark
from bench.measure.line import Line
from bench.measure.section import Conditions, Section, sized


def line(name, target=None):
    return Line(name=name, loop="asyncio", collector="gc on", unit="ns", ours=2.0, target=target)


def section(name, *lines, **changes):
    return Section(
        name=name, title=f"all about {name}", timed="all of it", lines=lambda _: iter(lines), **changes
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Size(Conditions):
    size: int = sized(1_000, 10)
    sizes: tuple[int, ...] = (10, 200, 3_000)

    def numbers(self):
        return f"{self.size:,} at once"


@pytest.fixture
def benchmark(monkeypatch):
    """Make a benchmark of sections."""

    def made(*sections, **changes):
        monkeypatch.setattr(Benchmark, "sections", lambda _: {each.name: each for each in sections})
        settings = Size(rounds=9, heavy_rounds=3, loops=("asyncio",))
        facts = {"package": "bench.some", "purpose": "Some figures.", "modules": (), "settings": settings}
        return Benchmark(**{**facts, **changes})

    return made


SPEED = section("speed", line("fast", target=3), line("slow", target=1), line("so so"))
MEMORY = section("memory", line("small"), heading="how much of it")


def test_sections_have_headings_and_the_summary_lists_misses(benchmark, capsys):
    assert benchmark(SPEED, MEMORY).run([]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Some figures.\n")
    assert "\n== speed: all about speed\n   timed: all of it\n" in printed
    assert "\nhow much of it\nsmall " in printed
    summary = printed.rpartition("\n\n")[2].splitlines()
    assert summary[0].startswith("1 of 2 targets met, 1 missed, in ")
    assert [missed.split()[:2] for missed in summary[1:]] == [["speed", "slow"]]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], {"size": 1_000, "rounds": 9, "heavy_rounds": 3, "seed": 1}),
        (["--quick"], {"size": 10, "rounds": 9}),
        (["--repeats", "4"], {"size": 1_000, "rounds": 4, "heavy_rounds": 4}),
        (["--seed", "7", "--loops", "asyncio"], {"seed": 7, "loops": ("asyncio",)}),
        (["--most", "200"], {"sizes": (10, 200), "size": 1_000}),
    ],
)
def test_the_sections_receive_the_options(benchmark, arguments, expected, capsys):
    received = []

    def lines(settings):
        received.append(dataclasses.asdict(settings))
        return iter(())

    benchmark(dataclasses.replace(SPEED, lines=lines), bounded=("sizes",)).run(arguments)
    assert {name: received[0][name] for name in expected} == expected
    assert ("numbers too small" in capsys.readouterr().out) is ("--quick" in arguments)


def test_json_has_machine_settings_and_every_row(benchmark, tmp_path, capsys):
    written = tmp_path / "figures.json"
    benchmark(SPEED, MEMORY).run(["--json", str(written)])
    document = json.loads(written.read_text(encoding="utf-8"))
    assert "python" in document["machine"]
    assert document["settings"]["size"] == 1_000
    assert [(row["section"], row["name"], row["verdict"]) for row in document["lines"]] == [
        ("speed", "fast", "met"),
        ("speed", "slow", "MISSED"),
        ("speed", "so so", "shown"),
        ("memory", "small", "shown"),
    ]
    assert "fast" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--only", "size"], "'size'"),
        (["--loops", "asyncio,trio"], "'trio'"),
        (["--repeats", "0"], "'0'"),
        (["--most", "200"], "--most"),  # there are no larger ones
    ],
)
def test_a_bad_option_is_refused_by_its_value(benchmark, arguments, complaint, capsys):
    with pytest.raises(SystemExit) as refused:
        benchmark(SPEED).run(arguments)
    assert refused.value.code == 2
    assert complaint in capsys.readouterr().err
