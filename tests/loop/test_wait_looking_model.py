"""However long looks take and whenever changes are signalled, `wait` with an async ``until`` sees the last one."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from purgatory_async import Purgatory
from purgatory_async.testing import VirtualTimeLoop, assert_clean


@given(
    changes=st.lists(st.integers(0, 12), max_size=5),
    looking=st.lists(st.integers(0, 4), min_size=8, max_size=8),
    paid_at=st.integers(0, 14),
)
def test_no_change_that_was_signalled_goes_unseen(changes, looking, paid_at):
    async def main() -> None:
        paid, running, looks = False, 0, 0
        loop = asyncio.get_running_loop()

        async def look() -> bool:
            nonlocal running, looks
            running += 1
            assert running == 1, "two looks at once"
            seen = paid  # the snapshot of the transaction
            await asyncio.sleep(looking[looks % len(looking)])
            looks += 1
            running -= 1
            return seen

        def pay() -> None:
            nonlocal paid
            paid = True
            purgatory.check_and_complete("row")

        async with Purgatory() as purgatory:
            for change in changes:
                loop.call_at(change, purgatory.check_and_complete, "row")
            loop.call_at(paid_at, pay)
            assert await purgatory.wait("row", until=look, timeout=100)
            # One look may be under way that began before, and one more sees it.
            assert loop.time() <= paid_at + 2 * max(looking)
            assert looks <= len(changes) + 3
            assert_clean(purgatory)

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(main())
