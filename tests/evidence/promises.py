"""What the pages promise, the tests that hold each promise, and a fault that those tests must notice."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One wrong change of the package.

    Attributes:
        file: Below ``purgatory_async/``.
        right: Text that occurs once in the file.
        wrong: What to write in its place.
        seen_by: The tests that must fail then; a path, or one with ``::``.
    """

    file: str
    right: str
    wrong: str
    seen_by: str


@dataclass(frozen=True)
class Promise:
    """A sentence that users may rely on.

    Attributes:
        text: The promise.
        page: The page that makes it, from the root of the repository.
        tests: Files and folders of tests that hold it.
        faults: Each breaks it.
    """

    text: str
    page: str
    tests: tuple[str, ...]
    faults: tuple[Fault, ...]


README = "README.md"
SERVICE = "purgatory_async/service/README.md"
DURABLE = "purgatory_async/durable/README.md"
CLUSTER = "purgatory_async/cluster/README.md"
PATTERNS = "purgatory_async/patterns/README.md"

PROMISES = (
    Promise(
        "An operation ends once, and all who wait for it get the same end.",
        README,
        ("tests/core/model", "tests/core/test_close.py", "tests/native"),
        (
            Fault(
                "core/life_cycle.py",
                "        self._remove(operation)\n        waiters,",
                "        waiters,",
                "tests/core/test_close.py",
            ),
        ),
    ),
    Promise(
        "No operation expires before its deadline.",
        README,
        ("tests/loop/test_never_early.py", "tests/timing", "tests/loop/test_clock_contract.py"),
        (
            Fault(
                "loop/reaper.py",
                "deadline_ns = now_ns + delay_ns",
                "deadline_ns = now_ns + delay_ns - self._tick_ns",
                "tests/loop/test_timer.py",
            ),
        ),
    ),
    Promise(
        "A cancellation in the loop pass of an answer loses nothing: the next taker gets the item.",
        README,
        ("tests/faults", "tests/patterns/test_hand_off_races.py", "tests/soak/race"),
        (
            Fault(
                "patterns/hand_off.py",
                "self._offer(key, self._items.keep(key, number, item))",
                "self._items.keep(key, number, item)",
                "tests/patterns/test_hand_off_races.py",
            ),
        ),
    ),
    Promise(
        "An ended operation has left the timer and every key before its hooks run.",
        README,
        ("tests/core", "tests/faults/test_garbage_of_endings.py"),
        (
            Fault(
                "core/life_cycle.py",
                "        self.timer._withdraw(operation)\n        self._remove(operation)\n",
                "        self._remove(operation)\n",
                "tests/core/test_close.py",
            ),
        ),
    ),
    Promise(
        "Waiters wake and deadlines expire in slices, so the loop is never frozen.",
        README,
        ("tests/loop/test_wakeups.py", "tests/loop/test_timer_wakeups.py", "tests/faults/test_scale.py"),
        (
            Fault(
                "loop/wakeups.py",
                "SLICE: Final = 256",
                "SLICE: Final = 10**9",
                "tests/loop/test_timer_wakeups.py",
            ),
        ),
    ),
    Promise(
        "Other threads signal in order, and never hang when the loop has closed.",
        README,
        ("tests/loop/test_portal.py",),
        (
            Fault(
                "loop/portal.py",
                "        if self._fn is not None and self.future.cancel():",
                "        if self._fn is None and self.future.cancel():",
                "tests/loop/test_portal.py",
            ),
        ),
    ),
    Promise(
        "A question is answered once: a second, different answer is refused and shows the first.",
        SERVICE,
        ("tests/durable/fold/test_promises.py", "tests/soak/promises", "tests/service/api"),
        (
            Fault(
                "durable/fold/operation_rules.py",
                "        if repeated and not is_answer_of(operation, result, ending):\n",
                "        if False:\n",
                "tests/durable/fold/test_promises.py",
            ),
        ),
    ),
    Promise(
        "A link answers its own question and nothing else; reading it decides nothing.",
        SERVICE,
        ("tests/service/links", "tests/durable/links"),
        (
            Fault(
                "durable/links/link.py",
                "        if not signed or version != VERSION:\n",
                "        if version != VERSION:\n",
                "tests/durable/links",
            ),
        ),
    ),
    Promise(
        "Every worker has the same state at the same position, byte for byte.",
        DURABLE,
        ("tests/durable/fold", "tests/durable/checkpoints", "tests/service/on_store"),
        (
            Fault(
                "durable/fold/checkpoint.py",
                "own.lease_us, own.max_attempts, own.max_items",
                "own.lease_us, None, own.max_items",
                "tests/durable/fold/test_fold_purity.py",
            ),
        ),
    ),
    Promise(
        "After so many attempts an item goes to the dead letters; before that it comes back.",
        SERVICE,
        ("tests/durable/fold/test_fold_machine.py", "tests/service/api"),
        (
            Fault(
                "durable/fold/queues.py",
                "item.attempts >= most",
                "item.attempts > most",
                "tests/service/api/test_dead_letters.py",
            ),
        ),
    ),
    Promise(
        "A reader of a restored backup learns that it may have missed something.",
        SERVICE,
        ("tests/service/on_store", "tests/durable/test_since_survey.py"),
        (
            Fault(
                "durable/history.py",
                "return epoch == state.epoch and (",
                "return (",
                "tests/service/on_store/test_since.py",
            ),
        ),
    ),
    Promise(
        "A page of another origin can change nothing.",
        SERVICE,
        ("tests/service/access",),
        (
            Fault(
                "service/access/check.py",
                "                _check_origin(profile.fields, host)\n",
                "                pass\n",
                "tests/service/access/test_access_origin.py::test_a_refusal_names_the_origin_and_varies_on_it",
            ),
        ),
    ),
    Promise(
        "A token may do what its scopes say, and no more.",
        SERVICE,
        ("tests/service/access",),
        (
            Fault(
                "service/access/tokens.py",
                "            if hmac.compare_digest(grant.digest, digest):\n",
                "            if True:\n",
                "tests/service/access/test_access_tokens.py",
            ),
        ),
    ),
    Promise(
        "A torn last line of a journal is no record, and damage costs its line alone.",
        "purgatory_async/pipeline/README.md",
        ("tests/journal", "tests/pipeline/source"),
        (
            Fault(
                "journal/lines.py",
                'return data.rfind(b"\\n") + 1',
                "return len(data)",
                "tests/journal/test_rotation.py",
            ),
        ),
    ),
    Promise(
        "A lock's turn is not lost when its next holder is cancelled.",
        PATTERNS,
        ("tests/patterns",),
        (
            Fault(
                "patterns/keyed_lock.py",
                "            if picked:\n                self.release(line.key)\n            raise",
                "            raise",
                "tests/patterns/test_keyed_lock.py",
            ),
        ),
    ),
    Promise(
        "A signal reaches the waits of every worker, or a gap is reported.",
        CLUSTER,
        ("tests/cluster", "tests/soak/chaos"),
        (
            Fault(
                "cluster/applier.py",
                "            self.order.run(partial(self._check, wire.key))\n",
                "",
                "tests/cluster/test_cluster.py",
            ),
        ),
    ),
    Promise(
        "The compiled core does what the reference does, event by event and message by message.",
        "purgatory_async/ARCHITECTURE.md",
        ("tests/native",),
        (),
    ),
    Promise(
        "Six unmodified Kafka clients work with the broker in memory.",
        "purgatory_async/kafka/README.md",
        ("tests/kafka",),
        (
            Fault(
                "kafka/partition.py",
                "return self.log.end if follower else self.high_watermark",
                "return self.log.end",
                "tests/kafka/test_partition.py",
            ),
        ),
    ),
    Promise(
        "A client that left is noticed, and a wait survives every proxy and restart.",
        SERVICE,
        ("tests/service/http", "tests/web", "tests/client"),
        (
            Fault(
                "service/http/connection.py",
                "            request.leave()\n",
                "            pass\n",
                "tests/service/http/test_connection.py",
            ),
        ),
    ),
)
