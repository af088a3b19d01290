"""The settings of links: what a public URL is, and when a file of secrets is needed."""

from pathlib import Path

import pytest

from purgatory_async.service.app import create_app
from purgatory_async.service.process.server import signals_of
from purgatory_async.service.process.supervisor import _plain
from purgatory_async.service.settings.settings import Settings, SettingsError, resolve

STORE = "sqlite:///state.db"
SECRET = "0123456789abcdef0123456789abcdef"


def refusal(**flags):
    with pytest.raises(SettingsError) as refused:
        resolve(file={}, environment={}, flags=flags)
    return str(refused.value)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("https://example.org", "https://example.org"),
        ("HTTPS://Example.ORG.:443/", "https://example.org"),
        ("http://example.org:80", "http://example.org"),
        ("http://example.org:443", "http://example.org:443"),
        ("https://example.org:8443/team.a/purgatory/", "https://example.org:8443/team.a/purgatory"),
        ("http://127.0.0.1:8765", "http://127.0.0.1:8765"),
        ("https://[0:0::1]:99/x", "https://[::1]:99/x"),
    ],
)
def test_a_public_url_has_one_spelling(url, text):
    settings = resolve(file={}, environment={"PURGATORY_PUBLIC_URL": url}, flags={})
    assert str(settings.public_url) == text
    assert str(Settings(**_plain(settings)).public_url) == text


@pytest.mark.parametrize(
    "url",
    [
        *(
            "",
            "example.org",
            "//example.org",
            "ftp://example.org",
            "https://",
            "https:///path",
            "https://a b",
        ),
        *(
            "https://a.org/?x=1",
            "https://a.org/#x",
            "https://a.org:99999",
            "https://é.org",
            "https://a.org\n",
        ),
        *("https://ann@a.org", "https://[::1", 7, True, ["https://a.org"]),
    ],
)
def test_what_is_no_public_url_is_refused_with_its_form(url):
    message = refusal(public_url=url)
    assert message.startswith(
        "public_url in the command line: must be http[s]://HOST[:PORT][/PATH] without a user, a query or a fragment,"
    )
    assert "\n" not in message


def test_a_password_in_a_public_url_is_not_shown():
    assert "hunter2" not in refusal(public_url="https://ann:hunter2@example.org")


@pytest.mark.parametrize("path", ["/a//b", "/../a", "/a%2Fb", "/a b"])
def test_its_path_follows_the_rules_of_base_paths(path):
    assert "must be a path like /purgatory" in refusal(public_url=f"https://example.org{path}")


def test_a_link_secret_needs_a_public_url():
    assert refusal(link_secret="secrets") == (
        "link_secret must be none without public_url, got 'secrets'; give --public-url URL"
    )
    settings = resolve(
        file={"link_secret": "secrets"}, environment={}, flags={"public_url": "https://example.org"}
    )
    assert settings.link_secret == Path("secrets")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_store_needs_a_link_secret_once_there_are_links(workers):
    assert refusal(public_url="https://example.org", store=STORE, workers=workers) == (
        f"link_secret must be a file with public_url and the store {STORE}, got none; give --link-secret FILE"
    )
    Settings(public_url="https://example.org", store=STORE, workers=workers, link_secret="secrets")
    Settings(public_url="https://example.org")


def test_sighup_is_handled_where_there_is_a_file_to_read_again():
    assert len(signals_of(Settings(public_url="https://example.org"))) == 2
    assert len(signals_of(Settings(public_url="https://example.org", link_secret="secrets"))) == 3


@pytest.mark.asyncio
async def test_an_unusable_file_refuses_the_start(tmp_path):
    path = tmp_path / "secrets"
    settings = Settings(public_url="https://example.org", link_secret=path)
    with pytest.raises(SettingsError, match=r"^link_secret: cannot read .*: No such file or directory$"):
        create_app(settings)
    path.write_text(SECRET[:31])
    path.chmod(0o600)
    with pytest.raises(
        SettingsError, match=r"^link_secret: .* line 1 must have at least 32 characters, got 31$"
    ):
        create_app(settings)
    path.write_text(SECRET)
    path.chmod(0o640)
    with pytest.raises(
        SettingsError, match=r"^link_secret: .* is open to other users .mode 0640.: chmod 600 it$"
    ):
        create_app(settings)


@pytest.mark.asyncio
async def test_the_host_of_the_public_url_is_allowed(make_client):
    client = make_client(public_url="https://Holds.Example.org/x", allow_host="other.example.org")
    for host in ("holds.example.org", "holds.example.org:8443", "other.example.org", "localhost"):
        assert (await client.request("GET", "/healthz", headers=[("host", host)])).status == 200
    refused = await client.request("GET", "/healthz", headers=[("host", "example.org")])
    assert refused.slug == "misdirected"
