"""Importing the module loads no framework, and needs none."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent

FRAMEWORKS = ("aiohttp", "fastapi", "starlette", "uvicorn", "uvloop", "httptools", "msgspec")

# Every import of a framework fails, as if none were installed.
SCRIPT = f"""
import sys
for name in {FRAMEWORKS!r}:
    sys.modules[name] = None
import purgatory_async.web as web
print(*sorted(web.__all__))
"""


def test_it_needs_no_framework():
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, check=False, capture_output=True, text=True
    )
    names = {f"{way}_{kind}" for way in ("aiohttp", "asgi", "starlette") for kind in ("events", "poll")}
    assert set(run.stdout.split()) == names, run.stderr


def test_it_brings_in_no_framework():
    script = "import sys, purgatory_async.web; print(*{name.partition('.')[0] for name in sys.modules})"
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, check=False, capture_output=True, text=True
    )
    loaded = set(run.stdout.split())
    assert "purgatory_async" in loaded, run.stderr
    assert loaded.isdisjoint(FRAMEWORKS)
