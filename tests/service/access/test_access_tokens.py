"""The tokens file: its format, how a bad one is refused, and that no refusal repeats a token."""

import hmac
import os
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_async.durable.grants import Permission
from purgatory_async.service.access import tokens
from purgatory_async.service.access.tokens import MAX_FILE, MAX_TOKENS, parse_tokens, read_tokens
from purgatory_async.service.settings.settings import SettingsError

READ, WAIT, SIGNAL, ANSWER, ADMIN = Permission
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/"
TOKENS = st.text(ALPHABET, min_size=16, max_size=1024)
SCOPES = st.lists(st.sampled_from(Permission), min_size=1, max_size=6)


def refusal(text, name="/etc/tokens"):
    with pytest.raises(SettingsError) as refused:
        parse_tokens(text, name)
    message = str(refused.value)
    assert message.startswith(f"tokens: {name} ")
    assert message.isascii()
    assert "\n" not in message
    return message


def write(path, text=b"0123456789abcdef read\n", mode=0o600):
    path.write_bytes(text)
    path.chmod(mode)
    return path


def test_a_line_is_a_token_and_its_scopes():
    known = parse_tokens(b"reader-0123456789 read\nworker-0123456789 wait,signal\n", "tokens")
    assert known.grant_of(b"reader-0123456789").scopes == {READ}
    assert known.grant_of(b"worker-0123456789").scopes == {WAIT, SIGNAL}
    assert known.grant_of(b"nobody-0123456789") is None


def test_admin_stands_for_all_scopes():
    known = parse_tokens(b"0123456789abcdef admin", "tokens")
    assert known.grant_of(b"0123456789abcdef").scopes == {READ, WAIT, SIGNAL, ANSWER, ADMIN}


def test_comments_blank_lines_tabs_and_crlf_are_ignored():
    text = b"# the farm\r\n\r\n \t \n\t0123456789abcdef \t read\t# till M\xc3\xa4rz\r\n  # 0123456789ABCDEF admin\n"
    known = parse_tokens(text, "tokens")
    assert repr(known) == "<Tokens 1>"
    assert known.grant_of(b"0123456789abcdef").scopes == {READ}


def test_a_hash_without_a_space_before_it_begins_no_comment():
    assert "must have only A-Z" in refusal(b"0123456789abcdef#x read")


@pytest.mark.parametrize("token", [b"A-._~+/0123456789", b"c2VjcmV0c2VjcmV0cw==", b"x" * 16, b"y" * 1024])
def test_a_token_is_what_rfc_6750_lets_stand_behind_bearer(token):
    assert parse_tokens(token + b" read", "tokens").grant_of(token).scopes == {READ}


def test_a_byte_order_mark_is_named():
    assert "starts with a BOM" in refusal(b"\xef\xbb\xbf0123456789abcdef read\n")


MISTAKES = [
    pytest.param(b"0123456789abcdef", "got 1 word", id="no scope"),
    pytest.param(b"0123456789abcdef read, wait", "each scope must be", id="a space behind the comma"),
    pytest.param(b"0123456789abcdef\x0bread", "got 1 word", id="a vertical tab is no space"),
    pytest.param(b"0123456789abcdef\xc2\xa0read", "got 1 word", id="nor is one that does not break"),
    pytest.param(
        b"0123456789abcdef root", "each scope must be one of read, wait, signal, answer, admin", id="unknown"
    ),
    pytest.param(b"0123456789abcdef Read", "each scope must be", id="another case"),
    pytest.param(b"0123456789abcdef read,", "each scope must be", id="an empty scope"),
    pytest.param(b"0123456789abcdef r\xc3\xa9ad", "each scope must be", id="a scope outside ASCII"),
    pytest.param(b"0123456789abcde read", "16 to 1024 characters, got 15", id="too short"),
    pytest.param(b"%s read" % (b"x" * 1025), "16 to 1024 characters, got 1025", id="too long"),
    *(
        pytest.param(b"0123456789abcdef%s read" % wrong, "must have only A-Z", id=repr(wrong))
        for wrong in (
            b"=x",
            b"!",
            b'"',
            b",",
            b":",
            b"\\",
            b"\0",
            b"\x7f",
            b"\xff",
            b"\xc3\xa9",
            b"%",
            b"*",
            b"@",
        )
    ),
    pytest.param(b"=0123456789abcdef read", "must have only A-Z", id="= at the start"),
    pytest.param(b"\xef\xbb\xbf0123456789abcdef read", "must have only A-Z", id="a byte order mark"),
]


