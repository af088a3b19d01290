"""Results in a store: complete with ``_SUCCESS`` or refused, and never on top of something."""

import io

import pytest

from purgatory_async.pipeline import Refused
from purgatory_async.pipeline.output import check_fresh, staged
from tests.pipeline.storage.conftest import downloaded


def test_success_is_written_after_everything_else(bucket):
    out = bucket / "out"
    with staged(out) as stage:
        (stage.tables / "table" / "part").put(io.BytesIO(b"rows"))
        (stage.folder / "figures").mkdir()
        (stage.folder / "figures" / "a.svg").write_bytes(b"svg")
        (stage.folder / "summary.json").write_bytes(b"{}")
        assert "_SUCCESS" not in downloaded(out)
    assert downloaded(out) == {
        "table/part": b"rows",
        "figures/a.svg": b"svg",
        "summary.json": b"{}",
        "_SUCCESS": b"",
    }


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_run_that_fails_leaves_nothing_in_the_store(bucket, error):
    def fail():
        with staged(bucket / "out") as stage:
            (stage.tables / "table" / "part").put(io.BytesIO(b"rows"))
            (stage.folder / "summary.json").write_bytes(b"{}")
            raise error

    with pytest.raises(error):
        fail()
    assert downloaded(bucket) == {}


def test_what_is_in_the_store_is_refused_untouched(bucket):
    out = bucket / "out"
    check_fresh(out)
    (out / "mine").put(io.BytesIO(b"mine"))
    with pytest.raises(Refused, match=f"^--out {out} is not empty"):
        check_fresh(out)
    with pytest.raises(Refused, match="must be a directory, got an object"):
        check_fresh(out / "mine")
    with pytest.raises(Refused, match="another run"), staged(out):
        pass
    assert downloaded(bucket) == {"out/mine": b"mine"}


def test_unfinished_results_are_refused_as_such(bucket):
    with staged(bucket / "out"), pytest.raises(Refused, match=r"out has unfinished results.*or was killed"):
        check_fresh(bucket / "out")


# Neither could be renamed away from the other's files.
def test_of_two_runs_at_once_at_most_one_goes_on(bucket):
    with staged(bucket / "out") as first:
        (first.folder / "summary.json").write_bytes(b"first")
        with pytest.raises(Refused, match="is written by another run"), staged(bucket / "out"):
            pass
    assert downloaded(bucket / "out") == {"summary.json": b"first", "_SUCCESS": b""}


def test_a_bucket_that_does_not_exist_is_refused(bucket):
    missing = type(bucket)("s3a", "nowhere-at-all") / "out"
    with pytest.raises(Refused, match="cannot be listed: NO_SUCH_BUCKET"):
        check_fresh(missing)
    with pytest.raises(Refused, match="cannot be written: NO_SUCH_BUCKET"), staged(missing):
        pass
