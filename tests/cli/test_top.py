"""``purgatory top``: a picture of the service's figures, whatever they are."""

import copy
import io
import json

import click
import httpx2
import pytest
from rich.console import Console

from purgatory_async.cli import commands, remote
from purgatory_async.cli.top import bars, picture

NO_DELAY = {"count": 0, "p50": None, "p99": None, "max": None}
COLUMNS = ("submitted", "completed", "expired", "cancelled", "failed", "closed", "signals")
EMPTY = {
    "version": "1.2.3",
    "epoch": "58311e623c5c4c40",
    "at": "2026-01-01T12:00:00Z",
    "uptime": 0.0,
    "draining": False,
    "counts": {
        **dict.fromkeys(("submitted", "pending", "watched", "keys", "signals", "undelivered", "held"), 0),
        **dict.fromkeys(("takers", "gaps", "streams", "events"), 0),
        "ended": dict.fromkeys(("completed", "expired", "cancelled", "failed", "closed"), 0),
    },
    "queues": {**dict.fromkeys(("items", "delayed", "leased", "dead"), 0), "oldest": None},
    "limits": {"pending": 100000, "items": 100000, "streams": 256},
    "survey_age": 0.0,
    "rates": {"window": 0, **dict.fromkeys(COLUMNS, 0.0)},
    "history": {"until": "2026-01-01T12:00:00Z", **{name: [] for name in (*COLUMNS, "pending")}},
    "delays": {"window": 0.0, "wait": NO_DELAY, "lateness": NO_DELAY, "loop_lag": NO_DELAY},
    "busiest_keys": [],
    "oldest_operations": [],
    "wheel": None,
}
BUSY = copy.deepcopy(EMPTY)
BUSY |= {
    "uptime": 7322.0,
    "draining": True,
    "busiest_keys": [{"key": f"key:{number}\x1b[31m", "watchers": 1234 - number} for number in range(20)],
    "oldest_operations": [
        {"id": None, "keys": ["a\x1b[2J", "b"], "need": "any", "elapsed": 61.0, "expires_in": None},
        {"id": "named", "keys": ["[red]k[/red]"], "need": "all", "elapsed": 1.0, "expires_in": 2.5},
    ],
    "wheel": {
        "tick": 0.001,
        "now_tick": 26024,
        "entries": 70007,
        "levels": [
            {"ticks_per_bucket": 1, "first_tick": 26024, "counts": [0] * 255 + [7]},
            {"ticks_per_bucket": 256, "first_tick": 25856, "counts": [70000] + [0] * 255},
        ],
    },
}
BUSY["counts"]["pending"] = 70000
BUSY["counts"]["ended"]["expired"] = 29
BUSY["history"]["pending"] = list(range(60))
BUSY["rates"]["submitted"] = 1234.56
BUSY["delays"]["wait"] = {"count": 30, "p50": 0.0233, "p99": 90.0, "max": 95.0}


def text_of(stats, width=100):
    out = io.StringIO()
    Console(file=out, width=width).print(picture(stats))
    return out.getvalue()


def test_a_busy_service_is_pictured_with_all_its_parts():
    text = text_of(BUSY)
    assert "draining  up 2 h 2 m" in text
    assert "pending 70,000 of 100,000" in text
    assert "1,234.6" in text
    assert "23.30 ms  1 m 30 s  1 m 35 s" in text
    assert "70,007 deadlines, a tick is 1 ms" in text
    assert "next 1 m 6 s" in text
    assert "key:0" in text
    assert "1,234" in text
    assert "(one-shot wait)" in text


def test_a_service_that_just_started_is_drawn_without_a_wheel():
    text = text_of(EMPTY)
    assert "serving  up 0.00 s" in text
    assert "wheel" not in text


def test_questions_are_shown_if_there_are_any():
    none = {"pending": 0, "oldest": None, "kept": 0, "kept_bytes": 0, "reserved_bytes": 0}
    assert "questions" not in text_of({**BUSY, "questions": none})
    assert "questions" not in text_of(BUSY)  # of a service that has none
    asked = {"pending": 1200, "oldest": 7322.0, "kept": 3, "kept_bytes": 3 << 20, "reserved_bytes": 10 << 20}
    line = "questions 1,200, the oldest for 2 h 2 m   answers kept 3, 3.0 MiB   reserved 10.0 MiB"
    assert line in text_of({**BUSY, "questions": asked})
    kept = "questions 0   answers kept 3, 3.0 MiB"
    assert kept in text_of({**BUSY, "questions": {**asked, "pending": 0, "oldest": None}})


def test_what_clients_put_into_keys_is_text():
    text = text_of(BUSY)
    assert "\x1b" not in text
    assert "a\\x1b[2J" in text
    assert "[red]k[/red]" in text


@pytest.mark.parametrize(
    "part", [name for name in EMPTY if name not in {"epoch", "at", "survey_age", "wheel"}]
)
@pytest.mark.parametrize("wrong", ["missing", None])
def test_figures_of_another_version_are_refused_in_a_sentence(part, wrong):
    stats = {**EMPTY, part: None}
    if wrong == "missing":
        del stats[part]
    elif part in {"version", "draining", "uptime"}:
        return
    with pytest.raises(click.ClickException, match="install the service's version"):
        picture(stats)


@pytest.mark.parametrize(
    ("numbers", "row"),
    [
        ([], ""),
        ([0, 0], "  "),
        ([1], "█"),
        ([0, 1, 4, 8], " ▁▄█"),
        ([1, 10**9], "▁█"),
        ([0.25, 0.5], "▄█"),
        ([0.0001, 0.9], "▁█"),
        ([3, 3], "██"),
    ],
)
def test_bars_show_any_number_above_nothing(numbers, row):
    assert bars(numbers) == row


def test_bars_show_the_latest_that_have_room():
    assert bars([8] + [1] * 60) == "█" * 60


def test_once_is_one_picture_and_the_end(capsys, monkeypatch):
    asked = []

    def answer(request):
        asked.append(request.url.path)
        return httpx2.Response(200, content=json.dumps(BUSY))

    real = remote.Client
    monkeypatch.setattr(
        remote, "Client", lambda *args, **kw: real(*args, transport=httpx2.MockTransport(answer), **kw)
    )
    assert commands.run(["top", "--once"]) == 0
    assert "pending 70,000" in capsys.readouterr().out
    assert asked == ["/v1/admin/stats"]
