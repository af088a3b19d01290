"""Every way in which a store's URL is wrong or can never work: one sentence, exit 2, and no address is printed."""

import json
import os
import shutil
import subprocess
from contextlib import ExitStack
from functools import cache

import pytest

from purgatory_async.cli import commands
from purgatory_async.cluster.url_options import warn_once
from purgatory_async.durable.urls import log_of, parsed
from purgatory_async.service.app import create_app
from purgatory_async.service.settings.settings import Settings, SettingsError
from tests.cluster.servers import Postgres, RedisServer, need_postgres, need_redis, shared
from tests.ports import free_port
from tests.processes import ended

SECRET = "hunter2"
PG, RD = f"postgresql://me:{SECRET}@db/orders", f"redis://me:{SECRET}@db"


class Tls:
    """A certificate that its own authority has signed, and servers that show it."""

    def __init__(self, folder):
        self.certificate, self.key = folder / "one.pem", folder / "one.key"
        subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
        made = ["-keyout", self.key, "-out", self.certificate]
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject, *made],
            check=True,
            capture_output=True,
        )
        self.key.chmod(0o600)

    def redis(self):
        server = RedisServer()
        files = {"tls-cert-file": self.certificate, "tls-key-file": self.key}
        server.settings |= {"tls-port": server.port, "port": 0, "tls-auth-clients": "no", **files}
        server.answers = lambda: subprocess.run(
            ["redis-cli", "--tls", "--insecure", "-p", str(server.port), "PING"],
            check=False,
            capture_output=True,
        ).stdout.startswith(b"PONG")
        return server

    def postgres(self):
        server = Postgres(ssl="on", ssl_cert_file="one.pem", ssl_key_file="one.key")
        for file in (self.certificate, self.key):
            copy = shutil.copy(file, server.folder / "data")
            if server.run_as():
                shutil.chown(copy, **server.run_as())
        return server


@cache
def cluster_of_redis():
    """Two nodes of a Redis Cluster; returns the one without slots, and the port of the other."""
    stack = ExitStack()
    nodes = []
    for _ in range(2):
        node = RedisServer(**{"cluster-enabled": "yes", "cluster-port": free_port()})
        stack.callback(node.close)
        node.start()
        nodes.append(node)
    owner, other = nodes
    cli = ["redis-cli", "-p"]
    subprocess.run([*cli, str(owner.port), "CLUSTER", "ADDSLOTSRANGE", "0", "16383"], check=True)
    meet = ["CLUSTER", "MEET", "127.0.0.1", str(owner.port), str(owner.settings["cluster-port"])]
    subprocess.run([*cli, str(other.port), *meet], check=True)
    while (
        b"MOVED"
        not in subprocess.run([*cli, str(other.port), "GET", "x"], check=True, capture_output=True).stdout
    ):
        pass
    return stack, other, owner.port


# The URL, with {names} of `places`; how the sentence begins, or a part of it.
WRONG = [
    ("memory:", "must be one of memory, sqlite:///PATH, postgresql://"),
    ("sqlite://state.db", "must be sqlite:///PATH, got"),
    ("sqlite:///{folder}", "the store must be a file, got a folder: "),
    ("sqlite:////dev/null", "the store must be a file, got a device: /dev/null"),
    ("sqlite:///:memory:", "the store must be a file, got :memory:; for memory, leave --store out"),
    ("sqlite:////nowhere/a.db", "the folder of the store must exist, got /nowhere"),
    ("sqlite:///a%00b", "the store's name must be printable, of at most 244 bytes, got"),
    ("sqlite:///" + 300 * "x", "the store's name must be printable, of at most 244 bytes, got"),
    (f"{PG}?nonsense=1", "options of a Postgres URL must be among host, "),
    (f"{PG}?work_mem=1GB", "got 'work_mem'; give a setting of the server as options=-c%20NAME=VALUE"),
    (f"{PG}?ssl=require", "got 'ssl'"),
    (f"{PG}?sslmode=on", "option sslmode must be one of disable, allow, prefer, require, verify-ca, "),
    (f"{PG}?connect_timeout=5s", "option connect_timeout must be a whole number, got '5s'"),
    (f"{PG}?sslrootcert=/nowhere", "option sslrootcert must be a file of certificates (PEM), got '/nowhere'"),
    (f"{PG}?sslrootcert={{junk}}", "option sslrootcert must be a file of certificates (PEM), got"),
    (f"{PG}?sslkey=/nowhere", "option sslkey must be a file, got '/nowhere'"),
    (f"{PG}?target_session_attrs=standby", "must be one of any, primary, read-write, got 'standby'"),
    (
        f"{PG}?password=a&b",
        "options must be NAME=VALUE with & between them, got no = in option 2; write & in a value as %26",
    ),
    (f"{PG}?name=9", "name must be 1 to 40 of a-z, 0-9 and _, not beginning with a digit, got '9'"),
    ("postgresql://db:99999/a", "must have a host, and a port up to 65535, got"),
    ("postgresql://[::1/a", "must have a host, and a port up to 65535, got"),
    (f"{RD}/0?ssl_cert_reqs=none", "option ssl_cert_reqs must be in a rediss:// URL, got another one"),
    (f"{RD}/0?timeout=5", "options of a Redis URL must be among db, protocol, username, password, "),
    (f"{RD}/orders", "the database must be a number, as in redis://HOST/0, got 'orders'"),
    (f"{RD}/0?db=-1", "option db must be a whole number, got '-1'"),
    (f"{RD}/0?wait=all", "option wait must be a number of replicas, got 'all'"),
    (f"{RD}/0?protocol=9", "option protocol must be one of 2, 3, got '9'"),
    ("rediss://db/0?ssl_cert_reqs=maybe", "must be one of none, optional, required, got 'maybe'"),
    ("rediss://db/0?ssl_ca_certs={junk}", "option ssl_ca_certs must be a file of certificates (PEM), got"),
    ("unix:///run/redis.sock?ssl_ca_certs=x", "option ssl_ca_certs must be in a rediss:// URL"),
]
# Of these the server says so.
NEVER = [
    ("{postgres}/nowhere", 'database "nowhere" does not exist'),
    ("{postgres}/postgres?sslmode=require", "rejected SSL upgrade"),
    ("{postgres}/postgres?options=-c%20nonsense%3D1", 'unrecognized configuration parameter "nonsense"'),
    ("{postgres}/postgres?role=nobody", 'role "nobody" does not exist'),
    ("{postgres}/postgres?search_path=nowhere", "search_path must name a schema that exists, got 'nowhere'"),
    ("{postgres_tls}/postgres?sslmode=verify-full&sslrootcert={other_ca}", "CERTIFICATE_VERIFY_FAILED"),
    ("{redis}/99", "DB index is out of range"),
    ("{redis}/0?client_name=a%20b", "Client names cannot contain spaces"),
    ("rediss://{redis_host}/0", "the server must be given as a redis:// URL, for it has no TLS"),
    ("redis://{redis_tls_host}/0", "the server must be given as a rediss:// URL, for it has TLS"),
    ("rediss://{redis_tls_host}/0", "CERTIFICATE_VERIFY_FAILED"),
    (
        "{redis_node}/0",
        "this node of a Redis Cluster must have the log's keys, but 127.0.0.1:{owner} has them",
    ),
    ("{redis_node}/1", "SELECT is not allowed in cluster mode"),
]


