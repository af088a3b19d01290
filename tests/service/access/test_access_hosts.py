"""Host names: one spelling each, and no lookalike passes."""

import re
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from purgatory_async.durable.links import hosts
from purgatory_async.durable.links.hosts import (
    canonical_address,
    canonical_host,
    is_loopback,
    parse_authority,
    parse_origin,
)

LABELS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,20}", fullmatch=True)
NAMES = st.lists(LABELS, min_size=1, max_size=5).map(".".join)
PORTS = st.none() | st.integers(0, 65_535)
ADDRESSES = st.ip_addresses()


def written(host, port):
    return f"{host}{'' if port is None else f':{port}'}".encode()


def test_a_name_is_compared_in_lower_case_without_its_last_dot():
    assert canonical_host("Holds.Example.ORG.") == "holds.example.org"
    assert canonical_host("localhost") == "localhost"
    assert canonical_host("127.0.0.1.") == "127.0.0.1"


@pytest.mark.parametrize("text", ["::1", "[::1]", "0:0:0:0:0:0:0:1", "[0::0:1]"])
def test_an_ipv6_address_has_one_spelling(text):
    assert canonical_host(text) == "::1"


def test_an_ipv4_address_that_ipv6_carries_is_that_of_ipv4():
    assert canonical_host("::ffff:192.0.2.1") == canonical_address("::ffff:c000:201") == "192.0.2.1"


@pytest.mark.parametrize(
    ("host", "answer"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.255.255.254", True),
        ("::1", True),
        ("128.0.0.1", False),
        ("0.0.0.0", False),
        ("::", False),
        ("localhost.example.org", False),
        ("sub.localhost", False),
    ],
)
def test_loopback_is_localhost_and_the_reserved_addresses(host, answer):
    assert is_loopback(host) is answer


NO_HOST = [
    *("", " ", ".", "..", "a..b", ".localhost", "localhost..", "*", "*.example.org", "a,b", "a b", "a\tb"),
    *(
        "user@localhost",
        "user:pass@localhost",
        "localhost/",
        "localhost?",
        "localhost#",
        "localhost\\",
        "a%00",
    ),
    *(
        "localhost\n",
        "\rlocalhost",
        "localhost\0",
        "loc\u00e4l",
        "\u24c1ocalhost",
        "local\u212aost",
        "\u0661.0.0.1",
    ),
    *("[", "]", "[]", "[localhost]", "[127.0.0.1]", "[::1", "::1]", "[[::1]]", "::g", "1::2::3", ":", "a:b"),
    *("::1%lo", "[::1%lo]", "[::1%25lo]", "fe80::1%eth0", "l" * 64, "a." * 127 + "ab"),
]


@pytest.mark.parametrize("text", NO_HOST)
def test_what_is_no_host_has_no_spelling(text):
    assert canonical_host(text) is None


@pytest.mark.parametrize("text", ["127.1", "0177.0.0.1", "127.0.0.01", "0x7f000001", "2130706433"])
def test_an_address_in_another_notation_is_no_address(text):
    assert canonical_address(text) is None
    assert not is_loopback(canonical_host(text))


@given(NAMES, PORTS)
def test_every_name_is_read_with_and_without_a_port(name, port):
    authority = parse_authority(written(name, port))
    assert (authority.host, authority.port) == (name.lower(), port)


@given(ADDRESSES, PORTS)
def test_every_address_is_read_with_and_without_a_port(address, port):
    text = str(address).partition("%")[0]
    authority = parse_authority(written(f"[{text}]" if ":" in text else text, port))
    bare = (IPv6Address if ":" in text else IPv4Address)(text)
    carried = getattr(bare, "ipv4_mapped", None) or bare
    assert (authority.host, authority.port) == (str(carried), port)
    assert authority.loopback is carried.is_loopback


@given(st.binary(max_size=300))
def test_any_bytes_are_an_authority_with_one_spelling_or_none(raw):
    authority = parse_authority(raw)
    if authority is not None:
        host = f"[{authority.host}]" if ":" in authority.host else authority.host
        assert parse_authority(written(host, authority.port)) == authority
        assert re.fullmatch("[a-z0-9_.:-]+", authority.host)


@given(
    st.sampled_from([b"localhost:8765", b"127.0.0.1:8765", b"[::1]:8765", b"localhost"]),
    st.integers(0, 20),
    st.binary(min_size=1, max_size=3),
)
@example(b"localhost:8765", 9, b".")
@example(b"localhost:8765", 0, b"a@")
@example(b"127.0.0.1:8765", 9, b".1")
def test_bytes_added_to_a_host_never_make_another_loopback(host, place, extra):
    raw = host[:place] + extra + host[place:]
    text = raw.decode("latin-1").lower()
    # Spelled out a second time, and by another rule than the parser's: what may still mean this machine.
    v4 = re.fullmatch(r"127\.([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})(:[0-9]*)?", text)
    meant = (
        re.fullmatch(r"localhost\.?(:[0-9]*)?", text)
        or (v4 and all(int(part) < 256 for part in v4.groups()[:3]))
        or re.fullmatch(r"\[[0:]*:0*1\](:[0-9]*)?", text)
        or re.fullmatch(r"\[[0:]*:ffff:127\..*", text)
    )
    authority = parse_authority(raw)
    assert meant or authority is None or not authority.loopback


