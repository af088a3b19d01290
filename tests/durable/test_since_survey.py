"""A reader far behind looks at the keys in steps, between which signals come and go: nothing is lost in silence."""

from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from purgatory_async.durable import since
from purgatory_async.durable.fold.entries import SetLimits, SignalKey, Tick
from purgatory_async.durable.fold.fold import Fold
from purgatory_async.durable.since import Survey, Wanted, kept_since

KEYS = [f"{prefix}{number}" for prefix in "ab" for number in range(6)]
ENTRIES = st.one_of(
    st.builds(SignalKey, key=st.sampled_from(KEYS), value=st.just(Raw(b"1" * 99))),
    st.builds(SetLimits, max_kept=st.integers(1500, 4000), keep_signals=st.integers(1, 4)),
    st.just(Tick()),
)
LATER = st.sampled_from([0, 0, 0, 0, 400_000_000])


def steps(fewest, most):
    return st.lists(st.tuples(LATER, ENTRIES), min_size=fewest, max_size=most)


def apply(fold, entries):
    for after_us, entry in entries:
        fold.apply(fold.position + 1, fold.at_us + after_us, entry)


@pytest.fixture(autouse=True, scope="module")
def _small_steps():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(since, "AT_ONCE", 2)
        yield


@settings(max_examples=80)
@given(
    before=steps(20, 40),
    between=st.lists(steps(0, 4), min_size=4, max_size=4),
    index=st.integers(0, 20),
    most=st.integers(1, 3),
)
def test_a_survey_finds_what_one_look_at_the_end_finds(before, between, index, most):
    wanted = Wanted(("b1",), ("a", "b2"))
    with closing(Fold()) as fold:
        apply(fold, before)
        survey = Survey(fold.signals, wanted.prefixes, index, most)
        meanwhile = iter(between)
        for _ in survey.steps():
            apply(fold, next(meanwhile, []))
        found, expected = survey.found(wanted), kept_since(fold.signals, wanted, index, most)
        if found is None or found == expected:
            return
        # A key behind the page has lost signals since its turn: the reader hears of it when it goes on.
        assert found == expected._replace(gap=False)
        assert kept_since(fold.signals, wanted, found.signals[-1].view.index, most).gap


def test_a_survey_that_lost_what_it_found_says_so():
    with closing(Fold()) as fold:
        apply(fold, [(0, SignalKey(key=key)) for key in ("a1", "a2", "a1", "a2", "a3")])
        survey = Survey(fold.signals, ("a",), 0, 2)
        assert len([*survey.steps()]) == 1
        apply(fold, [(0, SetLimits(keep_signals=1))])
        assert survey.found(Wanted((), ("a",))) is None


def test_a_survey_tells_of_a_gap_behind_its_page():
    with closing(Fold()) as fold:
        apply(
            fold,
            [(0, SetLimits(keep_signals=1)), *((0, SignalKey(key=key)) for key in ("a1", "a2", "a3", "a3"))],
        )
        survey = Survey(fold.signals, ("a",), 0, 1)
        assert len([*survey.steps()]) == 1
        assert survey.found(Wanted((), ("a",))).gap
