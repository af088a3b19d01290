"""README's example under the test client, which runs each request on a loop of its own."""

from starlette.testclient import TestClient

from tests.pages import fenced_blocks
from tests.test_readme import README


def test_the_example_goes_with_a_loop_for_each_request() -> None:
    (example,) = (block.text for block in fenced_blocks(README) if "app = FastAPI()" in block.text)
    names: dict[str, object] = {}
    exec(example, names)
    client = TestClient(names["app"])
    for build in ("77", "78"):
        assert client.get(f"/builds/{build}?wait=1ms").status_code == 204
        assert client.post(f"/builds/{build}", json="green").json() == {"woken": 0}
        assert client.get(f"/builds/{build}").json() == {"build": build, "report": "green"}
    with client:
        assert client.get("/builds/79?wait=1ms").status_code == 204
    assert client.post("/builds/79", json="green").status_code == 200
