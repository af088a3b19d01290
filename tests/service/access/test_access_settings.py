"""The settings of access: where tokens and hosts come from, and what may be listened on without them."""

import re
from pathlib import Path

import pytest

from purgatory_async.cli import commands
from purgatory_async.service.process import server
from purgatory_async.service.settings.settings import Settings, SettingsError, read_file, resolve


@pytest.fixture
def started(monkeypatch):
    """The settings that services would have been started with."""
    caught = []
    monkeypatch.setattr(commands, "serve", lambda settings, announce: caught.append(settings))
    return caught


@pytest.fixture
def never_started(monkeypatch):
    """Fails instead of serving: a test whose start is not refused would run for ever."""

    async def run(*_):
        raise AssertionError("the service was started")

    monkeypatch.setattr(server.Server, "run", run)


def flags(**given):
    return resolve(file={}, environment={}, flags=given)


def test_by_default_there_are_no_tokens_and_no_extra_hosts():
    assert (Settings().tokens, Settings().allow_host) == (None, ())


def test_the_tokens_file_is_a_path_from_any_source():
    path = Path("/etc/purgatory/tokens")
    assert resolve(file={"tokens": str(path)}, environment={}, flags={}).tokens == path
    assert resolve(file={}, environment={"PURGATORY_TOKENS": str(path)}, flags={}).tokens == path
    assert flags(tokens=str(path)).tokens == Settings(tokens=path).tokens == path


@pytest.mark.parametrize("value", ["", "a\0b", 7, True, ["a"]])
def test_what_is_no_path_is_refused_with_name_value_and_source(value):
    with pytest.raises(SettingsError) as refused:
        resolve(file={"tokens": value}, environment={}, flags={})
    assert (
        str(refused.value) == f"tokens in the configuration file: must be the path of a file, got {value!r}"
    )


@pytest.mark.parametrize(
    ("value", "hosts"),
    [
        ("", ()),
        ([], ()),
        ("a.org", ("a.org",)),
        ("A.org., b.org,[::1],2001:DB8:0::1", ("a.org", "b.org", "::1", "2001:db8::1")),
        (["a.org", "B.org"], ("a.org", "b.org")),
        (("192.0.2.1", "::ffff:192.0.2.2"), ("192.0.2.1", "192.0.2.2")),
    ],
)
def test_hosts_are_a_list_or_comma_text_in_one_spelling(value, hosts):
    assert Settings(allow_host=value).allow_host == hosts
    assert Settings(allow_host=hosts).allow_host == hosts


@pytest.mark.parametrize(
    "value",
    [
        *(
            "a.org:80",
            "http://a.org",
            "a.org/",
            "*",
            "*.a.org",
            "a.org,,b.org",
            ",",
            " ",
            "a b",
            "m\u00fcnchen.de",
        ),
        *(
            "user@a.org",
            "[a.org]",
            "[::1]:80",
            ["a.org", ""],
            ["a.org", 7],
            ["a.org,b.org"],
            [None],
            7,
            True,
            {},
        ),
    ],
)
def test_what_is_no_host_is_refused_with_name_value_and_source(value):
    with pytest.raises(SettingsError) as refused:
        resolve(file={"allow_host": value}, environment={}, flags={})
    message = str(refused.value)
    assert message.startswith("allow_host in the configuration file: must be host names or addresses")
    assert message.endswith(f"got {value!r}")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "holds.example.org", "::ffff:192.0.2.1"])
def test_a_reachable_address_needs_tokens_or_insecure(host):
    with pytest.raises(
        SettingsError, match=f"tokens, got {re.escape(host)}; give --tokens FILE or --insecure"
    ):
        flags(host=host)
    assert flags(host=host, tokens="/etc/tokens").host == host
    assert flags(host=host, insecure=True).host == host
    with pytest.raises(SettingsError, match="must be a loopback address without tokens"):
        flags(host=host, allow_host="a.org")  # which names are ours protects from rebinding, and nothing else


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.8.8.8", "::1", "localhost", "LOCALHOST", "::ffff:127.0.0.1"]
)
def test_loopback_needs_neither(host):
    assert flags(host=host).host == host


def test_the_later_source_wins_with_its_whole_list():
    settings = resolve(
        file={"allow_host": ["a.org", "b.org"]}, environment={"PURGATORY_ALLOW_HOST": "c.org,d.org"}, flags={}
    )
    assert settings.allow_host == ("c.org", "d.org")


def test_a_list_stands_in_toml(tmp_path):
    path = tmp_path / "purgatory.toml"
    path.write_text('tokens = "/etc/tokens"\nallow_host = ["a.org", "b.org"]')
    settings = resolve(file=read_file(path), environment={}, flags={})
    assert (settings.tokens, settings.allow_host) == (Path("/etc/tokens"), ("a.org", "b.org"))


def test_the_flag_may_be_repeated_and_is_absent_by_default(started, monkeypatch):
    commands.run(["serve", "--allow-host", "a.org", "--allow-host", "B.org", "--tokens", "/etc/tokens"])
    monkeypatch.setenv("PURGATORY_ALLOW_HOST", "d.org")
    monkeypatch.setenv("PURGATORY_TOKENS", "/run/tokens")
    commands.run(["serve"])
    [given, absent] = started
    assert (given.tokens, given.allow_host) == (Path("/etc/tokens"), ("a.org", "b.org"))
    assert (absent.tokens, absent.allow_host) == (Path("/run/tokens"), ("d.org",))


def test_the_flags_have_their_help(capsys):
    assert commands.run(["serve", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "--tokens VALUE" in text
    assert "--allow-host VALUE" in text
    assert "[default: none]" in text
    assert "[default: ()]" not in text


@pytest.mark.usefixtures("never_started")
@pytest.mark.parametrize(
    ("content", "mode", "reason"),
    [
        pytest.param(None, 0, "cannot read {}: No such file or directory", id="not there"),
        pytest.param("", 0o600, "{} must have 1 to 256 tokens, got 0", id="empty"),
        pytest.param("0123456789abcdef root", 0o600, "{} line 1: each scope must be", id="unknown scope"),
        pytest.param("\n0123456789 read", 0o600, "{} line 2: the token must have 16", id="too short"),
        pytest.param("0123456789abcdef! read", 0o600, "{} line 1: the token must have only", id="grammar"),
        pytest.param(
            "0123456789abcdef read\n" * 2, 0o600, "{} line 2: repeats the token of line 1", id="doubled"
        ),
        pytest.param(
            "0123456789abcdef read", 0o644, "{} is open to other users (mode 0644)", id="open to others"
        ),
    ],
)
def test_an_unusable_tokens_file_exits_2_with_one_sentence(capsys, tmp_path, content, mode, reason):
    path = tmp_path / "tokens"
    if content is not None:
        path.write_text(content)
        path.chmod(mode)
    assert commands.run(["serve", "--port", "0", "--tokens", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    [line] = err.splitlines()
    assert line.startswith(f"purgatory: tokens: {reason.format(path)}")
    assert "0123456789" not in line.replace(str(path), "")
