"""The settings of a service: flags override the environment, which overrides the file.

One reader per setting parses the values of all sources, so a duration has one spelling in TOML, in the environment and
on the command line. An error names the setting, the value, the bound and the source.

>>> resolve(file={"max_wait": "20s"}, environment={"PURGATORY_MAX_WAIT": "30s"}, flags={}).max_wait
30.0
"""

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from shlex import quote
from typing import Any, Final

from purgatory_async.durable.documents.byte_order import bom_fault
from purgatory_async.durable.links.hosts import canonical_host, is_loopback
from purgatory_async.durable.links.public_url import PublicUrl, base_path, public_url
from purgatory_async.durable.store_url import MEMORY, StoreUrl, shown
from purgatory_async.durations import GRAMMAR, MAX_TIMEOUT, parse_duration
from purgatory_async.errors import RefusedError
from purgatory_async.service.settings.addresses import (
    file_mode,
    host_name,
    host_names,
    unix_socket,
)
from purgatory_async.service.settings.sizes import GRAMMAR as SIZE_GRAMMAR
from purgatory_async.service.settings.sizes import parse_size, size_text

ENVIRONMENT_PREFIX: Final = "PURGATORY_"
OTHERS_ENVIRONMENT: Final = frozenset({"PURGATORY_URL", "PURGATORY_TOKEN", "PURGATORY_ASYNC_PURE"})
"""Variables of the client commands and of the library, which are no settings."""
MAX_PENDING: Final = 10_000_000
MAX_WORKERS: Final = 64
MAX_BODY: Final = 1 << 20  # an entry of a log has at most 1.5 MiB
MAX_SIZE: Final = 1 << 50
SMALLEST_JOURNAL: Final = 128 << 20  # two segments
DEFAULT_PORT: Final = 8765
FIRST_PASSED: Final = 3  # behind the standard streams

# How to protect a reachable host, or not, in the syntax of the source that set it.
_WAYS: Final = {
    "the configuration file": 'set tokens = "FILE" or insecure = true',
    "the environment": "set PURGATORY_TOKENS=FILE or PURGATORY_INSECURE=true",
    "the command line": "give --tokens FILE or --insecure",
}

Reader = Callable[[object], object]


class SettingsError(RefusedError, ValueError):
    """A setting is unknown or its value is refused; the message is one sentence."""


class UnprotectedError(SettingsError):
    """Other machines can reach the host and no token protects the service."""

    def __init__(self, host: str, ways: str = "give tokens= or insecure=True") -> None:
        super().__init__(f"host must be a loopback address without tokens, got {host}; {ways}")


def _duration(value: object) -> float:
    try:
        seconds = parse_duration(value) if isinstance(value, str) else value
    except ValueError:
        if shown(value) == repr(value):
            raise
        seconds = None  # it has a password, which the message would show
    if isinstance(seconds, int | float) and not isinstance(value, bool) and 0 <= seconds <= MAX_TIMEOUT:
        return float(seconds)
    raise ValueError(
        f"must be from 0 to {MAX_TIMEOUT:.0f} seconds, or text like 55s ({GRAMMAR}), got {shown(value)}"
    )


def _some_duration(value: object) -> float:
    seconds = _duration(value)
    if not seconds:
        raise ValueError(f"must be above 0 seconds, got {shown(value)}")
    return seconds


def _integer(lowest: int, highest: int) -> Callable[[object], int]:
    def _read(value: object) -> int:
        written = isinstance(value, str) and re.fullmatch("[0-9]{1,10}", value)
        number = int(written[0]) if written else value
        if isinstance(number, int) and not isinstance(number, bool) and lowest <= number <= highest:
            return number
        raise ValueError(f"must be an integer from {lowest} to {highest}, got {shown(value)}")

    return _read


def _size(lowest: int, highest: int = MAX_SIZE) -> Callable[[object], int]:
    def _read(value: object) -> int:
        try:
            size = parse_size(value) if isinstance(value, str) else value
        except ValueError:
            size = None
        if isinstance(size, int) and not isinstance(size, bool) and lowest <= size <= highest:
            return size
        raise ValueError(
            f"must be from {size_text(lowest)} to {size_text(highest)} ({SIZE_GRAMMAR}), got {shown(value)}"
        )

    return _read


