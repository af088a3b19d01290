"""The purgatory in its simplest form: two lists, everything else looked up; slow and obvious."""

from contextlib import contextmanager
from math import inf

from purgatory_async import Outcome, PurgatoryClosed, PurgatoryError, PurgatoryFull


class Reference:
    def __init__(self, tick_ns, max_pending, max_deadlines, tell):
        self.tick_ns, self.max_pending, self.max_deadlines = tick_ns, max_pending, max_deadlines
        self.tell = tell
        self.now_ns, self.closed, self.asking, self.checking, self.held = 0, False, False, None, 0
        self.arrived = []  # what is pending, oldest first
        self.deadlines = []  # (nanoseconds, operation): earliest first, equal ones as they came
        self.hooks = []  # bound methods, in the order in which they have to run

    def try_complete_else_watch(self, operation, keys):
        with self.verb():
            if operation.outcome or operation in self.arrived:
                raise PurgatoryError
            if self.closed:
                raise PurgatoryClosed
            self.ask(operation)
            if not operation.outcome:
                timed = operation.timeout not in (None, inf)
                if len(self.arrived) >= self.max_pending:
                    raise PurgatoryFull
                operation.compare_keys()
                if timed and len(self.deadlines) >= self.max_deadlines:
                    raise PurgatoryFull
                operation.keys = tuple(dict.fromkeys(keys))
                self.arrived.append(operation)
                if timed:
                    self.deadlines.append((self.due_ns(operation.timeout), operation))
                    self.deadlines.sort(key=lambda deadline: deadline[0])
        return operation.outcome is Outcome.COMPLETED

    def due_ns(self, timeout):
        if timeout <= 0:
            return self.now_ns + round(timeout * 1e9)
        exact_ns = self.now_ns + max(1, round(timeout * 1e9))
        return exact_ns + -exact_ns % self.tick_ns  # up to a whole tick

    def check_and_complete(self, key):
        with self.verb():
            self.checking = key
            completed = sum(self.completes(each) for each in self.operations(key) if not each.outcome)
            self.checking = None
            return completed

    def completes(self, operation):
        try:
            self.ask(operation)
        except BaseException as exception:  # noqa: BLE001 - it ends the operation, not the walk
            operation.fail(exception) or self.tell("reported", exception)
        return operation.outcome is Outcome.COMPLETED

    def ask(self, operation):
        self.asking = True
        try:
            operation.try_complete()
        finally:
            self.asking = False

    def close(self):
        self.closed = True
        return self.end_all(None, Outcome.CLOSED)

    def end_all(self, key, outcome, result=None, exception=None):
        with self.verb():
            return [each for each in self.operations(key) if self.end(each, outcome, result, exception)]

    def operations(self, key=None):
        return [operation for operation in self.arrived if key is None or key in operation.keys]

    def end(self, operation, outcome, result=None, exception=None):
        if operation.outcome:
            return False
        with self.hooks_held():
            operation.outcome, operation.exception, operation.keys = outcome, exception, ()
            operation.result = operation.result if result is None else result
            if operation in self.arrived:
                self.arrived.remove(operation)
                self.tell("ended", operation)
            self.deadlines = [deadline for deadline in self.deadlines if deadline[1] is not operation]
            if outcome in (Outcome.COMPLETED, Outcome.EXPIRED):
                self.hooks.append(operation.on_complete)
            if outcome is Outcome.EXPIRED:
                self.hooks.append(operation.on_expiration)
        return True

    def reschedule(self, operation, timeout):
        if operation.outcome:
            return False
        if operation in self.arrived:
            others = [deadline for deadline in self.deadlines if deadline[1] is not operation]
            timed = timeout not in (None, inf)
            if timed and len(others) == len(self.deadlines) >= self.max_deadlines:
                raise PurgatoryFull
            self.deadlines = [*others, *([(self.due_ns(timeout), operation)] if timed else [])]
            self.deadlines.sort(key=lambda deadline: deadline[0])
            self.tell("rescheduled", operation, timeout if timed else None)
        operation.timeout = timeout
        return True

    def advance_to(self, target_ns):
        self.hand_out()
        # A hook may have moved on beyond the target.
        while self.deadlines and self.deadlines[0][0] <= max(target_ns, self.now_ns):
            self.now_ns = max(self.now_ns, self.deadlines[0][0])
            if self.deadlines[0][0] > -inf:
                self.hand_out()
            self.end(self.deadlines[0][1], Outcome.EXPIRED)
        self.now_ns = max(self.now_ns, target_ns)

    def hand_out(self):
        """Queue what is due before anything that hooks add, even with a timeout below zero."""
        self.deadlines = [(-inf if ns <= self.now_ns else ns, each) for ns, each in self.deadlines]

    @contextmanager
    def verb(self):
        if self.asking:
            raise PurgatoryError
        with self.hooks_held():
            yield

    @contextmanager
    def hooks_held(self):
        self.held += 1
        try:
            yield
        finally:
            self.held -= 1
            while self.hooks and not self.held:
                with self.running():
                    self.hooks.pop(0)()

    @contextmanager
    def running(self):
        self.held = 1
        try:
            yield
        except BaseException as exception:  # noqa: BLE001 - the outcome stands, the next hook runs
            self.tell("reported", exception)
        finally:
            self.held = 0
