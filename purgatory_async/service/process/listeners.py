"""The sockets on which a service listens: a port, a Unix socket, or those that a service manager passes."""

import os
import socket
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, NamedTuple, Self

from purgatory_async.durable.links.hosts import canonical_host, is_loopback
from purgatory_async.errors import RefusedError
from purgatory_async.service.settings.settings import Settings, UnprotectedError, passed_descriptors

BACKLOG: Final = 4096  # room for all clients that reconnect after a restart


class StartRefused(RefusedError):  # noqa: N818 - what happened, as the operator reads it
    """The service cannot start; the message is one sentence."""


class _File(NamedTuple):
    """The file of a Unix socket, and its identity: another process may put its own at the same path."""

    path: Path
    device: int
    inode: int
    made_ns: int  # an inode's number is soon used again

    @classmethod
    def at(cls, path: Path) -> Self:
        """Look at the file that is there; FileNotFoundError if there is none."""
        found = path.lstat()
        return cls(path, found.st_dev, found.st_ino, found.st_mtime_ns)


class Listeners:
    """The listening sockets of a service; a context manager that closes them.

    Args:
        sockets: Bound, of kind stream.
        file: The file of the Unix socket among them that this process made; None if it made none.
    """

    def __init__(self, sockets: Sequence[socket.socket], file: _File | None = None) -> None:
        self.sockets: Final = tuple(sockets)
        self._file = file

    @property
    def address(self) -> str:
        """The URLs at which they are reached."""
        return ", ".join(map(_url, self.sockets))

    def withdraw(self) -> None:
        """Remove the Unix socket's file, unless another process has replaced it; connected clients stay connected."""
        if self._file is not None:
            with suppress(FileNotFoundError):
                if _File.at(self._file.path) == self._file:
                    self._file.path.unlink()
            self._file = None

    def close(self) -> None:
        """Close the sockets."""
        self.withdraw()
        for sock in self.sockets:
            sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def listen(settings: Settings, environment: Mapping[str, str] | None = None) -> Listeners:
    """Make the sockets on which to listen, or take those that the service manager passes.

    A port does not accept connections yet. A Unix socket does: until then another process would take it for stale.

    Args:
        settings: All of them.
        environment: The process's; None if no sockets are passed by it.

    Raises:
        StartRefused: An address is unknown, taken or not local; a passed descriptor is no listening socket.
        SettingsError: A passed socket can be reached by others, and no token protects it.
    """
    passed = passed_descriptors(environment or {})
    file = None
    with ExitStack() as stack:
        sockets: list[socket.socket] = []
        for descriptor in passed:
            sockets.append(stack.enter_context(_socket_of(descriptor)))
            _check_passed(sockets[-1], settings)
        if settings.port is not None and not passed:
            sockets.append(stack.enter_context(_bound(settings, settings.port)))
        if settings.uds is not None and not passed:
            unix, file = _at_path(settings.uds, int(settings.uds_mode, 8))
            sockets.append(unix)
        stack.pop_all()
    return Listeners(sockets, file)


def accept_waiting(listener: socket.socket) -> Iterator[socket.socket]:
    """Accept the connections that wait in a socket's queue, which closing it would reset.

    Raises:
        OSError: No descriptor is left for one.
    """
    listener.setblocking(False)
    for _ in range(BACKLOG + 1):  # all that can wait now; later ones must not keep it going
        try:
            connection, _ = listener.accept()
        except BlockingIOError:
            return
        except ConnectionAbortedError:
            continue
        connection.setblocking(False)
        yield connection


def _url(sock: socket.socket) -> str:
    name = sock.getsockname()
    if sock.family == socket.AF_UNIX:
        return f"unix://{Path(name).absolute()}" if isinstance(name, str) else f"unix:{os.fsdecode(name)!r}"
    host, port = name[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _bound(settings: Settings, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(settings.host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if settings.reuse_port:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            sock.bind(address)
        except BaseException:
            sock.close()
            raise
    except OSError as error:
        raise StartRefused(f"cannot listen on {settings.host} port {port}: {error.strerror}") from None
    return sock


def _at_path(path: Path, mode: int) -> tuple[socket.socket, _File]:
    """Listen on a Unix socket; no client can connect before it has its mode."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_stale(path)
        sock.bind(os.fspath(path))
        file = _File.at(path)
        path.chmod(mode)
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise StartRefused(f"cannot listen on {path}: {_reason(path, error)}") from None
    except BaseException:
        sock.close()
        raise
    return sock, file


def _reason(path: Path, error: OSError) -> str:
    """Return why no socket can be made at a path, and what to do."""
    directory = path.parent.absolute()
    if isinstance(error, FileNotFoundError):
        return f"the directory {directory} must exist; make it, or give another path"
    if isinstance(error, NotADirectoryError):
        return f"{directory} must be a directory; give another path"
    if isinstance(error, PermissionError):
        who = f"this user must be able to make files in {directory}"
        return f"{who}; change its owner or mode, or give another path"
    return error.strerror or str(error)


def _remove_stale(path: Path) -> None:
    """Remove a socket on which no process listens any more."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise StartRefused(f"cannot listen on {path}: it is no socket; remove it, or give another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)  # a socket whose queue is full would block
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
        except PermissionError:
            who = f"user {found.st_uid}'s socket"
            raise StartRefused(f"cannot listen on {path}: it is {who}; give another path") from None
        except BlockingIOError:
            pass
    raise StartRefused(
        f"cannot listen on {path}: another process answers there; stop it, or give another path"
    )


def _socket_of(descriptor: int) -> socket.socket:
    """Return a passed socket; no child inherits it."""
    try:
        sock = socket.socket(fileno=descriptor)
    except OSError as error:
        raise StartRefused(
            f"descriptor {descriptor} of LISTEN_FDS must be a socket: {error.strerror}"
        ) from None
    sock.set_inheritable(False)
    return sock


def _check_passed(sock: socket.socket, settings: Settings) -> None:
    if sock.type != socket.SOCK_STREAM or not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        raise StartRefused(f"a socket of LISTEN_FDS must be a stream socket that listens, got {sock!r}")
    if sock.family != socket.AF_UNIX:
        host = sock.getsockname()[0]
        if not (settings.insecure or settings.tokens or is_loopback(canonical_host(host) or host)):
            raise UnprotectedError(host, "give --tokens FILE or --insecure, or change the socket's address")
