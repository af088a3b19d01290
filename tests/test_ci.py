"""The scripts that check the project: what CI runs first, and what a stopped run leaves behind."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.source_tree import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are found under /proc"),
]

PATIENCE_S = 60

README = """
```sh
mkdir -p .venv/bin && printf '#!/bin/sh\\necho "pip $*" >>{diary}\\n' >.venv/bin/pip && chmod +x .venv/bin/pip
```

```sh
echo second >>{diary}; exit {status}
```
"""

# In place of a step's Python: tells that the tools are installed, then runs as "the tests" with two children,
# of which one has left the process group, as a detached server does.
PYTHON = """#!/bin/sh
case $1 in -c) exit 0 ;; esac
setsid sleep 1000 & echo $! >>{pids}
sleep 1000 & echo $! >>{pids}
echo $$ >>{pids}
wait
"""


def write_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def run_ci(tmp_path: Path, status: int) -> list[str]:
    """Run a copy of .ci/run over a README that keeps a diary; returns the diary."""
    diary, project, path = tmp_path / "diary", tmp_path / "project", tmp_path / "path"
    write_program(project / ".ci/check", f'#!/bin/sh\necho "check $*" >>{diary}\n')
    shutil.copy(ROOT / ".ci/run", project / ".ci/run")
    (project / "README.md").write_text(README.format(diary=diary, status=status), encoding="utf-8")
    write_program(path / "apt-get", f"#!/bin/sh\necho apt-get >>{diary}\n")  # what it runs needs no program
    author = ["-c", "user.name=a", "-c", "user.email=a@localhost"]
    for command in (["init", "-q"], ["add", "-A"], [*author, "commit", "-q", "-m", "all"]):
        subprocess.run(["git", *command], cwd=project, check=True)
    environment = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}"}
    ended = subprocess.run(["bash", ".ci/run"], cwd=project, env=environment, check=False, timeout=PATIENCE_S)
    assert ended.returncode == status
    return diary.read_text(encoding="utf-8").splitlines()


def test_ci_runs_both_readme_commands_before_it_installs_more(tmp_path):
    assert run_ci(tmp_path, 0) == ["second", "pip install -q -e .[service,spark,dev]", "check rest"]


def test_a_readme_command_that_fails_ends_ci(tmp_path):
    assert run_ci(tmp_path, 7) == ["second"]


def is_running(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except FileNotFoundError:
        return False


def until(condition) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_check_stopped_by_a_signal_leaves_no_process(tmp_path, number):
    pids, check = tmp_path / "pids", tmp_path / ".ci/check"
    write_program(tmp_path / ".venv/bin/python", PYTHON.format(pids=pids))
    check.parent.mkdir()
    shutil.copy(ROOT / ".ci/check", check)
    run = subprocess.Popen(["bash", check, "tests"], start_new_session=True)
    until(lambda: pids.exists() and pids.read_text(encoding="utf-8").count("\n") == 3)
    started = [int(pid) for pid in pids.read_text(encoding="utf-8").split()]
    assert all(map(is_running, started))
    run.send_signal(number)
    assert run.wait(PATIENCE_S) == 128 + number
    until(lambda: not any(map(is_running, started)))


# In place of a step's Python: notes what it is asked for; the extension's build ends as told.
NOTING = """#!/bin/sh
case $1 in -c) exit 0 ;; esac
echo "$PURGATORY_ASYNC_PURE $*" >>{diary}
case $1 in *build.py) exit {status} ;; esac
echo "1 passed in 0.1s"
"""


def run_check(tmp_path: Path, *steps: str, build: int = 0, ci: bool = False) -> tuple[int, list[str]]:
    """Run steps of .ci/check with a Python that keeps a diary; returns the status and the diary."""
    diary = tmp_path / "diary"
    status, _ = check_with(tmp_path, NOTING.format(diary=diary, status=build), *steps, ci=ci)
    return status, diary.read_text(encoding="utf-8").splitlines()


def check_with(tmp_path: Path, python: str, *steps: str, ci: bool = False) -> tuple[int, list[str]]:
    """Run steps of .ci/check with a program as Python, and no other; returns the status and what it printed."""
    check = tmp_path / ".ci/check"
    write_program(tmp_path / ".venv/bin/python", python)
    write_program(check, (ROOT / ".ci/check").read_text(encoding="utf-8"))
    write_program(tmp_path / ".ci/memory", "#!/bin/sh\n")
    write_program(tmp_path / ".ci/deploy-tools", "#!/bin/sh\n")
    write_program(tmp_path / "purgatory_async/native/build.py", "")
    for version in ("3.11", "3.12", "3.13"):
        write_program(tmp_path / f"path/python{version}", "#!/bin/sh\nexit 1\n")
    environment = {
        **os.environ,
        "CI": str(ci).lower(),
        "PATH": f"{tmp_path}/path:{os.environ['PATH']}",
        "PYENV_ROOT": str(tmp_path),
        "XDG_CACHE_HOME": f"{tmp_path}/cache",
    }
    for name in ("PURGATORY_ASYNC_PURE", "AIOKAFKA_SOURCE", "KAFKA_PYTHON_SOURCE"):
        environment.pop(name, None)
    ended = subprocess.run(
        ["bash", check, *steps],
        env=environment,
        check=False,
        timeout=PATIENCE_S,
        stdout=subprocess.PIPE,
        text=True,
    )
    return ended.returncode, ended.stdout.splitlines()


LANES = re.findall(r"^step_([\w-]+)\(", (ROOT / ".ci/check").read_text(encoding="utf-8"), re.MULTILINE)
SUITES = {"aiokafka", "kafka-python"}  # of others
REAL = {"agents", "slow", "served", "spark-slow"}  # they start, kill and time real processes
BUILT = {"wheels"}  # minutes of building


@pytest.mark.parametrize(
    ("steps", "lanes"),
    [
        pytest.param("all", set(LANES) - {"core", "million"}, id="all"),
        pytest.param(
            "rest",
            set(LANES) - REAL - SUITES - BUILT - {"core", "million", "format", "lint", "tests"},
            id="rest",
        ),
        pytest.param("suites", SUITES, id="suites"),
    ],
)
def test_a_run_ends_with_one_table_and_the_totals(tmp_path, steps, lanes):
    status, printed = check_with(tmp_path, NOTING.format(diary=tmp_path / "diary", status=0), steps)
    assert status == 0
    blank, title, *rows, _, _, totals = printed
    assert (blank, title.split()[:4]) == ("", ["lane", "verdict", "seconds", "CPU"])
    assert sorted(row.split()[0] for row in rows) == sorted(lanes)
    left_out = {row.split()[0] for row in rows if "left out" in row} - {"site"}  # as pyright
    assert left_out == lanes & (
        {"agents", "py312", "py313", "pure312", "pure313", "lowest", "pyright"} | SUITES | BUILT
    )
    tested = (lanes & {"tests", "added", "asgi", "spark", "pure", *REAL}) - left_out
    assert totals == f"{len(tested)} passed, 0 failed, 0 skipped"


# In place of Python: the first of the runs fails, and the third ends before its last line.
UNSTEADY = """#!/bin/sh
case $1 in -c) exit 0 ;; esac
case $* in *pytest*) ;; *) exit 0 ;; esac
echo "$*" >>{diary}
if mkdir {diary}.1 2>/dev/null; then
    printf '= FAILURES =\\nno\\nFAILED tests/a.py::test_b[x - y] - no\\n1 failed, 1 passed in 0.1s\\n'; exit 1
