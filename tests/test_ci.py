"""The scripts that check the project: what CI runs first, and what a stopped run leaves behind."""

import os
import shutil
import signal
import subprocess
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
    write_program(path / "apt-get", "#!/bin/sh\n")
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
    diary, check = tmp_path / "diary", tmp_path / ".ci/check"
    write_program(tmp_path / ".venv/bin/python", NOTING.format(diary=diary, status=build))
    write_program(check, (ROOT / ".ci/check").read_text(encoding="utf-8"))
    write_program(tmp_path / "purgatory_async/native/build.py", "")
    environment = {**os.environ, "CI": str(ci).lower()}
    environment.pop("PURGATORY_ASYNC_PURE", None)
    ended = subprocess.run(["bash", check, *steps], env=environment, check=False, timeout=PATIENCE_S)
    return ended.returncode, diary.read_text(encoding="utf-8").splitlines()


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
    assert " tests/timing tests/timer " in tests
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
    assert len(diary) == (1 if ci else 2)


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
    assert len(paths) > 10
    assert not [path for path in paths if not (ROOT / path).exists()]
