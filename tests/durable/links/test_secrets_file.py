"""The file of the secrets that sign links: its format, and how a bad one is refused without showing it."""

import pytest

from purgatory_async.durable.links.link import Link, Signer, log_name
from purgatory_async.durable.links.secrets_file import MAX_FILE, parse_secrets, read_secrets

ONE = Link(log_name("epoch"), 7, (0,))
SECRETS = [b"%d-ecret0123456789abcdef0123456789" % number for number in range(5)]


def write(path, text=SECRETS[0], mode=0o600):
    path.write_bytes(text)
    path.chmod(mode)
    return path


def refusal(text):
    with pytest.raises(ValueError, match=r"^/etc/secrets ") as refused:
        parse_secrets(text, "/etc/secrets")
    message = str(refused.value)
    assert "ecret0123456789" not in message
    assert "\n" not in message
    return message


@pytest.mark.parametrize("count", range(1, 5))
def test_each_line_is_a_secret_and_the_first_signs(count):
    signer = parse_secrets(b"\n".join(SECRETS[:count]), "secrets")
    assert signer.sign(ONE) == Signer(SECRETS[:1]).sign(ONE)
    for secret in SECRETS[:count]:
        assert signer.open(Signer([secret]).sign(ONE).encode()) == ONE
    assert signer.open(Signer(SECRETS[4:]).sign(ONE).encode()) is None


def test_blank_lines_and_the_space_around_secrets_are_ignored():
    signer = parse_secrets(b"\r\n \t\n\t%s \r\n\n%s" % (SECRETS[0], SECRETS[1]), "secrets")
    assert repr(signer) == "<Signer 2>"
    assert signer.sign(ONE) == Signer(SECRETS).sign(ONE)


def test_characters_are_counted_and_not_bytes():
    assert repr(parse_secrets("é".encode() * 32, "secrets")) == "<Signer 1>"
    assert "at least 32 characters, got 31" in refusal("é".encode() * 31)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "must have 1 to 4 secrets, got 0"),
        (b"\n \n", "must have 1 to 4 secrets, got 0"),
        (b"\n".join(SECRETS), "must have 1 to 4 secrets, got 5"),
        (SECRETS[0][:31], "line 1 must have at least 32 characters, got 31"),
        (b"%s\n\nshort" % SECRETS[0], "line 3 must have at least 32 characters, got 5"),
        (b"%s\n%s\n %s" % (SECRETS[0], SECRETS[1], SECRETS[0]), "line 3 repeats the secret of line 1"),
        (b"\xef\xbb\xbf" + SECRETS[0], "line 1 must have only printable characters"),
        (b"\xff" + SECRETS[0], "line 1 must have only printable characters"),
        (SECRETS[0] + b"\0", "line 1 must have only printable characters"),
        (SECRETS[0].decode().encode("utf-16"), "line 1 must have only printable characters"),
    ],
)
def test_a_mistake_is_refused_without_showing_the_secret(text, reason):
    assert reason in refusal(text)


def test_a_file_is_read(tmp_path):
    assert read_secrets(write(tmp_path / "secrets")).sign(ONE) == Signer(SECRETS).sign(ONE)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_file_that_others_may_use_is_refused(tmp_path, mode):
    path = write(tmp_path / "secrets", mode=mode)
    with pytest.raises(ValueError, match=f"is open to other users .mode {mode:04o}.: chmod 600 it"):
        read_secrets(path)


def test_a_missing_and_an_endless_file_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"cannot read .*: No such file or directory"):
        read_secrets(tmp_path / "secrets")
    with pytest.raises(ValueError, match=f"must have at most {MAX_FILE} bytes, got more"):
        read_secrets(write(tmp_path / "secrets", SECRETS[0] * 4096))