def check_sentence(sentence, expected):
    assert expected in sentence
    assert SECRET not in sentence
    assert "\n" not in sentence.strip()


@pytest.fixture
def local(tmp_path):
    """What stands for names of a URL that needs no server."""
    junk = tmp_path / "junk.pem"
    junk.write_text("junk")
    return {"folder": tmp_path, "junk": junk}


@pytest.mark.parametrize(("url", "expected"), WRONG)
def test_a_url_that_is_wrong_is_refused_in_a_sentence(local, capsys, url, expected):
    url = url.format(**local)
    if "postgres" in url:
        pytest.importorskip("asyncpg")
    if "redis" in url:
        pytest.importorskip("redis")
    with pytest.raises(SettingsError) as refused:
        create_app(Settings(store=url))
    check_sentence(str(refused.value), expected)
    assert commands.run(["store", "check", url]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    check_sentence(err, expected)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Real servers, with and without TLS, and a node of a Redis Cluster."""
    need_postgres()
    need_redis()
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed; on Debian: apt-get install openssl")
    with ExitStack() as stack:
        tls, other = Tls(tmp_path_factory.mktemp("tls")), Tls(tmp_path_factory.mktemp("other"))
        secure = (tls.postgres(), tls.redis())
        for server in secure:
            stack.callback(server.close)
            server.start()
        nodes, node, owner = cluster_of_redis()
        stack.enter_context(nodes)
        at = "127.0.0.1:{}".format
        postgres, redis = shared(Postgres).port, shared(RedisServer).port
        yield {
            "postgres": f"postgresql://purgatory:{SECRET}@{at(postgres)}",
            "postgres_tls": f"postgresql://purgatory:{SECRET}@{at(secure[0].port)}",
            "redis": f"redis://{at(redis)}",
            "redis_host": at(redis),
            "redis_tls_host": at(secure[1].port),
            "redis_node": f"redis://{at(node.port)}",
            "owner": owner,
            "other_ca": other.certificate,
        }


@pytest.mark.slow
@pytest.mark.parametrize(("url", "expected"), NEVER)
def test_a_store_that_can_never_work_is_refused_at_the_start(places, url, expected):
    url, expected = url.format(**places), expected.format(**places)
    given = {**os.environ, "PURGATORY_STORE": url}
    for workers in ("1", "2"):
        code, output, errors = ended("serve", "--port", "0", "--workers", workers, env=given)
        *records, sentence = errors.splitlines()
        assert (code, output) == (2, "")
        check_sentence(sentence, expected)
        assert not any("Traceback" in str(json.loads(record)) for record in records)
    for command in ("check", "init"):
        code, output, errors = ended("store", command, env=given)
        assert (code, output) == (2, "")
        absent = command == "check" and "there is no log at" in errors
        check_sentence(errors, "run: purgatory store init" if absent else expected)


PROVIDERS = (
    f"{PG}?sslmode=prefer&connect_timeout=5&keepalives=1&keepalives_idle=30&keepalives_interval=5&keepalives_count=3"
    "&tcp_user_timeout=9&channel_binding=prefer&gssencmode=disable&hostaddr=127.0.0.1&fallback_application_name=x"
    "&load_balance_hosts=random&sslcertmode=allow&target_session_attrs=read-write&application_name=a&search_path=b"
    "&options=-c%20work_mem%3D1MB"
)


@pytest.mark.parametrize(
    ("url", "dropped"),
    [
        (PROVIDERS, 10),
        (f"{RD}/0?socket_timeout=5&max_connections=9&protocol=3", 2),
        ("rediss://db/0?ssl_cert_reqs=none&ssl_check_hostname=false", 0),
        ("unix:///run/redis.sock?db=2", 0),
    ],
)
def test_known_options_are_understood_or_dropped_with_a_warning(caplog, url, dropped):
    pytest.importorskip("asyncpg")
    pytest.importorskip("redis")
    warn_once.cache_clear()
    for _ in range(2):
        log_of(parsed(url))
    assert len(caplog.records) == dropped
    assert all("has no effect here" in record.message for record in caplog.records)
    assert SECRET not in caplog.text
