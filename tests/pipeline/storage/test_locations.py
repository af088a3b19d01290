"""What a command's options name, and objects that are read and written like files."""

import io
import os
import pickle
from pathlib import Path

import pytest

from purgatory_async.pipeline.locations import StorePath, parsed, whole
from tests.pipeline.storage.conftest import downloaded


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a b/c", Path("a b/c")),
        ("file:///a/b", Path("/a/b")),
        ("file:/a", Path("/a")),
        ("s3a://bucket", StorePath("s3a", "bucket")),
        ("s3://bucket/a b/c=1//", StorePath("s3", "bucket/a b/c=1")),
    ],
)
def test_a_text_names_a_path_or_a_place_in_a_store(text, place):
    assert parsed(text) == place
    assert pickle.loads(pickle.dumps(place)) == place


@pytest.mark.parametrize(
    "text",
    ["", "a\0b", "hdfs://h/x", "file://host/x", "s3a:/b/x", "s3a://", "s3a://b1/x//y", "s3a://b1/../x"],
)
def test_a_text_that_names_neither_is_refused(text):
    with pytest.raises(ValueError, match=r"must (name a directory|be a directory or a URL like s3a://)"):
        parsed(text)


def test_a_name_that_is_no_text_is_refused():
    # Java would be given another name, or the call to it fails.
    with pytest.raises(
        ValueError, match=r"must be a name in utf-8, got 'a\\udcff'; rename it, or set LC_ALL"
    ):
        parsed(os.fsdecode(b"a\xff"))


def test_an_object_is_read_like_a_file(bucket):
    content = bytes(range(256)) * 1000
    (bucket / "a" / "b").put(io.BytesIO(content))
    with (bucket / "a" / "b").open() as file:
        assert file.seek(0, 2) == len(content)
        file.seek(1000)
        assert file.read(70_000) == content[1000:71_000]
    assert [str(path) for path in bucket.iterdir()] == [f"{bucket}/a"]
    assert ((bucket / "a").exists(), (bucket / "b").exists()) == (True, False)


def test_an_error_of_a_store_names_place_and_reason(bucket, monkeypatch):
    with pytest.raises(FileNotFoundError) as missing:
        (bucket / "x").open()
    assert missing.value.filename == f"{bucket}/x"
    with pytest.raises(OSError, match=r"NO_SUCH_BUCKET .*: The specified bucket does not exist") as error:
        list(parsed("s3a://nowhere-at-all/x").iterdir())
    assert error.value.filename == "s3a://nowhere-at-all/x"
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(OSError, match=r"NETWORK_CONNECTION .* connect to"):
        list(bucket.iterdir())


def test_a_file_here_appears_once_whole(tmp_path):
    check_whole(tmp_path)


def test_an_object_appears_once_whole(bucket):
    check_whole(bucket)


def check_whole(place):
    def fail():
        with whole(place / "file") as unfinished:
            unfinished.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert list(place.iterdir()) == []
    with whole(place / "file") as unfinished:
        unfinished.write_text("whole")
        assert not (place / "file").exists()
    with (place / "file").open("rb") as file:
        assert file.read() == b"whole"
    assert [path.name for path in place.iterdir()] == ["file"]


def test_an_object_of_several_parts_is_whole(bucket):
    content = b"0123456789abcdef" * (20 << 16)  # 20 MiB
    (bucket / "large").put(io.BytesIO(content))
    assert downloaded(bucket) == {"large": content}
