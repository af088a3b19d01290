"""What is compared between the builds, and what is read from callgrind."""

import pytest

from bench.core.build_probe import SCENES
from bench.core.sections import builds, cost
from bench.core.sections.builds import SUBJECTS
from bench.core.workload import GatedOperation, Workload
from bench.measure import instructions
from bench.measure.line import Verdict
from bench.measure.loops import run_on


class FewSettings:
    operations, rounds, heavy_rounds, loops, seed = 10, 1, 1, ("asyncio",), 1


def test_the_floor_is_subtracted_from_ours_and_the_peer():
    waits = next(subject for subject in SUBJECTS if subject.scene == "wait")
    taken = {"wait": 5_000.0, "asyncio.timeout": 9_000.0, "bare future": 4_000.0}
    assert [waits.figure(scene, taken) for scene in ("wait", "asyncio.timeout")] == [1_000.0, 5_000.0]


def test_every_subject_asks_for_scenes_of_the_probe():
    compared = {scene for subject in SUBJECTS for scene in subject.scenes}
    assert compared | {scene for subject in cost.SUBJECTS.values() for scene in subject if scene} == set(
        SCENES
    )


def test_without_valgrind_one_sentence_is_printed(monkeypatch):
    monkeypatch.setattr(instructions.shutil, "which", lambda _: None)
    (row,) = builds.instructions(FewSettings)
    assert str(row) == "valgrind is not installed: instructions are not counted."
    assert row.verdict is Verdict.SHOWN


def test_without_the_compiled_core_only_pure_is_measured(monkeypatch):
    monkeypatch.setattr(builds, "compiled", False)
    monkeypatch.setattr(builds, "SUBJECTS", ())
    sentence, line = builds.times(FewSettings)
    assert str(sentence) == "The compiled core is not in use: only pure Python is measured."
    assert line.name.endswith("pure")


@pytest.mark.parametrize("scene", SCENES)
def test_each_scene_completes_all_that_it_starts(scene):
    assert run_on("asyncio", SCENES[scene](Workload.of(20, FewSettings))()) > 0
    GatedOperation.condition_holds = False
