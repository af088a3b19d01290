"""``/openapi.json`` beside the running service: what schemathesis makes of the one, the other must answer as it says.

By hand, with more cases: ``purgatory serve --port 8765 --max-wait 20ms --retention 2s``, and the command of this test
with a larger ``--max-examples``.
"""

import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests.processes import records

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("schemathesis") is None, reason="schemathesis is not installed"),
]

PATIENCE = 900.0

# Valid data may be refused: JSON Schema cannot express a length in bytes, or that 1.0 is not an integer here.
# A request that is too long is refused before its data is read.
SETTINGS = """
[checks]
positive_data_acceptance.enabled = false
negative_data_rejection.expected-statuses = [
    400, 401, 403, 404, 405, 406, 409, 410, 413, 414, 415, 421, 422, 431, "5xx",
]
"""


def test_every_answer_to_random_requests_is_documented(serve, tmp_path):
    served = serve("--max-wait", "20ms", "--retention", "2s")
    settings = tmp_path / "schemathesis.toml"
    settings.write_text(SETTINGS)
    # The stream never ends, and a drain would end the test.
    left_out = ("--exclude-path", "/v1/events", "--exclude-path", "/v1/admin/drain")
    run = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "--config-file", settings),
            *("run", f"{served.address}/openapi.json", *left_out),
            *("--phases", "examples,coverage,fuzzing", "--max-examples", "10", "--seed", "1"),
            *("--workers", "1", "--no-color"),
        ],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
    code, logged = served.stop()
    assert code == 0
    assert [record for record in records(logged) if record["level"] == "error"] == []
