"""`base_path`: where the service is, as its clients see it behind a proxy."""

import pytest

from purgatory_async.service.settings.settings import Settings, SettingsError, resolve

BASES = ["/x", "/team.a/purgatory", "/x/"]


@pytest.mark.asyncio
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("mount", ["", "/app"])
@pytest.mark.parametrize("kept", [True, False], ids=["path kept", "path stripped"])
async def test_every_answer_leads_below_the_base_path(make_client, base, mount, kept):
    client = make_client(root_path=mount, base_path=base)
    given, base = (base.rstrip("/") if kept else ""), mount + base.rstrip("/")
    assert (await client.request("GET", f"{given}/healthz")).status == 200
    for path in ("/", "/ui"):
        assert (await client.request("GET", given + path)).headers["location"] == f"{base}/ui/"
    assert (await client.request("GET", f"{given}/ui/")).status == 200
    made = await client.request("POST", f"{given}/v1/operations", {"keys": ["a/b"], "id": "op"})
    assert made.headers["location"] == f"{base}/v1/operations/op"
    assert made.headers["x-purgatory-position"] == "1"
    signalled = await client.request("POST", f"{given}/v1/keys/a%2Fb/signal", {})
    assert signalled.json["completed"] == 1
    document = (await client.request("GET", f"{given}/openapi.json")).json
    assert document["servers"] == [{"url": base}]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "path", ["/xhealthz", "/x/x/healthz", "/X/healthz", "//x/healthz", "/x//healthz", "/x%2Fhealthz"]
)
async def test_what_only_resembles_the_base_path_is_not_found(make_client, path):
    reply = await make_client(base_path="/x").request("GET", path)
    assert (reply.status, reply.slug) == (404, "not-found")


@pytest.mark.asyncio
async def test_the_base_path_alone_leads_to_the_page(make_client):
    reply = await make_client(base_path="/x").request("GET", "/x")
    assert (reply.status, reply.headers["location"]) == (308, "/x/ui/")


@pytest.mark.parametrize("base", ["", "/"])
def test_no_base_path_is_none(base):
    assert Settings(base_path=base).base_path == ""


@pytest.mark.parametrize(
    "base",
    [
        "x",
        "/x//y",
        "//x",
        "/../x",
        "/x/.",
        "/x y",
        "/x?y",
        "/x%2Fy",
        "/é",
        "/x\n",
        "http://a/x",
        "/" + "x" * 255,
        7,
    ],
)
def test_another_base_path_is_refused_in_a_sentence(base):
    with pytest.raises(
        SettingsError, match=r"base_path in the configuration file: must be a path like /purgatory"
    ):
        resolve(file={"base_path": base}, environment={}, flags={})
