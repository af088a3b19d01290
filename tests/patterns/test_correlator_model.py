"""The machine of `Correlator`: requests that are sent at once or slowly, beside replies expected by hand."""

import asyncio
from functools import partial
from itertools import count

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from purgatory_async import OperationCancelled, OperationExpired, Purgatory, PurgatoryClosed, PurgatoryFull
from purgatory_async.patterns import Correlator
from purgatory_async.testing import assert_clean
from tests.patterns.stories import Reference, Story, Wait, step
from tests.patterns.table import LostError


class Call(Wait):
    """A wait for a reply; ``wanted`` is its id, None for a request until it begins."""

    early: object = None  # the reply that came while it was sent
    woken = False  # sending goes on in the next pass, cancelled or not
    sent_as: int | None = None
    after: object = None  # how it ends once it is sent, because nothing interrupts the sending

    def __init__(self, wanted, timeout, *, slow=None) -> None:
        super().__init__(wanted, timeout)
        self.requested = slow is not None
        self.slow = self.sending = bool(slow)


class Table(Reference):
    """Who has which id."""

    def __init__(self, ids) -> None:
        super().__init__()
        self.ids = ids
        self.last = len(ids) - 1
        self.taken: dict[object, Call] = {}
        self.known: set[object] = set()
        self.late = self.unknown = 0
        self.refusal: type[Exception] | None = None

    def start(self, wait) -> None:
        if self.refusal is not None:
            wait.end = self.refusal
            return
        if wait.requested:
            turn = [(self.last + 1 + passed) % len(self.ids) for passed in range(len(self.ids))]
            place = next((each for each in turn if self.ids[each] not in self.taken), None)
            if place is None:
                wait.end = PurgatoryFull
                return
            self.last, wait.wanted = place, self.ids[place]
        elif wait.wanted in self.taken:
            wait.end = ValueError
            return
        wait.deadline = None if wait.timeout is None else self.now + wait.timeout
        self.taken[wait.wanted] = wait
        self.known.add(wait.wanted)

    def leave(self, wait) -> bool:
        """Free its id: at once while it awaits its reply, when its task runs while it is sent."""
        if not wait.sending:
            self.free(wait)
        elif not wait.woken:
            self.next_pass(None, partial(self.free, wait))
        return True

    def free(self, wait) -> None:
        if self.taken.get(wait.wanted) is wait:
            del self.taken[wait.wanted]

    def let_go(self, wait) -> None:
        wait.woken = True
        self.next_pass(None, partial(self.sent, wait))

    def sent(self, wait) -> None:
        wait.sending = False
        if wait.end == "cancelled":
            self.free(wait)
        elif wait.after is not None:
            wait.end = wait.after
        elif wait.early is not None and wait.end is None:
            self.finish(wait, wait.early)

    def finish(self, wait, end, *, interrupts=True) -> None:
        self.free(wait)
        if wait.sending and not interrupts:
            wait.after = end
        elif wait.end is None:
            wait.end = end

    def reply(self, number, end) -> bool:
        wait = self.taken.get(number)
        if wait is None or wait.early is not None:
            self.late += 1
            self.unknown += number not in self.known
            return False
        if wait.sending:
            wait.early = end
        else:
            self.finish(wait, end)
        return True

    def fail_all(self) -> int:
        failed = list(self.taken.values())
        for wait in failed:
            self.finish(wait, LostError)
        return len(failed)

    def pass_time(self, seconds) -> None:
        super().pass_time(seconds)
        for wait in list(self.taken.values()):
            if wait.deadline is not None and wait.deadline <= self.now:
                self.finish(wait, OperationExpired)


numbers = st.integers(0, 5)
timeouts = st.sampled_from((None, 1, 2))
requests = step("request", timeouts, st.booleans())
STEPS = (
    *[requests] * 3,
    step("expect", numbers, timeouts),
    *[step("resolve", numbers)] * 2,
    step("reject", numbers),
    *[step("let_go", st.integers(0, 9))] * 2,
    *[step("cancel", st.integers(0, 9))] * 2,
    step("cancel_for_key", numbers),
    step("fail_all"),
    step("pass_time", st.sampled_from((0, 0.5, 1, 2))),
    *[step("turn")] * 2,
)


class CorrelatorMachine(Story):
    last_words = (("turn",), ("close",), *[("let_go", 0)] * 50)

    @initialize(ids=st.sampled_from((range(1), range(1, 4), range(5, 0, -2))))
    def begin(self, ids) -> None:
        self.purgatory = Purgatory(timer=self.begin_on(Table(ids)))
        self.calls: Correlator[int] = Correlator(self.purgatory, ids=ids)
        self.values = count()
        self.gates: dict[Call, asyncio.Future[None]] = {}

    @rule(steps=st.lists(st.one_of(*STEPS), max_size=8))
    def one_turn(self, steps) -> None:
        self.play(*steps)

    @rule(slow=st.lists(st.booleans(), min_size=2, max_size=4), number=numbers)
    def requests_and_a_reply(self, slow, number) -> None:
        self.play(*[("request", 2, each) for each in slow], ("turn",), ("turn",), ("resolve", number))

    def request(self, timeout, slow) -> None:
        call = Call(None, timeout, slow=slow)

        async def send(number) -> None:
            call.sent_as = number
            if slow:
                gate = self.gates[call] = self.loop.create_future()
                await gate

        self.begin_wait(call, self.calls.request(send, timeout=timeout))

    def expect(self, number, timeout) -> None:
        async def expected() -> int:
            return await self.calls.expect(number, timeout)

        self.begin_wait(Call(number, timeout), expected())

    def let_go(self, index) -> None:
        parked = [(call, gate) for call, gate in self.gates.items() if not gate.done()]
        if parked:
            call, gate = parked[index % len(parked)]
            gate.set_result(None)
            self.reference.let_go(call)

    def resolve(self, number) -> None:
        value = next(self.values)
        assert self.calls.resolve(number, value) is self.reference.reply(number, value)

    def reject(self, number) -> None:
        assert self.calls.reject(number, LostError()) is self.reference.reply(number, LostError)

    def cancel_for_key(self, number) -> None:
        self.purgatory.cancel_for_key(number)
        if number in self.reference.taken:
            self.reference.finish(self.reference.taken[number], OperationCancelled, interrupts=False)

    def fail_all(self) -> None:
        assert self.calls.fail_all(LostError()) == self.reference.fail_all()

    def close(self) -> None:
        self.purgatory.close()
        self.reference.refusal = PurgatoryClosed
        for wait in list(self.reference.taken.values()):
            self.reference.finish(wait, PurgatoryClosed, interrupts=False)

    def look(self) -> None:
        assert (self.calls.late, self.calls.unknown) == (self.reference.late, self.reference.unknown)

    def compare(self) -> None:
        assert all(call.sent_as == call.wanted for call in self.tasks.values() if call.requested)
        super().compare()
        assert self.purgatory.pending == len(self.reference.taken)
        self.gates = {call: gate for call, gate in self.gates.items() if not gate.done()}

    def teardown(self) -> None:
        super().teardown()
        if self.loop is not None:
            assert_clean(self.purgatory)


def test_no_story_differs_from_the_reference(tell) -> None:
    tell(CorrelatorMachine)