def _share(value: object) -> float:
    written = isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", value)
    number = float(written[0]) if written else value
    if isinstance(number, int | float) and not isinstance(number, bool) and 0 <= number <= 1:
        return float(number)
    raise ValueError(f"must be a number from 0 to 1, got {shown(value)}")


def _optional(read: Reader) -> Reader:
    return lambda value: None if value is None else read(value)


def _path(kind: str) -> Callable[[object], Path | None]:
    def _read(value: object) -> Path | None:
        if value is None:
            return None
        if isinstance(value, str | Path) and str(value) and "\0" not in str(value):
            return Path(value)
        raise ValueError(f"must be the path of a {kind}, got {shown(value)}")

    return _read


def _store(value: object) -> StoreUrl:
    if isinstance(value, StoreUrl):
        return value
    if isinstance(value, str):
        return StoreUrl(value)
    raise ValueError(f"must be {MEMORY} or a URL, got {shown(value)}")


def _one_of(*words: str) -> Reader:
    def _read(value: object) -> str:
        if isinstance(value, str) and value in words:
            return str(value)
        raise ValueError(f"must be one of {', '.join(words)}, got {shown(value)}")

    return _read


def _switch(value: object) -> bool:
    known = {"true": True, "1": True, "false": False, "0": False}
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in known:
        return known[value.lower()]
    raise ValueError(f"must be true or false, got {shown(value)}")


