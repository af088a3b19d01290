"""Settings: which source wins, and how a bad value is refused."""

import pytest

from purgatory_async.service.settings.settings import Settings, SettingsError, read_file, resolve


def resolved(file=None, environment=None, flags=None):
    return resolve(file=file or {}, environment=environment or {}, flags=flags or {})


def test_the_later_source_wins():
    file = {"max_wait": "1s", "retention": 2, "port": 1}
    environment = {"PURGATORY_MAX_WAIT": "3s", "PURGATORY_RETENTION": "4s", "HOME": "/"}
    settings = resolved(file, environment, {"max_wait": "5s"})
    assert (settings.max_wait, settings.retention, settings.port) == (5.0, 4.0, 1)


def test_the_defaults_are_those_of_the_contract():
    settings = resolved()
    assert settings == Settings()
    assert (settings.host, settings.max_wait, settings.jitter) == ("127.0.0.1", 55.0, 0.0625)
    assert (settings.retention, settings.drain_delay) == (60.0, 0.0)
    assert (settings.max_bytes, settings.max_unsent, settings.max_body) == (256 << 20, 64 << 20, 1 << 20)
    assert settings.send_timeout == 30.0


@pytest.mark.parametrize(
    ("text", "size"), [("7", 7), ("7B", 7), ("64KiB", 65_536), ("3MiB", 3 << 20), ("1GiB", 1 << 30), (9, 9)]
)
def test_a_size_has_units_of_1024(text, size):
    assert resolved(file={"max_bytes": text}).max_bytes == size


@pytest.mark.parametrize(
    ("source", "place"),
    [
        pytest.param({"file": {"max_wiat": 1}}, "the configuration file", id="file"),
        pytest.param({"environment": {"PURGATORY_MAX_WIAT": "1"}}, "the environment", id="environment"),
        pytest.param({"flags": {"max_wiat": "1"}}, "the command line", id="flags"),
    ],
)
def test_an_unknown_setting_is_refused_by_name_and_source(source, place):
    with pytest.raises(SettingsError, match=f"unknown setting 'max_wiat' in {place}; known are host, port"):
        resolved(**source)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_wait", "5w"),
        ("max_wait", "0s"),
        ("max_wait", -1),
        ("max_wait", True),
        ("max_wait", float("nan")),
        ("max_wait", "999999999m"),
        ("retention", "999999999m"),
        ("jitter", "2"),
        ("jitter", "nan"),
        ("jitter", []),
        ("max_bytes", "256MB"),
        ("max_bytes", "256 MiB"),
        ("max_bytes", "0B"),
        ("max_bytes", 1.5),
        ("max_unsent", True),
        ("max_unsent", "1MiB\n"),
        ("max_body", "1025KiB"),
        ("send_timeout", "0s"),
        ("journal_keep", "0d"),
        ("journal_keep", "soon"),
        ("journal_max_bytes", "127MiB"),
        ("max_pending", 0),
        ("max_pending", "1_0"),
        ("max_pending", 1.5),
        ("port", "65536"),
        ("port", "-1"),
        ("host", ""),
        ("host", 7),
        ("insecure", "maybe"),
    ],
)
def test_a_bad_value_is_refused_with_name_value_and_source(name, value):
    with pytest.raises(SettingsError) as refusal:
        resolved(flags={name: value})
    message = str(refusal.value)
    assert message.startswith(f"{name} in the command line: ")
    assert repr(value) in message
    assert "\n" not in message


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_needs_nothing(host):
    assert resolved(flags={"host": host}).host == host


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_an_address_others_can_reach_must_be_asked_for(host):
    with pytest.raises(SettingsError, match=f"loopback address without tokens, got {host};"):
        resolved(flags={"host": host})
    assert resolved(flags={"host": host, "insecure": True}).host == host


@pytest.mark.parametrize(
    ("source", "ways"),
    [
        ({"file": {"host": "::"}}, 'set tokens = "FILE" or insecure = true'),
        (
            {"environment": {"PURGATORY_HOST": "::"}},
            "set PURGATORY_TOKENS=FILE or PURGATORY_INSECURE=true",
        ),
        ({"flags": {"host": "::"}}, "give --tokens FILE or --insecure"),
    ],
    ids=["file", "environment", "flags"],
)
def test_a_bare_address_is_refused_in_the_words_of_its_source(source, ways):
    with pytest.raises(SettingsError) as refusal:
        resolved(**source)
    assert str(refusal.value) == f"host must be a loopback address without tokens, got ::; {ways}"


def test_settings_made_in_python_name_their_own_arguments():
    with pytest.raises(SettingsError, match=r"got ::; give tokens= or insecure=True$"):
        Settings(host="::")


def test_an_unreadable_file_is_refused_by_its_path(tmp_path):
    path = tmp_path / "purgatory.toml"
    with pytest.raises(SettingsError, match=r"purgatory\.toml"):
        read_file(path)
    path.write_text("max_wait = ")
    with pytest.raises(SettingsError, match="is not TOML"):
        read_file(path)
    path.write_bytes(b"\xef\xbb\xbfjitter = 0")
    with pytest.raises(SettingsError, match="starts with a BOM"):
        read_file(path)
    path.write_text('max_wait = "9s"\njitter = 0')
    assert resolved(read_file(path)).max_wait == 9.0
