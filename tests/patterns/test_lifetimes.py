"""Every pattern can be referred to weakly, says what it is, and is initialised once."""

import weakref

import pytest

from purgatory_async import PurgatoryError, patterns
from purgatory_async.patterns import Generation, Lagged, Published, QuorumImpossible, SubscriberLagged
from tests.patterns.table import made

VALUES = {Generation, Lagged, Published, QuorumImpossible, SubscriberLagged}
CLASSES = sorted(set(patterns.__all__) - {value.__name__ for value in VALUES})


@pytest.fixture(params=CLASSES)
def kind(request):
    """Each class of the package; all of them must be in the table."""
    return getattr(patterns, request.param)


def test_a_second_init_is_refused(kind, monkeypatch):
    init = kind.__init__

    def twice(self, *args, **settings):
        init(self, *args, **settings)
        with pytest.raises(PurgatoryError, match="is initialised: cannot"):
            init(self, *args, **settings)

    monkeypatch.setattr(kind, "__init__", twice)
    with made() as each:
        assert kind in map(type, each)


def test_it_has_a_weak_reference_no_dict_and_its_name(kind):
    with made() as all_of_them:
        (pattern, *_) = [each for each in all_of_them if type(each) is kind]
    assert weakref.ref(pattern)() is pattern
    assert not hasattr(pattern, "__dict__")
    assert repr(pattern).startswith(f"<{kind.__name__} ")