def _setting(default: Any, read: Reader, explanation: str, shown: str | None = None) -> Any:
    """Declare a setting; `Any`, because the attribute's type is its value's.

    `shown` explains a default that depends on other settings.
    """
    return field(default=default, metadata={"read": read, "help": explanation, "shown": shown})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of a service; durations are seconds, or text of the duration grammar.

    Raises:
        SettingsError: A value is refused.
    """

    host: str = _setting("127.0.0.1", host_name, "Address to listen on.")
    port: int | None = _setting(
        None,
        _optional(_integer(0, 65_535)),
        "Port to listen on; 0 takes a free one and prints it.",
        f"{DEFAULT_PORT}, or none with --uds",
    )
    base_path: str = _setting(
        "",
        base_path,
        "Path below which a proxy serves it, such as /purgatory; requests may come with or without it.",
        "none",
    )
    uds: Path | None = _setting(  # noqa: RUF009 - what it returns is a field
        None, unix_socket, "Path of a Unix socket to listen on, instead of a port or beside it."
    )
    uds_mode: str = _setting("0600", file_mode, "Permissions of the Unix socket, in octal.")
    reuse_port: bool = _setting(
        False, _switch, "Let another process with this flag listen on the port too, to take it over."
    )
    max_wait: float = _setting(
        "55s", _some_duration, "Longest time a request is held; longer waits are shortened."
    )
    jitter: float = _setting(0.0625, _share, "Largest share of a wait to subtract at random.")
    max_pending: int = _setting(
        100_000, _integer(1, MAX_PENDING), "Most pending operations and one-shot waits."
    )
    max_items: int = _setting(100_000, _integer(1, MAX_PENDING), "Most items in each queue.")
    max_bytes: int = _setting(
        "256MiB",
        _size(1),
        "Most bytes kept of operations, signals, items and events; ended operations and old signals make room.",
    )
    max_unsent: int = _setting(
        "64MiB", _size(1), "Most bytes of answers that clients have not taken; beyond it requests get 503."
    )
    max_body: int = _setting("1MiB", _size(1, MAX_BODY), "Largest body of a request.")
    keep_signals: int = _setting(
        64, _integer(1, MAX_PENDING), "Most signals kept of a key, for readers that go on after an index."
    )
    keep_for: float = _setting("10m", _duration, "How long they are kept, up to that number.")
    max_lease: float = _setting("720m", _some_duration, "Longest lease; longer ones are shortened.")
    retention: float = _setting("60s", _duration, "How long ended operations and idle keys are kept.")
    drain_delay: float = _setting(
        "0s", _duration, "How long /readyz answers 503 before a stop or drain takes effect."
    )
    header_timeout: float = _setting(
        "10s", _some_duration, "Time for a request's head, from the connection or the last answer."
    )
    body_timeout: float = _setting("30s", _some_duration, "Time for a request's body.")
    send_timeout: float = _setting(
        "30s", _some_duration, "How long a client may take nothing of an answer before it is cut."
    )
    tokens: Path | None = _setting(  # noqa: RUF009 - what it returns is a field
        None,
        _path("file"),
        "File with a token of at least 16 characters and its scopes on each line; without it all requests pass.",
    )
    allow_host: tuple[str, ...] = _setting(
        (), host_names, "Another host name that requests may name; repeatable."
    )
    public_url: PublicUrl | None = _setting(  # noqa: RUF009 - what it returns is a field
        None,
        public_url,
        "URL under which people reach it, such as https://example.org/purgatory; questions get links below it.",
    )
    link_secret: Path | None = _setting(  # noqa: RUF009 - what it returns is a field
        None,
        _path("file"),
        "File with 1 to 4 secrets of at least 32 characters on lines of their own, which sign links.",
        "one of this run; a store needs the file",
    )
    insecure: bool = _setting(False, _switch, "Allow a reachable address without tokens.")
    journal: Path | None = _setting(  # noqa: RUF009 - what it returns is a field
        None, _path("directory"), "Directory for a journal of every operation and signal; none by default."
    )
    journal_sync: str = _setting(
        "group",
        _one_of("always", "group", "os"),
        "When to sync the journal: before each answer to a change, every 100 ms, or when the system does.",
    )
    journal_full: str = _setting(
        "drop",
        _one_of("drop", "refuse"),
        "What to do when the disk is too slow or full: drop records (and count them), or refuse new operations.",
    )
    journal_keep: float | None = _setting(
        None,
        _optional(_some_duration),
        "How long the journal keeps a record, such as 30d; older segments are removed.",
        "for ever",
    )
    journal_max_bytes: int | None = _setting(
        None,
        _optional(_size(SMALLEST_JOURNAL)),
        "Size of the journal beyond which its oldest segments are removed.",
        "any size",
    )
    access_log: bool = _setting(False, _switch, "Log each request in one line when it is answered.")
    otel: bool = _setting(
        False,
        _switch,
        "Make spans of operations and queues with the OpenTelemetry SDK of this process, if any.",
    )
    store: StoreUrl = _setting(  # noqa: RUF009 - what it returns is a field
        MEMORY,
        _store,
        "Where the state is kept: memory, sqlite:///PATH, postgresql://..., redis://..., rediss://... or unix://...;"
        " give a password by PURGATORY_STORE, not by a flag, which other users can see.",
    )
    store_sync: str = _setting(
        "always",
        _one_of("always", "os"),
        "When a change is durable: synced by the store before its answer, or when the system does.",
    )
    store_timeout: float = _setting(
        "5s", _some_duration, "How long a request waits for the store before it is answered 503."
    )
    workers: int = _setting(
        1, _integer(1, MAX_WORKERS), "Processes that serve the port; more than one need a store."
    )

    def __post_init__(self) -> None:
        for known in fields(self):
            try:
                value = known.metadata["read"](getattr(self, known.name))
            except ValueError as error:
                raise SettingsError(f"{known.name}: {error}") from None
            object.__setattr__(self, known.name, value)
        if not (self.insecure or self.tokens or is_loopback(canonical_host(self.host) or self.host)):
            raise UnprotectedError(self.host)
        if self.port is None and self.uds is None:
            object.__setattr__(self, "port", DEFAULT_PORT)
        if self.reuse_port and self.port is None:
            raise SettingsError(
                f"reuse_port must be false with uds {self.uds} alone, got True; give --port too"
            )
        if self.workers > 1 and self.store.in_memory:
            raise SettingsError(
                f"workers must be 1 with the store {MEMORY}, got {self.workers}; give --store sqlite:///PATH"
            )
        if self.link_secret and not self.public_url:
            raise SettingsError(
                f"link_secret must be none without public_url, got {str(self.link_secret)!r}; give --public-url URL"
            )
        if self.public_url and not (self.link_secret or self.store.in_memory):
            raise SettingsError(
                f"link_secret must be a file with public_url and the store {self.store}, got none;"
                " give --link-secret FILE"
            )
        if self.journal and not self.store.in_memory:
            raise SettingsError(
                f"journal must be none with a store, got {str(self.journal)!r};"
                f" run: purgatory store export {quote(str(self.store))} --journal {quote(str(self.journal))}"
            )


def resolve(
    *, file: Mapping[str, object], environment: Mapping[str, str], flags: Mapping[str, object]
) -> Settings:
    """Merge the settings from their sources.

    Args:
        file: The contents of the configuration file.
        environment: The process's; only names with the prefix ``PURGATORY_`` count, but for `OTHERS_ENVIRONMENT`.
        flags: Only those given on the command line.

    Raises:
        SettingsError: A name is unknown or a value is refused.
    """
    chosen = choose(file=file, environment=environment, flags=flags)
    if passed_descriptors(environment):
        for name in ("port", "uds", "reuse_port"):
            value, source = chosen.get(name, (None, ""))
            if value is not None and value is not False:
                raise SettingsError(
                    f"{name} in {source} must be absent beside the sockets of LISTEN_FDS, got {value}"
                )
    try:
        return Settings(**{name: value for name, (value, _) in chosen.items()})
    except UnprotectedError:
        host, source = chosen["host"]
        raise UnprotectedError(host, _WAYS[source]) from None


def choose(
    *, file: Mapping[str, object], environment: Mapping[str, str], flags: Mapping[str, object]
) -> dict[str, tuple[Any, str]]:
    """Return each given setting's value and the source that won, by name.

    Arguments and exceptions are as for `resolve`.
    """
    layers: dict[str, Mapping[str, object]] = {
        "the configuration file": file,
        "the environment": {
            name.removeprefix(ENVIRONMENT_PREFIX).lower(): value
            for name, value in environment.items()
            if name.startswith(ENVIRONMENT_PREFIX) and name not in OTHERS_ENVIRONMENT
        },
        "the command line": flags,
    }
    readers = {known.name: known.metadata["read"] for known in fields(Settings)}
    chosen: dict[str, tuple[Any, str]] = {}
    for source, layer in layers.items():
        for name, value in layer.items():
            if name not in readers:
                raise SettingsError(
                    f"unknown setting {shown(name)} in {source}; known are {', '.join(readers)}"
                )
            # Read here too, so that an error can name the source.
            try:
                chosen[name] = readers[name](value), source
            except ValueError as error:
                raise SettingsError(f"{name} in {source}: {error}") from None
    return chosen


def read_file(path: Path) -> dict[str, object]:
    """Return the top level of a configuration file in TOML.

    Raises:
        SettingsError: The file is unreadable or not TOML.
    """
    try:
        content = path.read_bytes()
        if (fault := bom_fault(content)) is not None:
            raise SettingsError(f"the configuration file {path} {fault}")
        return tomllib.loads(content.decode())
    except OSError as error:
        raise SettingsError(f"cannot read the configuration file {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"the configuration file {path} is not TOML: {error}") from None


def passed_descriptors(environment: Mapping[str, str]) -> range:
    """Return the descriptors of the sockets that a service manager passes to this process, as ``sd_listen_fds(3)``.

    Args:
        environment: The process's: ``LISTEN_FDS`` counts them if ``LISTEN_PID`` is this process.

    Raises:
        SettingsError: ``LISTEN_FDS`` is not a number of sockets.
    """
    text = environment.get("LISTEN_FDS")
    if text is None or environment.get("LISTEN_PID") != str(os.getpid()):
        return range(0)
    if not re.fullmatch("[0-9]{1,4}", text):
        raise SettingsError(f"LISTEN_FDS must be a number of sockets, got {text!r}")
    return range(FIRST_PASSED, FIRST_PASSED + int(text))