@pytest.mark.parametrize(("line", "reason"), MISTAKES)
def test_a_mistake_shows_file_and_line_but_not_the_text(line, reason):
    message = refusal(b"# first\nabcdefghijklmnop admin\n\n%s\n" % line)
    assert message.startswith("tokens: /etc/tokens line 4: ")
    assert reason in message
    assert "0123456789" not in message
    assert "abcdefgh" not in message


def test_a_token_in_place_of_a_scope_is_not_shown_either():
    assert "hunter2" not in refusal(b"the-build-farm-of-ours hunter2hunter2hunter2")


def test_a_doubled_token_is_refused_with_both_lines():
    message = refusal(b"0123456789abcdef read\n\n0123456789abcdef admin\n")
    assert message == "tokens: /etc/tokens line 3: repeats the token of line 1"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\n\n", id="empty lines"),
        pytest.param(b"# 0123456789abcdef read\n", id="a comment"),
        pytest.param(b"# till March\r0123456789abcdef read\n", id="a carriage return ends no comment"),
    ],
)
def test_a_file_without_a_token_is_refused(text):
    assert "must have 1 to 256 tokens, got 0" in refusal(text)


def test_the_token_count_is_bounded():
    lines = [b"token-%011d read\n" % number for number in range(MAX_TOKENS + 1)]
    assert repr(parse_tokens(b"".join(lines[1:]), "tokens")) == "<Tokens 256>"
    assert "got 257" in refusal(b"".join(lines))


@given(
    st.dictionaries(TOKENS, SCOPES, min_size=1, max_size=5), st.sampled_from(["\n", "\r\n"]), st.text(" \t")
)
def test_what_is_written_is_what_is_read(grants, line_end, space):
    lines = [f"{space}{token} {space}{','.join(scopes)}{space}" for token, scopes in grants.items()]
    known = parse_tokens(line_end.join(lines).encode(), "tokens")
    for token, scopes in grants.items():
        assert known.grant_of(token.encode()).scopes == (set(Permission) if ADMIN in scopes else set(scopes))


LINES = st.one_of(
    st.binary(max_size=40),
    st.tuples(TOKENS, SCOPES.map(",".join)).map(lambda parts: " ".join(parts).encode()),
    st.tuples(st.binary(max_size=20), st.binary(max_size=20)).map(b"0123456789abcdef ".join),
)


@given(st.lists(LINES, max_size=8).map(b"\n".join))
def test_any_bytes_parse_or_fail_without_showing_a_token(text):
    try:
        known = parse_tokens(text, "/etc/tokens")
    except SettingsError as error:
        message = str(error)
        assert "\n" not in message
        assert message.isascii()
        for word in text.split():
            shown = word.decode("latin-1")
            assert len(word) < 16 or shown in "tokens: /etc/tokens" or shown not in message
    else:
        assert len(text) >= 16 + len(" read")
        assert known.grant_of(b"") is known.grant_of(text) is None


@pytest.mark.parametrize("wanted", [b"token-00000000000", b"token-00000000009", b"nobody", b""])
def test_all_digests_are_compared_whichever_token_is_sent(monkeypatch, wanted):
    known = parse_tokens(b"".join(b"token-%011d read\n" % number for number in range(10)), "tokens")
    compared = []

    def compare_digest(one, other):
        compared.append((len(one), len(other)))
        return hmac.compare_digest(one, other)

    monkeypatch.setattr(tokens, "hmac", SimpleNamespace(compare_digest=compare_digest))
    assert (known.grant_of(wanted) is None) is not wanted.startswith(b"token")
    assert compared == [(32, 32)] * 10


def test_the_tokens_show_nothing_of_themselves():
    known = parse_tokens(b"0123456789abcdef read", "tokens")
    assert repr(known) == str(known) == "<Tokens 1>"
    assert b"0123456789abcdef" not in repr(vars(known)).encode()


