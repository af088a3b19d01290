"""Change the package at random places, and see whether a test fails: ``python -m tests.evidence.mutants``.

cosmic-ray makes the changes (an operator, a number, a condition, a decorator); install it first. A sample drawn by
``--seed`` is tried in a copy of the checkout, in pure Python, with the fast tests of its room alone. A change that no
test notices survives: it is equal to the original, or it shows a missing test. ``--out`` adds the figures to a file.
"""

import argparse
import json
import random
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from tests.source_tree import ROOT

ROOMS = {
    "timing": "tests/timing",
    "core": "tests/core",
    "loop": "tests/loop",
    "patterns": "tests/patterns",
    "durable/fold": "tests/durable/fold",
    "service/http": "tests/service/http",
}
PATIENCE_S = 300.0
CONFIG = """\
[cosmic-ray]
module-path = "purgatory_async/{room}"
timeout = {patience}
excluded-modules = []
test-command = "{python} -m pytest -q -x -p no:cacheprovider -m 'not slow and not spark' {tests}"

[cosmic-ray.distributor]
name = "local"
"""


def sample(session: Path, count: int, seed: int) -> None:
    """Leave so many of a session's changes, drawn by a seed."""
    with closing(sqlite3.connect(session)) as database, database:
        jobs = sorted(job for (job,) in database.execute("SELECT job_id FROM mutation_specs"))
        for job in set(jobs) - set(random.Random(seed).sample(jobs, min(count, len(jobs)))):
            database.execute("DELETE FROM mutation_specs WHERE job_id = ?", [job])
            database.execute("DELETE FROM work_items WHERE job_id = ?", [job])


def survivors(session: Path) -> tuple[int, list[str]]:
    """Return how many changes were tried, and where those are that no test noticed."""
    with closing(sqlite3.connect(session)) as database:
        rows = database.execute(
            "SELECT module_path, start_pos_row, operator_name, test_outcome FROM mutation_specs "
            "JOIN work_results USING (job_id) WHERE worker_outcome = 'NORMAL' ORDER BY 1, 2"
        ).fetchall()
    return len(rows), [f"{path}:{row} {name}" for path, row, name, outcome in rows if outcome == "SURVIVED"]


def try_room(room: str, count: int, seed: int, folder: Path) -> dict[str, object]:
    """Try a sample of the changes of one room in a copy of the checkout."""
    tree, session = folder / "tree", folder / "session.sqlite"
    subprocess.run(["git", "clone", "-q", ROOT, tree], check=True)
    config = folder / "config.toml"
    settings = {"room": room, "tests": ROOMS[room], "python": sys.executable, "patience": PATIENCE_S}
    config.write_text(CONFIG.format(**settings), encoding="utf-8")
    environment = {
        "PURGATORY_ASYNC_PURE": "1",
        "DRAWS": "fixed",
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
    }
    for step in ("init", "exec"):
        command = [sys.executable, "-m", "cosmic_ray.cli", step, config, session]
        subprocess.run(command, cwd=tree, env=environment, check=True)
        if step == "init":
            sample(session, count, seed)
    tried, survived = survivors(session)
    return {
        "room": room,
        "tried": tried,
        "survived": survived,
        "seed": seed,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }


def main() -> None:
    """Read the command line, try the rooms, and print or keep what survived."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--each", type=int, default=40, help="changes in each room (40)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (1)")
    parser.add_argument("--room", choices=ROOMS, action="append", help="this one alone")
    parser.add_argument("--out", type=Path, help="a file of JSON lines to add the figures to")
    options = parser.parse_args()
    for room in options.room or ROOMS:
        with tempfile.TemporaryDirectory() as folder:
            found = try_room(room, options.each, options.seed, Path(folder))
        print(json.dumps(found, indent=2))
        if options.out is not None:
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
