"""The level of a log: it begins at 1 for ever, and a program stops where it does not know it."""

from contextlib import closing
from hashlib import blake2b

import msgspec
import pytest

from purgatory_async.cluster import entries as signals
from purgatory_async.durable.fold import fold as folding
from purgatory_async.durable.fold.checkpoint import parts
from purgatory_async.durable.fold.codec import EntryError, decode
from purgatory_async.durable.fold.entries import SetLevel
from purgatory_async.durable.fold.fold import DIGEST_BYTES, Fold, FoldError, LevelError
from purgatory_async.durable.fold.records import Foot
from purgatory_async.durable.fold.restoring import Restoring, empty_after


def test_a_log_begins_at_level_1_whatever_the_program_knows(monkeypatch):
    monkeypatch.setattr(folding, "LEVEL", 4)
    with closing(Fold()) as fold, closing(empty_after(7)) as later:
        assert (fold.level, later.level) == (1, 1)
        fold.apply(1, 1, SetLevel(level=4))
        assert fold.level == 4


def test_a_cluster_reads_each_level_that_a_store_can_have():
    # Both stand on one log: else an application stops, once a `Durable` or a service has begun the log.
    assert signals.LEVEL == folding.LEVEL


def test_a_level_that_is_not_known_is_told_from_damage():
    with closing(Fold()) as fold:
        with pytest.raises(LevelError, match="level must be at most 3 at position 1, got 4"):
            fold.apply(1, 1, SetLevel(level=4))
        fold.level = 4
        with pytest.raises(LevelError, match="a checkpoint's level must be at most 3, got 4"):
            Restoring().add(next(parts(fold)))


def test_a_checkpoint_of_a_higher_level_may_have_other_lines():
    with closing(Fold()) as fold:
        fold.level = 4
        head = next(parts(fold)).partition(b"\n")[0]
    content = head + b'\n{"k":"later"}\n'
    foot = msgspec.json.encode(Foot(blake2b(content, digest_size=DIGEST_BYTES).hexdigest()))
    with pytest.raises(LevelError, match="got 4; upgrade"):
        Restoring().add(content + foot + b"\n")


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(b'{"k":"put","queue":"q","item":1}', id="an item without a time"),
        pytest.param(b'{"k":"want","queue":"q","lease_id":"l"}', id="a lease that is no attempt"),
        pytest.param(b'{"k":"limits","max_bytes":100}', id="the former budget"),
    ],
)
def test_an_entry_of_an_earlier_commit_is_refused(entry):
    with pytest.raises(EntryError, match="before the first release does not open: begin with a new one"):
        decode(entry)


def test_a_checkpoint_of_an_earlier_commit_is_refused():
    with closing(Fold()) as fold:
        head = next(parts(fold)).partition(b"\n")[0].replace(b'"limits":{', b'"limits":{"max_bytes":100,')
    foot = msgspec.json.encode(Foot(blake2b(head + b"\n", digest_size=DIGEST_BYTES).hexdigest()))
    with pytest.raises(FoldError, match="before the first release does not open: begin with a new one"):
        Restoring().add(head + b"\n" + foot + b"\n")
