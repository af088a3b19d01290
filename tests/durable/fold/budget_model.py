"""What the naive model keeps in bytes: every sum is made anew from lists, and nothing is counted up or down."""

import itertools

from msgspec import UNSET

from tests.durable.fold.queue_model import MEMORY, PIECE, up

NO_KEY = (UNSET, "")


def size_of(*texts):
    """The bytes of a piece: its own, and its texts."""
    return PIECE + sum(len(text) for text in texts if text is not UNSET)


class BudgetModel:
    """Base of `fold_model.Model`: the signals of each key, and the budget of all that is kept."""

    def __init__(self):
        super().__init__()
        self.by_key = {}  # the kept signals, oldest first

    # The signals of keys.

    def keep_signal(self, signal):
        signals = self.by_key.setdefault(signal.key, [])
        signals.append(signal)
        if len(signals) > 1:
            signals[-2].superseded = signal.index
            self.cut_key(signals)

    def cut_key(self, signals):
        """Keep the newest whatever its age, and of the others those within the limits."""
        oldest = self.now // 1000 * 1000 - self.limits.keep_for_us
        del signals[: -self.limits.keep_signals]
        while len(signals) > 1 and signals[0].at <= oldest:
            del signals[0]

    def due_of_keys(self):
        keep = max(self.limits.retention_us, self.limits.keep_for_us)
        for key, signals in self.by_key.items():
            yield up(signals[-1].at + keep), 0, MEMORY, 0, self.by_key.pop, key

    # The bytes.

    def shown(self, operation):
        """The latest signal of each key and voter."""
        return list({(signal.key, signal.voter): signal for signal in operation.heard}.values())

    def queue_bytes(self):
        leased = [lease.item for lease in self.leases]
        return (
            sum(size_of(item.text) for item in (*self.items, *leased))
            + PIECE * len(leased)
            + sum(size_of(*key) for key in {(lease.idem, lease.digest) for lease in self.leases} - {NO_KEY})
            + sum(map(len, self.busy_queues()))
            + PIECE * sum(map(self.has_settings, self.settings.values()))
        )

    def busy_queues(self):
        parts = (*self.items, *self.takers, *self.leases)
        own = {name for name, entry in self.settings.items() if self.has_settings(entry)}
        return {part.queue for part in parts} | own

    def has_settings(self, entry):
        names = ("lease_us", "max_attempts", "max_items", "max_bytes")
        return any(getattr(entry, name) is not UNSET for name in names)

    def used(self, *, pinned=False):
        """The bytes of all that is kept; with ``pinned`` of what cannot make room."""
        operations = [one for one in self.operations if self.is_pinned(one) or not pinned]
        held = {signal.index: signal for one in operations for signal in self.shown(one)}
        for signals in self.by_key.values():
            held |= {signal.index: signal for signal in (signals[-1:] if pinned else signals)}
        return (
            sum(self.operation_size(one, getattr(one, "result", UNSET)) for one in operations)
            + sum(size_of(signal.value, signal.voter) for signal in held.values())
            + sum(map(len, self.by_key))
            + self.queue_bytes()
            + (0 if pinned else sum(map(sum, self.names_sizes())))
            + sum(size_of(name, *self.idem_of(one)) for name, one in self.gone.items())
            + sum(map(size_of, itertools.chain(*map(self.voters, operations))))
        )

    def voters(self, one):
        """The voters whom a pending operation remembers."""
        counted = one.state == "pending" and getattr(one.need, "voters", UNSET) is not UNSET
        return {signal.voter for signal in one.heard} - {UNSET} if counted else set()

    def is_pinned(self, one):
        """Whether an operation makes no room: it is pending, or kept for a time of its own."""
        return one.state == "pending" or one.keep is not UNSET

    def idem_of(self, one):
        return () if one.idem is UNSET else (one.idem, one.digest)

    def operation_size(self, one, *more):
        reserved = one.reserved if one.state == "pending" else 0
        return size_of(*one.keys, one.data, *self.idem_of(one), *more, *one.more) + one.terms + reserved

    def growth_by_earlier(self, entry, earlier):
        """What signals and voters would add that count at once, as if all of them did."""
        held = self.held_signals()
        latest = {(signal.key, signal.voter): signal for signal in earlier}.values()
        size = sum(size_of(each.value, each.voter) for each in latest if each.index not in held)
        if getattr(entry.need, "voters", UNSET) is not UNSET:
            size += sum(map(size_of, {signal.voter for signal in earlier} - {UNSET}))
        return size

    def held_signals(self):
        """The indexes of the signals that make no room."""
        held = {signal.index for one in self.operations if self.is_pinned(one) for signal in self.shown(one)}
        return held | {signals[-1].index for signals in self.by_key.values()}

    def names_sizes(self):
        """The bytes of each forgotten id, ended lease and kept answer, the oldest of each first."""
        ids = [[size_of(name) for name in names] for names in (self.forgotten, self.ended_leases)]
        return *ids, [
            size_of(idem, one.digest) + 24 * len(getattr(one.result, "items", ()))
            for idem, one in self.answers.items()
        ]

    def fits(self, size):
        return self.used(pinned=True) + size <= self.limits.max_kept

    def room_for_signals(self, signals):
        growth = sum(size_of(signal.value, signal.voter) for signal in signals)
        shown = [signal.index for one in self.operations if self.is_pinned(one) for signal in self.shown(one)]
        for key in {signal.key for signal in signals}:
            if key not in self.by_key:
                growth += len(key)
            elif (newest := self.by_key[key][-1]).index not in shown:
                growth -= size_of(newest.value, newest.voter)
        for one in self.operations:
            if one.state == "pending" and getattr(one.need, "voters", UNSET) is not UNSET:
                votes = {(each.key, each.voter) for each in signals if each.key in one.keys}
                growth += sum(size_of(name) for _, name in votes if name not in self.voters(one) | {UNSET})
        return self.fits(growth)

    def make_room(self):
        """Drop the oldest history; first ids if they suffice, and answers beyond their share."""
        most = self.limits.max_kept
        while (over := self.used() - most) > 0:
            older = [signal for signals in self.by_key.values() for signal in signals[:-1]]
            *ids, answers = map(sum, self.names_sizes())
            names = [each for each in (self.forgotten, self.ended_leases) if each]
            if answers > most // 8:
                del self.answers[next(iter(self.answers))]
            elif names and (sum(ids) >= over or not (older or len(self.ends) > 1)):
                del names[0][next(iter(names[0]))]
            elif len(self.ends) > 1:
                self.forget(self.ends[0])
            elif older:
                first = min(older, key=lambda signal: signal.superseded)
                self.by_key[first.key].remove(first)
            elif self.answers:
                del self.answers[next(iter(self.answers))]
            else:
                return
