"""The queues of the naive model: lists of items and leases, searched for what is next."""

from types import SimpleNamespace

from msgspec import UNSET

from purgatory_async.durable.fold import results
from purgatory_async.durable.fold.entries import SetQueue

LEASE, HIDDEN, TAKER, OPERATION, WRITER, MEMORY = range(6)
PIECE, MOST_BYTES, DEFAULT_LEASE = 128, 1 << 20, 30_000_000


def up(time_us):
    """The first whole millisecond at or after a time."""
    return (time_us + 999) // 1000 * 1000


class QueueModel:
    """Base of `fold_model.Model`, which has log time, the limits and the facts."""

    def __init__(self):
        self.items, self.takers, self.leases, self.ended_leases = [], [], [], {}
        self.settings, self.dead = {}, 0

    # Time.

    def due_of_queues(self):
        for one in self.takers:
            yield up(one.until), one.position, TAKER, 0, self.wait_over, one
        for number, one in enumerate(self.leases):
            yield up(one.until), one.position, LEASE, number, self.lease_over, one
        for one in self.items:
            if one.until is not None:
                yield up(one.until), one.since, HIDDEN, one.place, self.show, one

    def wait_over(self, taker):
        self.takers.remove(taker)
        self.facts.append(("TakerLeft", taker.lease_id, "waited"))

    def show(self, item):
        item.until = None
        self.hand_out(item.queue)

    def lease_over(self, lease, *, delay=0):
        self.lease_ended(lease)
        lease.item.attempts = lease.attempts
        most = self.setting(lease.queue, "max_attempts", None)
        if most is not None and lease.attempts >= most:
            self.dead += 1
            lease.item.queue += ".dead"
        elif delay:
            self.hide(lease.item, self.now + delay)
        self.come_back(lease.item)

    def lease_ended(self, lease):
        self.leases.remove(lease)
        self.ended_leases[lease.id] = self.now

    def come_back(self, item):
        self.items.append(item)
        self.hand_out(item.queue)

    def hide(self, item, until):
        item.until, item.since = until, self.position
        self.facts.append(("ItemHidden", item.number, until))

    # Parts of rules.

    def setting(self, queue, name, usual):
        own = getattr(self.settings.get(queue), name, UNSET)
        return usual if own is UNSET else own

    def ready(self, queue):
        """The items to take, in their order."""
        found = [item for item in self.items if item.queue == queue and item.until is None]
        return sorted(found, key=lambda item: item.place)

    def hand_out(self, queue):
        while True:
            items = self.ready(queue)
            takers = [taker for taker in self.takers if taker.queue == queue]
            if not (items and takers):
                return
            self.takers.remove(takers[0])
            self.lease_to(takers[0], items)
            for one in self.of_key(self.takers, takers[0].idem):
                self.takers.remove(one)
                self.share(takers[0], one.lease_id)

    def of_key(self, takes, idem):
        """The takers or leases of an Idempotency-Key, in their order."""
        return [] if idem is UNSET else [one for one in takes if one.idem == idem]

    def share(self, taker, lease_id):
        """Let a further request have the leases of a taker."""
        leases = [lease for lease in self.leases if lease.taker == taker.lease_id]
        for lease in leases:
            lease.shared = True
        first = sorted(leases, key=lambda lease: lease.nth)
        self.facts.append(("LeasesShared", lease_id, *(lease.id for lease in first)))

    def lease_to(self, taker, items):
        """Lease the first items: as many as the taker wants, of so many bytes, but at least one."""
        taken = [items[0]]
        for item in items[1 : taker.max]:
            if sum(len(each.text) for each in (*taken, item)) > MOST_BYTES:
                break
            taken.append(item)
        lasts = min(taker.lease, self.limits.max_lease_us)
        for nth, item in enumerate(taken):
            self.items.remove(item)
            lease = SimpleNamespace(
                id=f"{taker.lease_id}.{nth}" if nth else taker.lease_id,
                taker=taker.lease_id,
                nth=nth,
                idem=taker.idem,
                digest=taker.digest,
                shared=False,
                queue=item.queue,
                item=item,
                attempts=item.attempts + 1,
                lasts=lasts,
                until=self.now + lasts,
                position=self.position,
            )
            self.leases.append(lease)
            self.facts.append(("ItemLeased", lease.id, item.number))

    def is_full(self, queue, texts):
        """Whether a queue's own limits refuse more items."""
        kept = [item for item in self.items if item.queue == queue]
        leased = [lease.item for lease in self.leases if lease.queue == queue]
        most = self.setting(queue, "max_items", self.limits.max_items)
        if most is not None and len(kept) + len(leased) + len(texts) > most:
            return True
        size = sum(len(text) + PIECE for text in [item.text for item in (*kept, *leased)] + texts)
        most = self.setting(queue, "max_bytes", self.limits.max_kept // 4)
        return most is not None and size + PIECE * len(leased) > most

    def growth(self, queue, texts):
        """The bytes that more items would add."""
        return sum(len(text) + PIECE for text in texts) + len({queue} - self.busy_queues() and queue)

    # The rules, by the names of the entries.

    def put_item(self, entry):
        answer = self.known_answer(entry)
        if answer is not None:
            return answer
        return self.put(entry, [(entry.item, entry.delay_us)], self.put_one)

    def put_items(self, entry):
        answer = self.known_answer(entry)
        if answer is not None:
            return answer
        return self.put(entry, [(new.item, new.delay_us) for new in entry.items], self.put_some)

    def put(self, entry, new, answers):
        if self.is_full(entry.queue, [text for text, _ in new]):
            return results.Refused("overloaded")
        if not self.fits(self.growth(entry.queue, [text for text, _ in new])):
            return results.Refused("over-budget")
        items = []
        for nth, (text, delay) in enumerate(new):
            item = self.new_item(entry.queue, text, (self.now + delay, self.position, nth))
            item.put, item.until = self.now, self.now + delay if delay else None
            item.since = self.position
            items.append(item)
        self.hand_out(entry.queue)
        later = [item for item in items if item.until is not None]
        for item in sorted(later, key=lambda item: item.place):
            self.hide(item, item.until)
        return self.keep_answer(entry, *answers(items))

    def new_item(self, queue, text, place):
        _, position, nth = place
        number = f"{position}.{nth}" if nth else position
        item = SimpleNamespace(
            number=number, queue=queue, text=text, place=place, put=0, attempts=0, until=None
        )
        self.items.append(item)
        return item

    def put_one(self, items):
        number, given = items[0].number, items[0] not in self.items
        return results.Put(number, given), results.Put(number, given, True)

    def put_some(self, items):
        numbers, given = (
            tuple(item.number for item in items),
            tuple(item not in self.items for item in items),
        )
        return results.PutSome(numbers, given), results.PutSome(numbers, given, True)

    def want_item(self, entry):
        in_use = (
            [one.lease_id for one in self.takers] + [one.id for one in self.leases] + [*self.ended_leases]
        )
        if entry.lease_id in in_use:
            return results.Refused("duplicate-id")
        answer = self.taken_before(entry)
        if answer is not None:
            return answer
        if not entry.wait_us and not self.ready(entry.queue):
            return results.Nothing()
        lease = entry.lease_us
        if lease is UNSET:
            lease = self.setting(entry.queue, "lease_us", DEFAULT_LEASE)
        self.takers.append(
            SimpleNamespace(
                lease_id=entry.lease_id,
                idem=entry.idem,
                digest=entry.digest,
                queue=entry.queue,
                lease=lease,
                max=entry.max,
                writer=entry.writer,
                until=self.now + entry.wait_us,
                position=self.position,
            )
        )
        self.hand_out(entry.queue)
        leased = self.lease(entry.lease_id)
        return results.InLine() if leased is None else results.Leased(leased.item.number)

    def taken_before(self, entry):
        """The answer to a take whose key is known; None if it may stand in line, or take items."""
        leases = self.of_key(self.leases, entry.idem)
        known = self.of_key(self.takers, entry.idem) + leases
        if not known:
            return self.known_answer(entry)
        if known[0].digest != entry.digest:
            return results.Refused("idempotency-mismatch")
        if not leases:
            return None
        self.share(SimpleNamespace(lease_id=leases[0].taker), entry.lease_id)
        return results.LeasedBefore(leases[0].taker)

    def lease(self, lease_id):
        return next((lease for lease in self.leases if lease.id == lease_id), None)

    def leave_line(self, entry):
        if any(taker.lease_id == entry.lease_id for taker in self.takers):
            self.takers = [taker for taker in self.takers if taker.lease_id != entry.lease_id]
            return results.APPLIED
        # In the order of their ids, which an extension does not change.
        leased = [lease for lease in self.leases if lease.taker == entry.lease_id]
        if any(lease.shared for lease in leased):
            return results.APPLIED
        for lease in sorted(leased, key=lambda lease: lease.item.place):
            self.lease_ended(lease)
            self.come_back(lease.item)
        return results.APPLIED

    def end_lease(self, entry):
        lease = self.lease(entry.lease_id)
        if lease is None:
            return self.no_lease(entry.lease_id)
        if entry.back:
            self.lease_over(lease, delay=entry.delay_us)
        else:
            self.lease_ended(lease)
        return results.APPLIED

    def no_lease(self, lease_id):
        return results.Refused("lease-expired" if lease_id in self.ended_leases else "unknown-lease")

    def extend_lease(self, entry):
        lease = self.lease(entry.lease_id)
        if lease is None:
            return self.no_lease(entry.lease_id)
        lasts = min(lease.lasts if entry.lease_us is UNSET else entry.lease_us, self.limits.max_lease_us)
        lease.until, lease.position = self.now + lasts, self.position
        self.leases.remove(lease)
        self.leases.append(lease)
        self.facts.append(("LeaseExtended", lease.id, lease.until))
        return results.Extended(lasts)

    def set_queue(self, entry):
        known = self.has_settings(self.settings.get(entry.queue, SetQueue(queue=entry.queue)))
        if self.has_settings(entry) and not known:
            new = entry.queue not in self.busy_queues()
            if not self.fits(PIECE + len(entry.queue) * new):
                return results.Refused("over-budget")
        self.settings[entry.queue] = entry
        return results.APPLIED

    def purge_queue(self, entry):
        dropped = [item for item in self.items if item.queue == entry.queue]
        self.items = [item for item in self.items if item.queue != entry.queue]
        return results.Moved(len(dropped))

    def redrive_items(self, entry):
        moved = self.ready(entry.queue + ".dead")
        moved = moved if entry.max is UNSET else moved[: entry.max]
        for nth, item in enumerate(moved):
            item.queue, item.place, item.attempts = entry.queue, (self.now, self.position, nth), 0
        self.hand_out(entry.queue)
        return results.Moved(len(moved))
