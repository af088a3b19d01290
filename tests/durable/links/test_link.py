"""The token of a link: what it carries, and that nothing but a secret of ours makes one."""

import base64
import hmac
import random
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_async.durable.links import link
from purgatory_async.durable.links.link import MAX_TOKEN, Link, Signer, log_name, random_signer

FORGED = 10_000
ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
OLD, NEW = b"old-0123456789abcdef0123456789ab", b"new-0123456789abcdef0123456789ab"
NAMES = st.none() | st.text(min_size=1, max_size=32)
LINKS = st.builds(
    Link,
    log=st.binary(min_size=8, max_size=8),
    position=st.integers(1, 2**63 - 1),
    choices=st.sets(st.integers(0, 7), min_size=1).map(lambda found: tuple(sorted(found))),
    by=NAMES,
    via=NAMES,
    expires_us=st.none() | st.integers(1, 2**63 - 1),
)
ONE = Link(
    log_name("5e2d8c41b07f9a36"),
    7,
    (0, 1),
    by="ann@example.org",
    via="orders",
    expires_us=1_800_000_000_000_000,
)


@pytest.fixture
def signer():
    return Signer([OLD])


@pytest.fixture
def token(signer):
    return signer.sign(ONE).encode()


@given(LINKS)
def test_what_is_signed_is_what_is_opened(made):
    signer = random_signer()
    token = signer.sign(made).encode()
    assert signer.open(token) == made
    assert len(token) <= MAX_TOKEN
    assert not set(token) - set(ALPHABET)


def test_the_longest_names_fit():
    longest = ONE._replace(by="b" * 128, via="v" * 64)
    signer = random_signer()
    assert signer.open(signer.sign(longest).encode()) == longest


def test_every_other_character_at_every_place_is_refused(signer, token):
    for place in range(len(token)):
        for other in ALPHABET:
            forged = token[:place] + bytes([other]) + token[place + 1 :]
            assert (signer.open(forged) is None) == (forged != token)


def test_every_cut_and_every_addition_is_refused(signer, token):
    for length in range(len(token)):
        assert signer.open(token[:length]) is None
        assert signer.open(token[length + 1 :]) is None
    for more in (b"=", b"A", b"AAAA", b" ", b"\n", b"%0A", token):
        assert signer.open(token + more) is None
        assert signer.open(more + token) is None


def test_ten_thousand_forged_tokens_open_nothing(signer, token):
    drawn = random.Random(31)
    content = base64.urlsafe_b64decode(token + b"=" * (-len(token) % 4))
    sealed = len(content) - link.SEAL_BYTES
    for number in range(FORGED):
        forged = bytearray(content)
        match number % 4:
            case 0:  # another seal
                forged[sealed:] = drawn.randbytes(link.SEAL_BYTES)
            case 1:  # other content, with the seal of the real one
                for _ in range(drawn.randint(1, 8)):
                    forged[drawn.randrange(sealed)] ^= drawn.randint(1, 255)
            case 2:  # signed by a stranger
                stranger = Signer([drawn.randbytes(32)])
                forged = bytearray(base64.urlsafe_b64decode(stranger.sign(ONE) + "=="))
            case _:
                forged = bytearray(drawn.randbytes(drawn.randint(0, 200)))
        text = base64.urlsafe_b64encode(bytes(forged)).rstrip(b"=")
        assert text == token or signer.open(text) is None


@given(st.binary(max_size=600) | st.text(ALPHABET.decode(), max_size=600).map(str.encode))
def test_any_bytes_are_refused_in_the_same_way(text):
    assert Signer([OLD]).open(text) is None


def test_a_seal_of_the_stranger_under_our_name_is_refused(signer, token):
    content = base64.urlsafe_b64decode(token + b"=" * (-len(token) % 4))[: -link.SEAL_BYTES]
    seal = hmac.new(NEW, content, "sha256").digest()[: link.SEAL_BYTES]
    assert signer.open(base64.urlsafe_b64encode(content + seal).rstrip(b"=")) is None


def test_each_epoch_has_a_name():
    assert log_name("a") == log_name("a") != log_name("b")
    assert len(log_name("")) == len(log_name("a" * 99)) == 8


def test_a_token_of_another_version_is_refused(signer, token, monkeypatch):
    monkeypatch.setattr(link, "VERSION", 2)
    assert signer.open(token) is None


def test_the_first_secret_signs_and_all_of_them_open(token):
    both = Signer([NEW, OLD])
    assert both.open(token) == ONE
    renewed = both.sign(ONE).encode()
    assert renewed != token
    assert Signer([NEW]).open(renewed) == ONE
    assert Signer([OLD]).open(renewed) is None
    assert Signer([NEW]).open(token) is None


def test_a_random_signer_opens_only_its_own(token):
    one, other = random_signer(), random_signer()
    assert one.open(one.sign(ONE).encode()) == ONE
    assert other.open(one.sign(ONE).encode()) is one.open(token) is None


@pytest.mark.parametrize("number", [1, 4])
@pytest.mark.parametrize("wrong", [b"", b"?", b"A", b"A" * 63, b"A" * 600, None], ids=repr)
def test_all_seals_are_compared_whatever_is_wrong(monkeypatch, number, wrong, token):
    signer = Signer([OLD, *(b"%032d" % each for each in range(1, number))])
    compared = []

    def compare_digest(one, other):
        compared.append((len(one), len(other)))
        return hmac.compare_digest(one, other)

    monkeypatch.setattr(link, "hmac", SimpleNamespace(compare_digest=compare_digest))
    assert (signer.open(token if wrong is None else wrong) is None) is (wrong is not None)
    assert compared == [(16, 16)] * number


def test_a_signer_shows_nothing_of_its_secrets(signer):
    assert repr(signer) == "<Signer 1>"
    assert OLD not in repr([vars(signer), *(key.name for key in signer._keys)]).encode()
