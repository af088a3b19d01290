"""The page's table of cost: a row for each subject, less its floor, as Markdown."""

from bench.core.sections.cost import SECTION, SUBJECTS, Cost, table

FOUND = {
    **{scene: 0.0 for subject in SUBJECTS.values() for scene in subject if scene},
    "one key": 900.0,
    "one key by hand": 4_000.0,
    "wait": 3_500.0,
    "call_later by hand": 4_100.0,
    "bare future": 2_500.0,
}


def test_a_row_has_its_floor_taken_off_and_its_builds_apart():
    pure = {**FOUND, "one key": 2_900.0, "wait": 7_500.0}
    rows = {row.name: row for row in table("uvloop", {False: [FOUND, FOUND], True: [pure]})}
    one, wait = (
        rows["make, watch and complete, one key"],
        rows["what a `wait` with a timeout adds to a future"],
    )
    assert (one.compiled, one.pure, one.by_hand) == (900.0, 2_900.0, 4_000.0)
    assert (wait.compiled, wait.pure, wait.by_hand) == (1_000.0, 5_000.0, 1_600.0)


def test_without_the_compiled_core_its_column_is_empty():
    row = str(next(table("asyncio", {True: [FOUND]})))
    assert row == "| make, watch and complete, one key, ns | asyncio |  | 900 | 4 000 |"
    assert row.count("|") == SECTION.heading.partition("\n")[0].count("|")


def test_thousands_are_set_apart_as_on_the_page():
    assert "| 12 345 | 1 |" in str(
        Cost(name="a", loop="asyncio", unit="ns", compiled=None, pure=12_345.0, by_hand=1.0)
    )
