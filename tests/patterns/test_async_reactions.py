"""``on_give_up`` and ``on_release`` may be async: they run in tasks of their own, which closing waits for."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import pytest

from purgatory_async import Purgatory, Timer
from purgatory_async.patterns import Barrier, Heartbeat, Periodic, Retrier
from purgatory_async.testing import ManualClock, settle
from tests.loop.worlds import reports

pytestmark = pytest.mark.filterwarnings("error")


class Reaction:
    """An async function in any dress, which goes on until it is let go."""

    def __init__(self, error: Exception | None = None) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.ended = 0
        self.let_go = asyncio.Event()
        self.error = error

    async def __call__(self, *what: object) -> None:
        self.calls.append(what)
        await self.let_go.wait()
        self.ended += 1
        if self.error is not None:
            raise self.error


DRESSES: dict[str, Callable[[Reaction], Callable[..., object]]] = {
    "object": lambda reaction: reaction,
    "method": lambda reaction: reaction.__call__,
    "partial": partial,
    "lambda": lambda reaction: lambda *what: reaction(*what),  # noqa: PLW0108 - it hides the async call
}


async def failing() -> None:
    raise OSError("down")


async def give_up(react: Callable[..., object]) -> Retrier[str]:
    """A retrier that has just given up."""
    clock = ManualClock()
    retrier: Retrier[str] = Retrier(Timer(clock=clock), delay=1, attempts=1, on_give_up=react)
    retrier.submit("key", failing)
    clock.advance(1)
    await settle()
    return retrier


async def release(react: Callable[..., object]) -> Barrier[str]:
    """A barrier that has just released its members."""
    purgatory: Purgatory = Purgatory()
    barrier: Barrier[str] = Barrier(purgatory, "key", expect=1, timeout=None, on_release=react)
    await barrier.arrive("member")
    await settle()
    purgatory.close()
    return barrier


async def leave(pattern: Any) -> None:
    if isinstance(pattern, Retrier):
        await pattern.aclose()
        return
    async with pattern as entered:
        assert entered is pattern


BOTH: tuple[Callable[..., Any], ...] = (give_up, release)


@pytest.mark.parametrize("dress", DRESSES.values(), ids=DRESSES)
@pytest.mark.parametrize("happen", BOTH)
@pytest.mark.asyncio
async def test_closing_waits_for_an_async_reaction(happen: Any, dress: Any) -> None:
    reaction, reported = Reaction(), reports()
    pattern = await happen(dress(reaction))
    assert (len(reaction.calls), reaction.ended) == (1, 0)
    closing = asyncio.ensure_future(leave(pattern))
    await settle()
    assert not closing.done()
    reaction.let_go.set()
    await closing
    assert (reaction.ended, reported) == (1, [])


@pytest.mark.parametrize("happen", BOTH)
@pytest.mark.asyncio
async def test_a_cancelled_close_cancels_no_reaction(happen: Any) -> None:
    reaction = Reaction()
    pattern = await happen(reaction)
    closing = asyncio.ensure_future(pattern.aclose())
    await settle()
    closing.cancel()
    await settle()
    reaction.let_go.set()
    await pattern.aclose()
    assert (reaction.ended, closing.cancelled()) == (1, True)


@pytest.mark.parametrize("happen", BOTH)
@pytest.mark.asyncio
async def test_an_error_of_an_async_reaction_is_reported(happen: Any) -> None:
    reaction, reported = Reaction(ValueError("reaction")), reports()
    pattern = await happen(reaction)
    reaction.let_go.set()
    await pattern.aclose()
    assert [str(report["exception"]) for report in reported] == ["reaction"]


@pytest.mark.asyncio
async def test_reactions_that_close_do_not_wait_for_each_other() -> None:
    clock, begun, ended, both = ManualClock(), [], [], asyncio.Event()

    async def close(key: str, _: BaseException) -> None:
        begun.append(key)
        if len(begun) == 2:
            both.set()
        await both.wait()  # an eager task would close before the other attempt
        await retrier.aclose()
        ended.append(key)

    retrier: Retrier[str] = Retrier(Timer(clock=clock), delay=1, attempts=1, on_give_up=close)
    for key in "ab":
        retrier.submit(key, failing)
    clock.advance(1)
    await settle()
    assert sorted(ended) == ["a", "b"]


async def stream(*_: object) -> AsyncIterator[int]:
    yield 1


@pytest.mark.asyncio
async def test_an_async_generator_is_refused() -> None:
    timer = Timer(clock=ManualClock())
    purgatory: Purgatory = Purgatory(timer=timer)
    makers: tuple[Callable[[], object], ...] = (
        lambda: Retrier(timer, on_give_up=stream),
        lambda: Barrier(purgatory, "key", expect=1, timeout=1, on_release=stream),
        lambda: Periodic(timer, 1, stream),
        lambda: Heartbeat(timer, send=stream, on_dead=print),
        lambda: Heartbeat(timer, send=print, on_dead=stream),
        lambda: Retrier(timer, random=failing),  # type: ignore[arg-type]
    )
    for make in makers:
        with pytest.raises(TypeError, match="must be a plain"):
            make()
    assert timer.pending == 0
