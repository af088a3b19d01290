"""Names a directory or a file: on this machine, or in an S3 store, which pyarrow reads and writes.

What is local stays a `pathlib.Path`. A `StorePath` has the part of its interface that journals and results need, so
most code takes either. Only its text goes to Spark's workers: each process finds endpoint, region and credentials in
its own environment, as AWS's tools do (``AWS_ENDPOINT_URL``, ``AWS_REGION``, ``AWS_ACCESS_KEY_ID``, ``~/.aws``).
"""

import errno
import io
import os
import re
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, Final

import pyarrow as pa
from pyarrow import fs

from purgatory_async.journal.segments import is_url

_STORE: Final = re.compile(r"(s3a?)://([a-z0-9][a-z0-9.-]+(?:/.*)?)")
_FILE: Final = re.compile(r"file:(?://)?(/(?!/).*)")
_BUFFER: Final = 1 << 16
_CHUNK: Final = 1 << 23  # bytes; a store takes parts of at least 5 MiB
_CONNECT_S: Final = 10
# Of the whole message of AWS's library, what went wrong.
_REASON: Final = re.compile(r"AWS Error (.*?)\s*(?:\(Request ID: .*)?$", re.DOTALL)


@dataclass(frozen=True, slots=True, order=True)
class StorePath:
    """A directory or an object in an S3 store."""

    scheme: str  # s3 or s3a; both mean the same
    key: str  # bucket and names, separated by slashes

    def __str__(self) -> str:
        return f"{self.scheme}://{self.key}"

    def __truediv__(self, name: str) -> "StorePath":
        return StorePath(self.scheme, f"{self.key}/{name}")

    @property
    def name(self) -> str:
        """The last part."""
        return self.key.rpartition("/")[2]

    @property
    def stem(self) -> str:
        """The name without its ending."""
        return Path(self.name).stem

    def absolute(self) -> "StorePath":
        """Return the path: every path in a store is absolute."""
        return self

    def exists(self) -> bool:
        """Whether it is an object, or a directory with objects; raises OSError if the store cannot be asked."""
        with self._explained():
            return bool(_store().get_file_info(self.key).type != fs.FileType.NotFound)

    def iterdir(self) -> Iterator["StorePath"]:
        """List a directory; raises OSError if it cannot be read, FileNotFoundError if it has no objects."""
        with self._explained():
            entries = _store().get_file_info(fs.FileSelector(self.key))
        return (StorePath(self.scheme, entry.path) for entry in entries)

    def open(self, mode: str = "rb", buffering: int = -1) -> BinaryIO:
        """Open an object for reading; each filling of the buffer is a request. Raises OSError as `Path.open` does."""
        assert mode == "rb", mode
        return io.BufferedReader(self.arrow(), _BUFFER if buffering < 0 else buffering)

    def arrow(self) -> pa.NativeFile:
        """Open an object as pyarrow's readers want it; raises OSError as `Path.open` does."""
        with self._explained():
            return _store().open_input_file(self.key)

    def put(self, content: BinaryIO) -> None:
        """Write an object, which appears once it is complete; raises OSError if the store does not take it."""
        with self._explained(), _store().open_output_stream(self.key, buffer_size=_CHUNK) as stream:
            shutil.copyfileobj(content, stream, _CHUNK)

    def unlink(self) -> None:
        """Remove an object; raises OSError if the store does not."""
        with self._explained():
            _store().delete_file(self.key)

    def remove(self) -> None:
        """Remove a directory, with everything in it; raises OSError if the store does not."""
        with self._explained():
            _store().delete_dir(self.key)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Let an error have the attributes of the operating system's: its reason and its file."""
        try:
            yield
        except FileNotFoundError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self)) from None
        except OSError as error:
            found = _REASON.search(str(error))
            raise OSError(error.errno or errno.EIO, found[1] if found else str(error), str(self)) from None


Location = Path | StorePath


def parsed(text: str) -> Location:
    """Find what a text names: a path, or a URL that begins with ``s3a://``, ``s3://`` or ``file:/``.

    >>> parsed("s3a://bucket/a/b/"), parsed("file:///data"), parsed("data")
    (StorePath(scheme='s3a', key='bucket/a/b'), PosixPath('/data'), PosixPath('data'))

    Raises:
        ValueError: It names nothing, something in another kind of store, or something that Java cannot name.
    """
    if not text or "\0" in text:
        raise ValueError(f"must name a directory, got {text!r}")
    if any("\ud800" <= letter <= "\udfff" for letter in text):  # as Python keeps bytes that are no text
        encoding = sys.getfilesystemencoding()
        raise ValueError(f"must be a name in {encoding}, got {text!r}; rename it, or set LC_ALL=C.UTF-8")
    if local := _FILE.fullmatch(text):
        return Path(local[1])
    if not is_url(text):
        return Path(text)
    store = _STORE.fullmatch(text.rstrip("/"))
    if store is None or not {"", ".", ".."}.isdisjoint(store[2].split("/")):
        raise ValueError(
            f"must be a directory or a URL like s3a://bucket/path, got {text!r}; mount any other store, or copy from it"
        )
    return StorePath(store[1], store[2])


def arrow_source(place: Location) -> Path | pa.NativeFile:
    """A file as pyarrow's readers want it; raises OSError if the store does not have it."""
    return place if isinstance(place, Path) else place.arrow()


@contextmanager
def whole(path: Location) -> Iterator[Path]:
    """Yield a name for a local file, which appears under its own name once the block succeeds; replaces another."""
    if isinstance(path, Path):
        unfinished = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
        try:
            yield unfinished
            unfinished.rename(path)
        finally:
            unfinished.unlink(missing_ok=True)
        return
    with TemporaryDirectory(prefix="purgatory-") as scratch:
        yield (unfinished := Path(scratch, path.name))
        with unfinished.open("rb") as content:
            path.put(content)


def _store() -> fs.S3FileSystem:
    # pyarrow itself does not read these, although AWS's own tools do.
    return _connected(os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL"))


@cache
def _connected(endpoint: str | None) -> fs.S3FileSystem:
    return fs.S3FileSystem(endpoint_override=endpoint, allow_delayed_open=True, connect_timeout=_CONNECT_S)
