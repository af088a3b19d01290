"""The tables of the page of evidence: from the promises, the benchmarks' page, and what was measured."""

import json
import re

from tests.evidence.promises import PROMISES
from tests.source_tree import ROOT

PAGE = ROOT / ".github" / "site" / "evidence.md"
UP = "../../"  # from the page to the root
MUTANTS = ROOT / "tests" / "evidence" / "mutants.jsonl"
_CHAOS = re.compile(
    r"^`(?P<command>python -m tests\.soak\.\w+ --(?:seconds|rounds)[^`]+)`.*?(?P<table>^\|.*?)\n\n",
    re.MULTILINE | re.DOTALL,
)

COMMANDS = (
    (
        "`.ci/check`",
        "types, the fast tests on both loops, format and lint",
        "draws anew; `DRAWS=fixed` repeats",
    ),
    (
        "`.ci/check all`",
        "every test: also other Pythons, the lowest versions, AddressSanitizer, real servers",
        "the same",
    ),
    ("`.ci/check suites`", "aiokafka's and kafka-python's own tests on the broker", "none"),
    (
        "`python -m tests.soak.chaos --store postgres --seconds 600`",
        "kills workers and connections",
        "printed, `--seed`",
    ),
    (
        "`python -m tests.soak.promises --store redis --rounds 2000`",
        "kills all parties of a question",
        "printed, `--seed`",
    ),
    ("`python -m tests.soak.race`", "cancels takers in the pass of their item", "none: it counts"),
    ("`pytest tests/evidence`", "plants each fault below", "none"),
    ("`python -m tests.evidence.mutants --seed 1`", "random changes", "`--seed`"),
)


def page() -> str:
    """Return the page with its tables made anew; its prose is the page's own."""
    tables = {
        "promises": _promises,
        "faults": _faults,
        "chaos": _chaos,
        "mutants": _mutants,
        "commands": _commands,
    }
    text = PAGE.read_text(encoding="utf-8")
    for name, make in tables.items():
        begins, ends = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, _, rest = text.partition(begins)
        text = f"{before}{begins}\n{make()}\n{ends}{rest.partition(ends)[2]}"
    return text


def _table(*rows: tuple[str, ...]) -> str:
    head, *body = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join((head, "|---" * len(rows[0]) + "|", *body)) + "\n"


def _promises() -> str:
    rows = [("promise", "made by", "tests", "faults planted")]
    rows += [
        (
            promise.text,
            _link(promise.page),
            ", ".join(map(_link, promise.tests)),
            str(len(promise.faults) or ""),
        )
        for promise in PROMISES
    ]
    return _table(*rows)


def _link(path: str) -> str:
    file = path.partition("::")[0]
    return f"[{file.removeprefix('purgatory_async/')}]({UP}{file})"


def _faults() -> str:
    rows = [("in", "instead of", "it says", "noticed by")]
    rows += [
        (f"`{fault.file}`", _code(fault.right), _code(fault.wrong), _link(fault.seen_by))
        for promise in PROMISES
        for fault in promise.faults
    ]
    return _table(*rows)


def _code(text: str) -> str:
    lines = [line.strip().replace("|", "\\|") for line in text.strip().splitlines()]
    return "<br>".join(f"`{line}`" for line in lines) or "nothing"


def _chaos() -> str:
    text = (ROOT / "bench" / "README.md").read_text(encoding="utf-8")
    return "\n".join(f"`{found['command']}`:\n\n{found['table']}\n" for found in _CHAOS.finditer(text))


def _mutants() -> str:
    lines = MUTANTS.read_text(encoding="utf-8").splitlines()
    rows = [("room", "changes tried", "noticed", "seed", "date")]
    for line in lines:
        tried = json.loads(line)
        noticed = tried["tried"] - len(tried["survived"])
        share = f"{noticed} ({noticed / tried['tried']:.0%})"
        rows.append((f"`{tried['room']}`", str(tried["tried"]), share, str(tried["seed"]), tried["date"]))
    survived = [f"- `{place}`" for line in lines for place in json.loads(line)["survived"]]
    return "\n".join((_table(*rows), "Survived:\n", *survived, ""))


def _commands() -> str:
    return _table(("command", "does", "seed"), *COMMANDS)