def test_a_file_is_read(tmp_path):
    assert read_tokens(write(tmp_path / "tokens")).grant_of(b"0123456789abcdef").scopes == {READ}


def test_a_link_is_followed_to_its_file(tmp_path):
    (tmp_path / "link").symlink_to(write(tmp_path / "tokens"))
    assert repr(read_tokens(tmp_path / "link")) == "<Tokens 1>"
    (tmp_path / "tokens").chmod(0o644)
    with pytest.raises(SettingsError, match="is open to other users"):
        read_tokens(tmp_path / "link")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o644, 0o666, 0o777])
def test_an_owned_file_open_to_others_is_refused(tmp_path, mode):
    path = write(tmp_path / "tokens", mode=mode)
    with pytest.raises(SettingsError) as refused:
        read_tokens(path)
    assert str(refused.value) == f"tokens: {path} is open to other users (mode {mode:04o}): chmod 600 it"


@pytest.mark.parametrize("mode", [0o400, 0o600, 0o700])
def test_a_file_that_only_its_owner_may_use_is_fine(tmp_path, mode):
    assert repr(read_tokens(write(tmp_path / "tokens", mode=mode))) == "<Tokens 1>"


def test_a_file_of_another_user_is_accepted(tmp_path, monkeypatch):
    path = write(tmp_path / "tokens", mode=0o444)
    owner = path.stat().st_uid
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    assert repr(read_tokens(path)) == "<Tokens 1>"


# systemd lets the service's user read root's file by an ACL, which shows as group bits, or gives the file away.
@pytest.mark.parametrize(("mode", "owned"), [(0o440, False), (0o400, True)], ids=["ACL", "given away"])
def test_a_credential_that_systemd_made_is_read(tmp_path, monkeypatch, mode, owned):
    path = write(tmp_path / "tokens", mode=mode)
    owner = path.stat().st_uid
    monkeypatch.setattr(os, "getuid", lambda: owner if owned else owner + 1)
    assert repr(read_tokens(path)) == "<Tokens 1>"


def test_a_missing_file_is_refused_with_path_and_reason(tmp_path):
    with pytest.raises(SettingsError) as refused:
        read_tokens(tmp_path / "tokens")
    assert str(refused.value) == f"tokens: cannot read {tmp_path / 'tokens'}: No such file or directory"


def test_an_unreadable_file_is_refused_with_path_and_reason(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(SettingsError, match=r"^tokens: cannot read .*tokens: Permission denied$"):
        read_tokens(tmp_path / "tokens")


def make_fifo(path):
    os.mkfifo(path, 0o600)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        pytest.param(Path.mkdir, "cannot read .*: Is a directory", id="directory"),
        pytest.param(make_fifo, "a regular file, got prw-------", id="pipe without a writer"),
        pytest.param(lambda path: path.symlink_to("/dev/zero"), "a regular file, got crw", id="device"),
        pytest.param(
            lambda path: path.symlink_to(path), "cannot read .*: Too many levels", id="loop of links"
        ),
    ],
)
def test_what_is_no_regular_file_is_refused_at_once(tmp_path, make, reason):
    make(tmp_path / "tokens")
    with pytest.raises(SettingsError, match=reason):
        read_tokens(tmp_path / "tokens")


def test_a_refusal_leaves_no_file_open(tmp_path):
    fifo = tmp_path / "fifo"
    make_fifo(fifo)
    before = len(list(Path("/dev/fd").iterdir()))
    for path in (
        tmp_path,
        fifo,
        write(tmp_path / "open", mode=0o644),
        write(tmp_path / "bad", b"short read"),
    ):
        with pytest.raises(SettingsError):
            read_tokens(path)
    assert len(list(Path("/dev/fd").iterdir())) == before


def test_a_file_without_an_end_is_not_read_to_its_end(tmp_path):
    path = write(tmp_path / "tokens")
    os.truncate(path, MAX_FILE + 1)
    assert stat.S_ISREG(path.stat().st_mode)
    with pytest.raises(SettingsError, match=f"must have at most {MAX_FILE} bytes, got more"):
        read_tokens(path)
