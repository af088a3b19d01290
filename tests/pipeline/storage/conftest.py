"""An S3 server in a process of its own, and a bucket for each test."""

import io
import os
import secrets
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from pyarrow import fs

from purgatory_async.pipeline.locations import StorePath, parsed
from tests.ports import free_port

PATIENCE_S = 120


def find_server() -> str | None:
    """moto's: the program that the environment names, or that beside this interpreter."""
    return shutil.which(os.environ.get("MOTO_SERVER") or str(Path(sys.executable).with_name("moto_server")))


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory):
    """The address of a server, which ends with the session."""
    program = find_server()
    if program is None:
        pytest.skip("moto_server is not installed: .ci/check spark runs these tests with it")
    port, log = free_port(), tmp_path_factory.mktemp("s3") / "server.log"
    with log.open("wb") as written:
        process = subprocess.Popen(
            [program, "-H", "127.0.0.1", "-p", str(port)], stdout=written, stderr=subprocess.STDOUT
        )
    try:
        wait_for(f"http://127.0.0.1:{port}", process, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def wait_for(address, process, log):
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(address, timeout=5).close()
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError(f"the server does not answer: {log.read_text(errors='replace')[-2000:]}")


@pytest.fixture(scope="session")
def s3_environment(s3_server):
    """What a process needs to know to reach the server."""
    return {
        "AWS_ENDPOINT_URL": s3_server,
        "AWS_ACCESS_KEY_ID": "tests",
        "AWS_SECRET_ACCESS_KEY": "tests",
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@pytest.fixture
def bucket(s3_environment, monkeypatch):
    """A new bucket, reached by this process and those that it starts."""
    for name, value in s3_environment.items():
        monkeypatch.setenv(name, value)
    name = f"bucket-{secrets.token_hex(4)}"
    make = urllib.request.Request(f"{s3_environment['AWS_ENDPOINT_URL']}/{name}", method="PUT")
    urllib.request.urlopen(make, timeout=PATIENCE_S).close()
    return parsed(f"s3a://{name}")


def pytest_collection_modifyitems(items):
    """Mark what needs the server as a Spark test: only the lanes of those install it."""
    for item in items:
        if "s3_server" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


def uploaded(directory: Path, place: StorePath) -> StorePath:
    """Copy the files of a directory to a store."""
    for path in directory.iterdir():
        (place / path.name).put(io.BytesIO(path.read_bytes()))
    return place


def downloaded(place: StorePath) -> dict[str, bytes]:
    """All objects under a place, by the rest of their names."""
    store = fs.S3FileSystem(endpoint_override=os.environ["AWS_ENDPOINT_URL"])
    found = store.get_file_info(fs.FileSelector(place.key, recursive=True, allow_not_found=True))
    return {
        entry.path.removeprefix(f"{place.key}/"): store.open_input_file(entry.path).read()
        for entry in found
        if entry.type == fs.FileType.File
    }
