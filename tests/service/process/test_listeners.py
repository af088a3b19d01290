"""The sockets on which a service listens: each kind made, taken or refused, and nothing of others removed."""

import errno
import os
import socket
import stat
import subprocess
import sys
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from purgatory_async.service.process.listeners import Listeners, StartRefused, accept_waiting, listen
from purgatory_async.service.settings import settings as settings_module
from purgatory_async.service.settings.settings import Settings, SettingsError, passed_descriptors, resolve


@pytest.fixture
def folder():
    """A folder whose name is short enough for the path of a socket."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@pytest.fixture
def opened():
    """Make listeners that are closed at the end."""
    with ExitStack() as stack:
        yield lambda **given: stack.enter_context(listen(Settings(**given)))


def unix_socket(stack, path, kind=socket.SOCK_STREAM):
    sock = stack.enter_context(closing(socket.socket(socket.AF_UNIX, kind)))
    sock.bind(str(path))
    return sock


def connect(path):
    with closing(socket.socket(socket.AF_UNIX)) as sock:
        sock.connect(str(path))


def test_a_unix_socket_takes_the_place_of_the_port(folder, opened):
    path = folder / "s"
    listeners = opened(uds=path)
    assert [sock.family for sock in listeners.sockets] == [socket.AF_UNIX]
    assert listeners.address == f"unix://{path}"


def test_a_unix_socket_stands_beside_a_port_that_is_given(folder, opened):
    listeners = opened(uds=folder / "s", port=0)
    port = listeners.sockets[0].getsockname()[1]
    assert listeners.address == f"http://127.0.0.1:{port}, unix://{folder}/s"


def test_a_unix_socket_has_its_mode_before_anybody_connects(folder, opened, monkeypatch):
    path, chmod = folder / "s", Path.chmod
    tried = []

    def try_first(self, mode):
        with pytest.raises(ConnectionRefusedError):
            connect(path)
        tried.append(mode)
        chmod(self, mode)

    monkeypatch.setattr(Path, "chmod", try_first)
    opened(uds=path, uds_mode="0620")
    connect(path)
    assert tried == [stat.S_IMODE(path.stat().st_mode)] == [0o620]


def test_the_socket_of_a_dead_process_is_replaced(folder, opened):
    path = folder / "s"
    # Dead by a signal between `bind` and `listen`, the worst that it can leave.
    left = "import os, signal, socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1]); os.kill(os.getpid(), 15)"
    assert subprocess.run([sys.executable, "-c", left, str(path)], check=False).returncode == -15
    opened(uds=path)
    connect(path)


@pytest.mark.parametrize("full", [False, True])
def test_a_socket_that_answers_is_refused_and_kept(folder, opened, full):
    path = folder / "s"
    with ExitStack() as stack:
        other = unix_socket(stack, path)
        other.listen(0)
        if full:
            waiting = stack.enter_context(closing(socket.socket(socket.AF_UNIX)))
            waiting.connect(str(path))
        with pytest.raises(StartRefused, match="another process answers there"):
            opened(uds=path)
        for connection in accept_waiting(other):
            connection.close()
        connect(path)


@pytest.mark.parametrize("kind", ["file", "directory", "link", "datagrams"])
def test_another_kind_of_file_is_refused_and_kept(folder, opened, kind):
    path = folder / "s"
    with ExitStack() as stack:
        if kind == "file":
            path.write_text("precious")
        elif kind == "directory":
            path.mkdir()
        elif kind == "link":
            unix_socket(stack, folder / "t").close()
            path.symlink_to(folder / "t")
        else:
            unix_socket(stack, path, socket.SOCK_DGRAM)
        before = path.lstat()
        with pytest.raises(StartRefused, match=f"^cannot listen on {path}: "):
            opened(uds=path)
        assert path.lstat() == before


def test_a_missing_directory_is_named_with_what_to_do(folder, opened, monkeypatch):
    monkeypatch.chdir(folder)
    for path in (folder / "no" / "s", Path("no/s")):
        with pytest.raises(StartRefused) as refused:
            opened(uds=path)
        bound = f"the directory {folder}/no must exist; make it, or give another path"
        assert str(refused.value) == f"cannot listen on {path}: {bound}"


def test_a_file_in_the_place_of_the_directory_is_named(folder, opened):
    (folder / "file").write_text("precious")
    with pytest.raises(StartRefused) as refused:
        opened(uds=folder / "file" / "s")
    bound = f"{folder}/file must be a directory; give another path"
    assert str(refused.value) == f"cannot listen on {folder}/file/s: {bound}"


def test_a_socket_of_another_user_is_named_and_kept(folder, opened, monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    path = folder / "s"
    with ExitStack() as stack:
        unix_socket(stack, path)
        monkeypatch.setattr("socket.socket.connect", refuse)  # root may connect to any
        with pytest.raises(StartRefused) as refused:
            opened(uds=path)
    assert (
        str(refused.value) == f"cannot listen on {path}: it is user {os.getuid()}'s socket; give another path"
    )
    assert path.exists()


def test_a_directory_that_is_not_ours_is_named(folder, opened, monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "lstat", refuse)  # root may write anywhere
    with pytest.raises(StartRefused) as refused:
        opened(uds=folder / "s")
    bound = (
        f"this user must be able to make files in {folder}; change its owner or mode, or give another path"
    )
    assert str(refused.value) == f"cannot listen on {folder}/s: {bound}"


def test_a_refused_unix_socket_frees_the_port(folder, opened):
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(StartRefused):
        opened(port=port, uds=folder / "no" / "s")
    opened(port=port)


@pytest.mark.parametrize("replaced", [False, True])
def test_at_the_end_only_our_own_file_is_removed(folder, replaced):
    path = folder / "s"
    with ExitStack() as stack:
        with listen(Settings(uds=path)):
            if replaced:
                path.unlink()
                unix_socket(stack, path)
        assert path.exists() == replaced


@pytest.mark.parametrize("path", ["x" * 107, "ü" * 53])
def test_a_path_may_have_107_bytes_and_not_more(path):
    assert Settings(uds=path).uds == Path(path)
    with pytest.raises(SettingsError, match=r"^uds: must be a path of at most 107 bytes, got '"):
        Settings(uds=path + "xx")


@pytest.mark.parametrize(("given", "mode"), [("660", "0660"), ("0600", "0600"), (0o600, "0600")])
def test_a_mode_is_octal(given, mode):
    assert Settings(uds_mode=given).uds_mode == mode


@pytest.mark.parametrize("mode", ["888", "1777", 600, True, "", "66"])
def test_a_mode_that_is_none_is_refused(mode):
    with pytest.raises(SettingsError, match=r"^uds_mode: must be three octal digits like 0600, got "):
        Settings(uds_mode=mode)


def test_a_port_is_shared_only_if_both_want_to(opened):
    first = opened(port=0, reuse_port=True)
    first.sockets[0].listen()
    port = first.sockets[0].getsockname()[1]
    with pytest.raises(StartRefused, match="Address already in use"):
        opened(port=port)
    opened(port=port, reuse_port=True)


def test_a_unix_socket_cannot_be_shared(folder):
    with pytest.raises(SettingsError, match=f"with uds {folder}/s alone, got True; give --port too"):
        Settings(uds=folder / "s", reuse_port=True)


def test_what_waits_in_a_queue_is_accepted_and_no_more(opened):
    (sock,) = opened(port=0).sockets
    sock.listen()
    with ExitStack() as stack:
        for _ in range(50):
            stack.enter_context(closing(socket.create_connection(sock.getsockname())))
        accepted = [stack.enter_context(closing(connection)) for connection in accept_waiting(sock)]
        assert [connection.getblocking() for connection in accepted] == [False] * 50
        assert list(accept_waiting(sock)) == []


# What a service manager passes.


def variables(number=1, pid=None):
    return {"LISTEN_FDS": str(number), "LISTEN_PID": str(os.getpid() if pid is None else pid)}


@pytest.fixture
def passed(monkeypatch):
    """Pass sockets to this process, from a free descriptor on; returns the listeners that it takes."""
    with ExitStack() as stack:

        def take(*sockets, **settings):
            base = 600
            monkeypatch.setattr(settings_module, "FIRST_PASSED", base)
            for number, sock in enumerate(sockets):
                os.dup2(sock.fileno(), base + number)
                sock.close()
            stack.callback(os.closerange, base, base + len(sockets))
            return stack.enter_context(listen(Settings(**settings), variables(len(sockets))))

        yield take


def listening(host="127.0.0.1", family=socket.AF_INET, kind=socket.SOCK_STREAM):
    sock = socket.socket(family, kind)
    sock.bind(host if family == socket.AF_UNIX else (host, 0))
    if kind == socket.SOCK_STREAM:
        sock.listen()
    return sock


def test_all_passed_sockets_and_no_other_are_taken(folder, passed):
    path = folder / "s"
    tcp, unix = listening(), listening(str(path), socket.AF_UNIX)
    port = tcp.getsockname()[1]
    listeners = passed(tcp, unix)
    assert listeners.address == f"http://127.0.0.1:{port}, unix://{path}"
    listeners.close()
    assert path.exists()  # it is the manager's


def test_no_child_inherits_a_passed_socket(passed):
    sock = listening()
    os.set_inheritable(sock.fileno(), True)
    assert [taken.get_inheritable() for taken in passed(sock).sockets] == [False]


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_passed_socket_that_others_reach_needs_tokens(passed, host):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with pytest.raises(SettingsError, match=f"must be a loopback address without tokens, got {host};"):
        passed(listening(host, family))
    assert passed(listening(host, family), insecure=True).address.startswith("http://")


def test_a_passed_descriptor_must_be_a_listening_socket(passed, tmp_path):
    with pytest.raises(StartRefused, match=r"^descriptor 600 of LISTEN_FDS must be a socket: "):
        passed((tmp_path / "file").open("w"))
    wanted = "^a socket of LISTEN_FDS must be a stream socket that listens, got "
    with pytest.raises(StartRefused, match=wanted):
        passed(listening(kind=socket.SOCK_DGRAM))
    silent = socket.socket()
    silent.bind(("127.0.0.1", 0))
    with pytest.raises(StartRefused, match=wanted):
        passed(silent)


def test_sockets_of_another_process_are_left_alone():
    assert len(passed_descriptors(variables(2))) == 2
    for environment in ({}, {"LISTEN_FDS": "2"}, variables(2, pid=1), variables("x", pid=1), variables(0)):
        assert not passed_descriptors(environment)
        with listen(Settings(port=0), environment) as listeners:
            assert len(listeners.sockets) == 1


@pytest.mark.parametrize("number", ["", "-1", "x", "1 ", "99999"])
def test_a_number_of_sockets_that_is_none_is_refused(number):
    with pytest.raises(SettingsError, match=f"^LISTEN_FDS must be a number of sockets, got '{number}'$"):
        passed_descriptors(variables(number))


@pytest.mark.parametrize(("name", "value"), [("port", "0"), ("uds", "/run/s"), ("reuse_port", True)])
def test_beside_passed_sockets_none_can_be_asked_for(name, value):
    with pytest.raises(SettingsError) as refused:
        resolve(file={}, environment=variables(), flags={name: value})
    given = 0 if name == "port" else value
    assert str(refused.value) == (
        f"{name} in the command line must be absent beside the sockets of LISTEN_FDS, got {given}"
    )
    assert resolve(file={"reuse_port": False}, environment=variables(), flags={}).reuse_port is False


def test_closing_twice_does_nothing_more(folder):
    listeners = Listeners([], None)
    listeners.close()
    listeners.close()
