"""Where the programs' clients are installed, and how each is started."""

import os
import shutil
import subprocess
import tempfile
import zlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

__all__ = ["JAVA", "KAFKAJS", "PROGRAMS", "command", "environment", "missing"]

KAFKAJS: Final = "kafkajs"
JAVA: Final = "java"
PROGRAMS: Final = (KAFKAJS, JAVA)

_HERE: Final = Path(__file__).parent
_NEEDED: Final = {KAFKAJS: ("node", "node/node_modules/kafkajs"), JAVA: ("javac", "java")}
# A short life on few cores: no second compiler, and one thread that collects garbage.
_JAVA: Final = ("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def _installed() -> Path:
    """The directory that ``.ci/kafka-clients`` prints."""
    return Path(os.environ.get("KAFKA_CLIENTS", "/nonexistent"))


def missing(client: str) -> str | None:
    """Return what a client lacks and how to get it; None if it can be started."""
    tool, directory = _NEEDED[client]
    if shutil.which(tool) is None:
        return f"{client} needs {tool}, which is not installed"
    if not (_installed() / directory).is_dir():
        return f"{client} is not installed; run: export KAFKA_CLIENTS=$(.ci/kafka-clients)"
    return None


def command(client: str) -> list[str]:
    """Return what starts a program, without its verb. The first for Java compiles it, in a second or two."""
    if client == KAFKAJS:
        return ["node", str(_HERE / "kafkajs.js")]
    return [*_JAVA, "-cp", f"{_classes()}:{_jars()}", "JavaClient"]


def environment() -> Mapping[str, str]:
    """Return the environment of a program: this process's, and where Node.js finds its packages."""
    return {**os.environ, "NODE_PATH": str(_installed() / "node" / "node_modules")}


def _jars() -> str:
    return str(_installed() / "java" / "*")


@cache
def _classes() -> Path:
    """The compiled program: kept beside the jars, by its source, for the processes that come after."""
    source = _HERE / "JavaClient.java"
    kept = _installed() / f"classes-{zlib.crc32(source.read_bytes()):08x}"
    if not kept.exists():
        made = Path(tempfile.mkdtemp(dir=_installed()))
        compiler = ("javac", "-proc:none", "-cp", _jars(), "-d", str(made), str(source))
        subprocess.run(compiler, check=True)
        try:
            made.replace(kept)
        except OSError:  # another process was first
            shutil.rmtree(made)
    return kept
