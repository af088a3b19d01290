"""See that nothing was left behind."""

from purgatory_async.loop.purgatory import Purgatory

__all__ = ["assert_clean"]


def assert_clean(purgatory: Purgatory) -> None:
    """Assert that no operation, watcher, key, timer entry or wakeup of a purgatory is left.

    Raises:
        AssertionError: Something is left; the message says what, and on which keys.
    """
    pending = list(purgatory.operations())
    assert not pending, (
        f"{len(pending)} operations are still pending in {purgatory.name!r}: "
        + "; ".join(f"{operation!r}" for operation in pending[:10])
        + (" ..." if len(pending) > 10 else "")  # noqa: PLR2004 - a screenful
    )
    purgatory.check_invariants()
    assert purgatory.watched == 0, f"{purgatory.watched} watchers are left in {purgatory.name!r}"
    assert purgatory.keys == 0, f"{purgatory.keys} keys are left in {purgatory.name!r}"
    timer = purgatory.timer
    timer.check_invariants()
    if purgatory._owns_timer:
        assert timer.pending == 0, f"{timer.pending} timer entries are left in {timer!r}"
    if timer.pending == 0:
        assert timer.next_deadline is None, (
            f"an idle timer has something to do at {timer.next_deadline} s: {timer!r}"
        )
        assert timer._wakeup is None, f"an idle timer has a wakeup armed: {timer!r}"
