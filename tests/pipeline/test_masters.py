"""A master that is away, or is something else, is found before Spark starts; here with sockets that answer for one."""

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Event, Thread

import grpc
import pytest

from purgatory_async.pipeline import Refused, masters
from purgatory_async.pipeline.masters import check_connect, check_master

FAILURE = (40).to_bytes(8) + b"\x08" + bytes(31)  # as Spark's transport answers for a stream it does not have
SITE = "<configuration><property><name>{}</name><value>{}</value></property></configuration>"


@pytest.fixture
def listening():
    """Start servers: each reads once and answers with given bytes; None keeps silent."""
    with ExitStack() as ended:

        def listen(answer):
            server = ended.enter_context(socket.create_server(("127.0.0.1", 0)))
            if answer is not None:
                Thread(target=reply, args=(server, answer), daemon=True).start()
            return server.getsockname()[1]

        yield listen


def reply(server, answer):
    connection, _ = server.accept()
    with connection:
        connection.recv(1000)
        connection.sendall(answer)


@pytest.fixture
def nothing():
    """A port at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.fixture
def hurried(monkeypatch):
    monkeypatch.setattr(masters, "PATIENCE_S", 0.2)


def refusal(master, **environment):
    with pytest.raises(Refused) as refused:
        check_connect(master) if master.startswith("sc:") else check_master(master, environment)
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize("master", ["local", "local[2]", "local-cluster[2,1,1024]"])
def test_a_local_master_needs_no_check(master):
    check_master(master, {})


def test_a_master_that_answers_is_taken(listening):
    check_master(f"spark://127.0.0.1:{listening(FAILURE)}", {})


def test_one_of_several_masters_is_enough(listening, nothing):
    check_master(f"spark://127.0.0.1:{nothing},127.0.0.1:{listening(FAILURE)}", {})


@pytest.mark.parametrize("scheme", ["spark", "k8s://http", "k8s", "sc"])
def test_where_nothing_listens_address_and_remedy_are_named(nothing, scheme):
    said = refusal(f"{scheme}://127.0.0.1:{nothing}")
    assert f" answers at 127.0.0.1:{nothing}: [Errno 111] Connection refused; " in said
    assert said.startswith("--remote: no Spark Connect" if scheme == "sc" else "--master: no ")


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"+PONG\r\n", b"", FAILURE[:8]])
def test_something_else_on_a_port_is_no_master(listening, answer):
    port = listening(answer)
    assert f"no Spark master answers at 127.0.0.1:{port}: something else answers, with b'" in refusal(
        f"spark://127.0.0.1:{port}"
    )


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("answer", [None, b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_something_else_on_a_port_is_no_connect_server(listening, answer):
    said = refusal(f"sc://127.0.0.1:{listening(answer)}/;user_id=me;session_id=secret")
    assert "nothing is heard within 4 s; start one with start-connect-server.sh" in said
    assert "secret" not in said


def test_a_server_that_speaks_its_protocol_is_taken():
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        check_connect(f"sc://127.0.0.1:{port}")
    finally:
        server.stop(None)


@pytest.mark.usefixtures("hurried")
def test_a_master_that_keeps_silent_is_not_waited_for(listening):
    assert "nothing is heard within 4 s" in refusal(f"spark://127.0.0.1:{listening(None)}")


@pytest.mark.usefixtures("hurried")
def test_a_name_is_not_looked_up_for_longer(monkeypatch):
    # The system's library may try each of its servers for many seconds.
    end = Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: end.wait() and [])
    for master in ("spark://nowhere:7077", "sc://nowhere", "k8s://nowhere"):
        assert "nothing is heard within 4 s" in refusal(master)
    end.set()


def test_a_name_that_nobody_has_is_named(monkeypatch):
    def unknown(*_, **__):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    for master, port in (("spark://nowhere:7077", 7077), ("sc://nowhere", 15002), ("k8s://nowhere", 443)):
        assert f"answers at nowhere:{port}: [Errno -2] Name or service not known; " in refusal(master)


@pytest.mark.parametrize("master", ["spark://h", "spark://h:port", "spark://h:7077,", "spark://h:7077/x"])
def test_a_master_s_url_has_host_and_port(master):
    assert refusal(master) == f"--master must be like spark://host:7077, got {master}"


@pytest.mark.parametrize("url", ["spark://h:99999", "k8s://h:one", "sc://h:99999/;token=secret"])
def test_a_port_is_a_number_that_a_port_can_have(url):
    assert refusal(url) == "the port of h must be a number up to 65535; correct it"


@pytest.mark.parametrize(
    "url", ["sc://{}/path", "sc://{}/;token=secret=2", "sc://{};token=secret", "sc://;a=secret"]
)
def test_a_server_s_url_has_names_with_values(listening, url):
    said = refusal(url.format(f"127.0.0.1:{listening(None)}"))
    assert said.startswith("--remote must be like sc://host:15002 or sc://host:15002/;name=value, got sc://")
    assert "secret" not in said


def test_yarn_without_its_configuration_is_one_sentence(tmp_path):
    assert "HADOOP_CONF_DIR must name the directory of yarn-site.xml" in refusal("yarn")
    site = tmp_path / "yarn-site.xml"
    assert f"{site} cannot be read: [Errno 2]" in refusal("yarn", HADOOP_CONF_DIR=str(tmp_path))
    site.write_text("<configuration>")
    assert f"{site} cannot be read: no element found" in refusal("yarn", YARN_CONF_DIR=str(tmp_path))


@pytest.mark.parametrize("name", ["yarn.resourcemanager.address", "yarn.resourcemanager.address.rm1"])
def test_a_resource_manager_that_is_away_is_named(tmp_path, nothing, listening, name):
    site = tmp_path / "yarn-site.xml"
    site.write_text(SITE.format(name, f"127.0.0.1:{nothing}"))
    said = refusal("yarn", HADOOP_CONF_DIR=str(tmp_path))
    assert f"--master yarn: no resource manager answers at 127.0.0.1:{nothing}: " in said
    site.write_text(SITE.format(name, f"127.0.0.1:{listening(b'')}"))
    check_master("yarn", {"HADOOP_CONF_DIR": str(tmp_path)})
    site.write_text(SITE.format(name, "${of.another}:8032"))  # only Hadoop can tell
    check_master("yarn", {"HADOOP_CONF_DIR": str(tmp_path)})
