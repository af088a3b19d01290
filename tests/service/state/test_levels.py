"""The level of a log: it begins at 1 for ever, and a program stops where it does not know it."""

from contextlib import closing
from hashlib import blake2b

import msgspec
import pytest
from msgspec import Raw

from purgatory_async.service.state.fold import fold as folding
from purgatory_async.service.state.fold.checkpoint import parts
from purgatory_async.service.state.fold.entries import ExtendLease, PutItem, SetLevel, WantItem
from purgatory_async.service.state.fold.fold import DIGEST_BYTES, Fold, LevelError
from purgatory_async.service.state.fold.records import Foot
from purgatory_async.service.state.fold.restoring import Restoring, empty_after, restored
from purgatory_async.service.state.fold.results import Extended
from purgatory_async.service.state.fold.shared import SECOND


def test_a_log_begins_at_level_1_whatever_the_program_knows(monkeypatch):
    monkeypatch.setattr(folding, "LEVEL", 3)
    with closing(Fold()) as fold, closing(empty_after(7)) as later:
        assert (fold.level, later.level) == (1, 1)
        fold.apply(1, 1, SetLevel(level=3))
        assert fold.level == 3


def test_a_level_that_is_not_known_is_told_from_damage():
    with closing(Fold()) as fold:
        with pytest.raises(LevelError, match="level must be at most 1 at position 1, got 2"):
            fold.apply(1, 1, SetLevel(level=2))
        fold.level = 2
        with pytest.raises(LevelError, match="a checkpoint's level must be at most 1, got 2"):
            Restoring().add(next(parts(fold)))


def test_a_checkpoint_of_a_higher_level_may_have_other_lines():
    with closing(Fold()) as fold:
        fold.level = 2
        head = next(parts(fold)).partition(b"\n")[0]
    content = head + b'\n{"k":"later"}\n'
    foot = msgspec.json.encode(Foot(blake2b(content, digest_size=DIGEST_BYTES).hexdigest()))
    with pytest.raises(LevelError, match="got 2; upgrade"):
        Restoring().add(content + foot + b"\n")


def test_a_checkpoint_of_before_delays_is_still_read():
    """Its items have no time and no attempts; a loan of then lasts as long as usual when it is extended."""
    with closing(Fold()) as before:
        for number in (1, 2):
            before.apply(number, 1, PutItem(queue="q", item=Raw(b"%d" % number)))
        before.apply(3, 1, WantItem(queue="q", lease_id="l", lease=SECOND))
        text = b"".join(parts(before)).replace(b',"lease":1000000', b"")
    assert b'{"k":"item","number":2,"queue":"q","item":2}' in text
    assert b'{"k":"lease","position":3,"id":"l","queue":"q","number":1,"item":1,"until_us":' in text
    content = text[: text.rindex(b"\n", 0, -1) + 1]
    foot = msgspec.json.encode(Foot(blake2b(content, digest_size=DIGEST_BYTES).hexdigest()))
    with closing(restored([content + foot + b"\n"])) as fold:
        assert fold.apply(4, 2, ExtendLease(lease_id="l"))[0] == Extended(30 * SECOND)