elif mkdir {diary}.2 2>/dev/null; then echo Fatal; exit 134
fi
echo "2 passed in 0.1s"
"""


def test_flaky_counts_what_failed_in_all_runs(tmp_path):
    diary = tmp_path / "diary"
    status, printed = check_with(
        tmp_path, UNSTEADY.format(diary=diary), "flaky", "5", "tests/a.py", "tests/b.py"
    )
    assert status == 1
    assert len(diary.read_text(encoding="utf-8").splitlines()) == 5
    _, *failed, totals = printed[printed.index("5 runs of tests/a.py tests/b.py: failed, so often:") :]
    assert [line.split(None, 1) for line in failed] == [
        ["1", "tests/a.py::test_b[x - y]"],
        ["1", "(ended early) Fatal"],
    ]
    assert totals == "7 passed, 1 failed, 0 skipped"


def test_flaky_names_nothing_where_nothing_failed(tmp_path):
    status, printed = check_with(tmp_path, NOTING.format(diary=tmp_path / "diary", status=0), "flaky", "3")
    assert status == 0
    assert printed[-2].startswith("3 runs of tests/cli ")
    assert printed[-2].endswith(": nothing failed")


BOUNDED = """
build-system = {requires = []}
[project]
name = "all"
dependencies = []
optional-dependencies.dev = ["all[more]", "pytest>=9.0"]
"""


def test_a_dependency_without_a_lower_bound_is_named(tmp_path):
    bounds = [sys.executable, ROOT / ".ci/lower-bounds"]
    printed = subprocess.run(bounds, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    assert "redis[hiredis]==" in printed
    assert "purgatory-async" not in printed
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(
        re.sub(r'"structlog>=[^"]*"', '"structlog"', text), encoding="utf-8"
    )
    ended = subprocess.run(bounds, cwd=tmp_path, check=False, stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 1
    assert ended.stderr == "'structlog' must have a lower bound, as structlog>=1.0\n"


def test_the_lower_bounds_lane_refuses_another_version(tmp_path):
    write_program(tmp_path / "pyproject.toml", BOUNDED)
    exact = [sys.executable, ROOT / ".ci/lower-bounds", "--installed"]
    ended = subprocess.run(exact, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert ended.returncode == 1
    assert ended.stderr == f"pytest must be at its lower bound 9.0, got {pytest.__version__}\n"
    write_program(tmp_path / "pyproject.toml", BOUNDED.replace(">=9.0", f">={pytest.__version__}.0"))
    ended = subprocess.run(exact, cwd=tmp_path, check=True, capture_output=True, text=True)
    first, others = ended.stdout.splitlines()
    assert first == f"1 direct dependencies are at their lower bounds: pytest=={pytest.__version__}.0"
    assert ", pluggy " in others


def test_the_core_is_built_once_before_the_tests_run(tmp_path):
    status, diary = run_check(tmp_path, "tests", "slow", ci=True)
    assert status == 0
    assert diary[0] == " purgatory_async/native/build.py"
    assert [line.split()[:2] for line in diary[1:]] == [["-m", "pytest"]] * 2


def test_the_pure_lane_runs_the_reference(tmp_path):
    status, diary = run_check(tmp_path, "pure")
    assert status == 0
    tests, *measured = diary
    assert tests.startswith("1 -m coverage run -m pytest ")
    assert " tests/timing tests/core " in tests
    assert [line.split()[:4] for line in measured] == [
        ["1", "-m", "coverage", verb] for verb in ("combine", "report")
    ]


@pytest.mark.parametrize("ci", [False, True])
def test_a_core_that_cannot_be_built_is_an_error_only_in_ci(tmp_path, ci):
    status, diary = run_check(tmp_path, "tests", build=1, ci=ci)
    assert status == (1 if ci else 0)
    assert len(diary) == (1 if ci else 2)


@pytest.mark.parametrize("ci", [False, True])
def test_kafka_clients_not_installed_are_an_error_only_in_ci(tmp_path, ci):
    write_program(tmp_path / ".ci/kafka-clients", "#!/bin/sh\nexit 1\n")
    status, diary = run_check(tmp_path, "served", ci=ci)
    assert status == (1 if ci else 0)
    assert any(" -m pytest " in line for line in diary) is not ci


# The client in Java is left out: in place of pip stands a program that always fails.
@pytest.mark.parametrize(("answers", "status"), [(True, 1), (False, 0)])
def test_a_kafka_client_is_left_out_without_its_registry(tmp_path, answers, status):
    npm = f'#!/bin/sh\n[ "$1" = ping ] && exit {0 if answers else 1}\nexit 1\n'
    write_program(tmp_path / "path/npm", npm)
    write_program(tmp_path / ".venv/bin/python", "#!/bin/sh\nexit 1\n")
    script = tmp_path / ".ci/kafka-clients"
    write_program(script, (ROOT / ".ci/kafka-clients").read_text(encoding="utf-8"))
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}/path:{os.environ['PATH']}",
        "XDG_CACHE_HOME": f"{tmp_path}/cache",
    }
    ended = subprocess.run(
        ["bash", script], env=environment, check=False, timeout=PATIENCE_S, stdout=subprocess.PIPE, text=True
    )
    assert ended.returncode == status
    installed = Path(ended.stdout.strip())
    assert installed.is_relative_to(tmp_path / "cache")
    assert not (installed / "node").exists()


def test_the_pure_lanes_name_tests_that_exist():
    declared = next(
        line for line in (ROOT / ".ci/check").read_text(encoding="utf-8").splitlines() if "EITHER=" in line
    )
    listed = ["bash", "-c", f"{declared}; printf '%s\\n' \"${{EITHER[@]}}\""]
    paths = subprocess.run(listed, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    assert len(paths) > 5
    assert not [path for path in paths if not (ROOT / path).exists()]
