"""Results stand under their name whole or not at all, and what was there before is never touched."""

import os
from pathlib import Path

import pytest

from purgatory_async.pipeline import Refused
from purgatory_async.pipeline.output import check_fresh, staged
from purgatory_async.pipeline.spark_tables import spark_writes


def names(directory):
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


@pytest.mark.parametrize("path", ["new", "empty", "new/and/deeper"])
def test_a_new_or_empty_directory_is_fresh_and_stays_unmade(tmp_path, path):
    (tmp_path / "empty").mkdir()
    check_fresh(tmp_path / path)
    assert names(tmp_path) == ["empty"]


@pytest.mark.parametrize("kind", ["full", "hidden", "file", "broken"])
def test_what_is_there_is_refused_by_its_path(tmp_path, kind):
    out = tmp_path / "out"
    match kind:
        case "full" | "hidden":
            out.mkdir()
            (out / (".hidden" if kind == "hidden" else "mine")).touch()
        case "file":
            out.touch()
        case "broken":
            out.symlink_to(tmp_path / "nowhere")
    with pytest.raises(Refused, match=f"^--out {out} (is|must be) "):
        check_fresh(out)


def test_a_place_where_nothing_can_be_made_is_refused(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    with pytest.raises(Refused, match="file is not a writable directory"):
        check_fresh(tmp_path / "file" / "out")
    monkeypatch.setattr(os, "access", lambda *_: False)  # the tests may run as root
    with pytest.raises(Refused, match=f"{tmp_path} is not a writable directory"):
        check_fresh(tmp_path / "out")


@pytest.mark.parametrize("there", [False, True])
def test_results_appear_only_once_all_are_on_disk(tmp_path, monkeypatch, there):
    synced = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda number: (synced.append(os.fstat(number).st_ino), real(number)))
    out = tmp_path / "deep" / "out"
    if there:
        out.mkdir(parents=True)
    with staged(out) as stage:
        (stage.folder / "table").mkdir()
        (stage.folder / "table" / "part").write_text("1")
        inodes = {
            path.stat().st_ino
            for path in (stage.folder, stage.folder / "table", stage.folder / "table" / "part")
        }
        assert stage.folder.name.startswith(".")
        assert not out.exists() or names(out) == []
    assert names(tmp_path) == ["deep", "deep/out", "deep/out/table", "deep/out/table/part"]
    assert inodes <= set(synced)
    assert synced[-1] == out.parent.stat().st_ino


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_block_that_fails_leaves_nothing(tmp_path, error):
    def fail():
        with staged(tmp_path / "out") as stage:
            (stage.folder / "part").write_text("half")
            raise error

    with pytest.raises(error):
        fail()
    assert names(tmp_path) == []


def test_results_of_a_faster_run_are_not_replaced(tmp_path):
    out = tmp_path / "out"

    def lose():
        with staged(out) as stage:
            (stage.folder / "part").write_text("late")
            out.mkdir()
            (out / "part").write_text("first")

    with pytest.raises(OSError, match="not empty"):
        lose()
    assert names(tmp_path) == ["out", "out/part"]
    assert (out / "part").read_text() == "first"


def test_a_link_to_an_empty_directory_stays_a_link(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to("disk")
    check_fresh(tmp_path / "out")
    with staged(tmp_path / "out") as stage:
        (stage.folder / "part").touch()
    assert (tmp_path / "out").is_symlink()
    assert names(tmp_path) == ["disk", "disk/part", "out"]


def test_a_relative_path_is_where_the_process_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_fresh(Path("out"))
    with staged(Path("out")):
        pass
    assert names(tmp_path) == ["out"]


def test_a_table_is_written_where_the_stage_is(spark, tmp_path):
    with staged(tmp_path / "out with # and space") as stage:
        spark_writes(spark.range(3), stage.tables / "table")
    assert spark.read.parquet(str(tmp_path / "out with # and space" / "table")).count() == 3