@pytest.mark.parametrize(
    "raw", [b"a:65536", b"a:99999", b"a:-1", b"a:+1", b"a: 1", b"a:1 ", b"a:1:1", b"a:0x1", b"a:\xb2"]
)
def test_a_port_is_up_to_five_digits_and_at_most_65535(raw):
    assert parse_authority(raw) is None


@pytest.mark.parametrize(
    ("raw", "port"), [(b"a:", None), (b"a:0", 0), (b"a:65535", 65_535), (b"a:00080", 80)]
)
def test_an_empty_port_is_none_and_zeros_in_front_mean_nothing(raw, port):
    assert parse_authority(raw).port == port


def test_an_ipv6_address_without_brackets_is_no_authority():
    assert parse_authority(b"::1") is None


def test_what_is_remembered_is_bounded_and_nothing_long_is():
    for number in range(1000):
        assert parse_authority(b"host-%d" % number)
        assert parse_origin(b"http://host-%d" % number)
    before = hosts._parsed.cache_info(), hosts._parsed_origin.cache_info()
    assert [info.currsize for info in before] == [256, 256]
    assert parse_authority(b"a." * 130 + b"a") is parse_origin(b"http://" + b"a." * 135) is None
    assert (hosts._parsed.cache_info(), hosts._parsed_origin.cache_info()) == before


ORIGINS = [
    pytest.param(b"http://a.org", b"a.org", True, id="the usual port on both sides"),
    pytest.param(b"http://a.org", b"a.org:80", True, id="the usual port, once written out"),
    pytest.param(b"http://a.org:80", b"a.org", True, id="and on the other side"),
    pytest.param(b"https://a.org", b"a.org", True, id="TLS ends at a proxy"),
    pytest.param(b"https://a.org", b"a.org:443", True, id="TLS and its port"),
    pytest.param(b"http://a.org:8765", b"a.org:8765", True, id="a port of its own"),
    pytest.param(b"HTTP://A.org:8765", b"a.ORG.:8765", True, id="case and the last dot"),
    pytest.param(b"http://[::1]:8765", b"[0::1]:8765", True, id="IPv6"),
    pytest.param(b"http://a.org", b"a.org:8765", False, id="another port"),
    pytest.param(b"http://a.org:8765", b"a.org", False, id="a port that the host has not"),
    pytest.param(b"https://a.org", b"a.org:80", False, id="the port of another scheme"),
    pytest.param(b"http://a.org:0", b"a.org", False, id="port 0 is a port"),
    pytest.param(b"http://b.org", b"a.org", False, id="another host"),
    pytest.param(b"http://a.org.evil.org", b"a.org", False, id="a longer name"),
    pytest.param(b"http://localhost:8765", b"127.0.0.1:8765", False, id="two names of one machine"),
]


@pytest.mark.parametrize(("origin", "host", "answer"), ORIGINS)
def test_an_origin_is_of_a_host_when_host_and_port_are_the_same(origin, host, answer):
    assert parse_origin(origin).is_of(parse_authority(host)) is answer


@pytest.mark.parametrize(
    "raw",
    [
        *(b"", b"null", b"a.org", b"//a.org", b"http:a.org", b"http:/a.org", b"http://", b"http://a.org/"),
        *(
            b"http://a.org/x",
            b"http://user@a.org",
            b"http://a.org http://a.org",
            b"http://a.org, http://b.org",
        ),
        *(
            b"file://",
            b"ftp://a.org",
            b"chrome-extension://abc",
            b"httpss://a.org",
            b"xhttp://a.org",
            b"http://\n",
        ),
    ],
)
def test_what_is_no_origin_of_a_page_over_http_is_none(raw):
    assert parse_origin(raw) is None


@given(st.sampled_from(["http", "https"]), NAMES, PORTS, PORTS)
def test_no_two_ports_make_one_origin(scheme, name, port, other):
    usual = {"http": 80, "https": 443}[scheme]
    assume((usual if port is None else port) != (usual if other is None else other))
    origin = parse_origin(f"{scheme}://".encode() + written(name, port))
    assert not origin.is_of(parse_authority(written(name, other)))
    assert origin.is_of(parse_authority(written(name, port)))
