"""Every example runs and prints what it should."""

from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.cluster.servers import Postgres, need_postgres, shared
from tests.programs import run, skip_without_its_imports
from tests.source_tree import ROOT

EXAMPLES = [pytest.param(path, id=path.name) for path in sorted((ROOT / "examples").glob("*.py"))]

# Lines that must come in this order, with any others between; an asterisk matches anything.
FACTS: dict[str, tuple[str, ...]] = {
    "await_in_an_app.py": (
        "waiting: 4",
        "payment 1: confirmed",
        "payment 2: the card was refused",
        "payment 3: the bank did not answer",
        "payment 4: the customer walked away",
        "left behind: 0 operations, 0 keys",
    ),
    "long_poll_starlette.py": (
        "build 6: 200 {'build': '6', 'report': 'green'}, reported before the poll",
        "build 9: 204, nothing in 300 ms; still held: 2",
        "build 7: 200 {'build': '7', 'report': {'status': 'green'}}; reported to 1",
        "build 8: the client hung up; left behind: 0 operations, 0 keys",
    ),
    "events_starlette.py": (
        'a reader heard "rain", and lost its connection',
        'it came back, and heard "wind" and "snow"',
        'who came back later heard gap {"missed": 1}, then "snow"',
        'a steady reader heard "rain", "wind", "snow", "fog", "hail", "sun"; then the news ended',
    ),
    "long_poll_aiohttp.py": (
        "waiting: 2 workers",
        "the first hung up; waiting: 1",
        "a job came; taken: True",
        'the second got 200 *"resize","cat.png"*',
        "the third got 204",
        "left behind: 0 jobs, 0 operations, 0 keys",
    ),
    "kafka_like_log.py": (
        "  0.02 s  produce apple: completed, acked by follower-1 follower-2 leader",
        "  0.04 s  11 bytes are committed, the fetch of 12 still waits",
        "  0.06 s  fetch of 12 bytes: apple banana cherry",
        "  0.56 s  fetch of 99 bytes: apple banana cherry, because max wait is over",
        " 30.56 s  produce damson: expired, acked by follower-1 leader, not by follower-2",
        " 30.56 s  of 4 records in the log a consumer reads apple banana cherry",
        " 30.58 s  follower-2 is back, and a consumer reads apple banana cherry damson",
        " 30.58 s  generation 1: ann bob cleo; complete: True; all agree",
        " 33.58 s  generation 2: bob cleo; complete: False; all agree",
        " 33.58 s  left behind: 0 operations, 0 at the watermarks",
    ),
    "link.py": (
        "add: 5",
        "divide: RemoteError: 1 cannot be divided by 0",
        "add: 6",
        "the reply to the second call is here, the first one's not",
        "laborious: finished",
        "laborious: OperationExpired: the reply to * did not come within 0.05 s",
        "replies that came too late: 1, unknown: 0",
        "connection 1 is lost: the peer fell silent",
        "laborious: ConnectionError: the peer fell silent",
        "fall silent: ConnectionError: the peer fell silent",
        "add: 6",
        "connection 2 is lost: the peer hung up",
        "laborious: ConnectionError: the peer hung up",
        "hang up: ConnectionError: the peer hung up",
        "add: 6",
        "left behind: 0 calls, 0 in the timer",
    ),
    "job_queue.py": (
        " 0.0 s  no room for mail news yet",
        " 1.0 s  the artist begins thumbnail cat",
        " 1.0 s  the clerk begins mail bill",
        " 2.0 s  the artist begins thumbnail dog",
        " 2.0 s  the clerk begins mail news",
        " 3.0 s  the artist begins video trip",
        " 5.0 s  * the artist's wait: completed, and cancelled in the same moment",
        " 5.0 s  the artist is cancelled",
        " 5.0 s  a colleague begins thumbnail owl",
        " 7.0 s  no room for mail offer-6 yet",
        " 7.0 s  the clerk begins mail offer-1",
        " 7.5 s  not begun: mail offer-2, mail offer-3, mail offer-4, mail offer-5",
        " 7.5 s  handed in too late: (('mail', 'offer-6'), ('mail', 'offer-7'))",
        " 8.0 s  the clerk goes home",
        " 8.0 s  left behind: 0 jobs, 0 workers",
    ),
    "signals_across_workers.py": (
        "connected to two workers: True",
        "order 41: 204, not paid in 300 ms",
        "order 42: 200 {'amount': 99}, paid at the other worker",
        "order 42: 200 {'amount': 99}, asked for afterwards",
        "the server ended with 0",
    ),
    "ask_a_person.py": (
        "deploy 77: yes",
        "deploy 77: yes",
        "Deploy 77[?] http://127.0.0.1:*/a/*",
        "Deploy 77[?] yes",
    ),
    "signals_in_a_transaction.py": (
        "9: 402 it costs more; rolled back with its signal",
        "order 42 still waits: True",
        "order 42: 200 {'amount': 99}, committed at the other worker",
        "the server ended with 0",
    ),
    "test_a_kafka_app.py": (
        "*::test_an_order_gets_its_invoice PASSED*",
        "*::test_a_rebalance_shares_the_partitions PASSED*",
        "*::test_a_worker_whose_session_expired_comes_back PASSED*",
        "*::test_a_lost_leader_costs_no_invoice PASSED*",
        "*::test_a_slow_replica_delays_the_commit PASSED*",
        "*::test_a_slow_broker_holds_the_next_order PASSED*",
        "*= 6 passed in *",
    ),
    "test_a_sync_kafka_app.py": (
        "*::test_an_order_gets_its_invoice PASSED*",
        "*::test_an_order_that_was_not_committed_comes_again PASSED*",
        "*::test_a_lost_leader_costs_no_invoice PASSED*",
        "*::test_a_restart_of_the_broker_costs_no_order PASSED*",
        "*::test_a_slow_broker_delays_the_commit PASSED*",
        "*::test_a_worker_whose_session_expired_comes_back PASSED*",
        "*= 6 passed in *",
    ),
    "test_with_virtual_time.py": (
        "*::test_an_hour_passes_in_a_millisecond PASSED*",
        "*::test_an_expired_quorum_names_the_missing_voters PASSED*",
        "*::test_a_day_of_periodic_work PASSED*",
        "*::test_a_cancelled_clerk_loses_no_customer PASSED*",
        "*= 7 passed in *",
    ),
}


def not_printed(facts: tuple[str, ...], output: str) -> list[str]:
    """The facts missing from the output, each searched for after the one before."""
    lines = iter(output.splitlines())
    return [fact for fact in facts if not any(fnmatchcase(line, fact) for line in lines)]


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs_and_prints_its_facts(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = example.read_text(encoding="utf-8")
    skip_without_its_imports(source)
    if "DATABASE_URL" in source:
        need_postgres()
        monkeypatch.setenv("DATABASE_URL", shared(Postgres).url)
    output = run(example, folder=tmp_path)
    assert not not_printed(FACTS.get(example.name, ()), output), output


def test_every_fact_belongs_to_an_example() -> None:
    assert set(FACTS) <= {path.name for path in (ROOT / "examples").glob("*.py")}


def test_a_fact_counts_only_as_a_whole_line_and_in_its_place() -> None:
    output = "first\nleft behind: 10 calls\nlast\n"
    assert not_printed(("first", "left behind: * calls", "last"), output) == []
    assert not_printed(("behind: 10 calls",), output) == ["behind: 10 calls"]
    assert not_printed(("last", "first"), output) == ["first"]
