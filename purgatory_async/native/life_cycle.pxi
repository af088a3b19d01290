# Mirrors core/: life_cycle and verbs.

cdef class Dispatcher


cdef class LifeCycle(WatchTable):
    cdef public object name, max_pending, checking
    cdef public Scheduler timer
    cdef public Dispatcher _dispatcher
    cdef public object _emptied, _notifier, _refusal, _runner
    cdef public HookQueue _hooks
    cdef public Admission _admission

    def __init__(self, name, max_pending):
        WatchCounts.__init__(self)
        self.name = name
        self.max_pending = max_pending
        self._hooks = _reference("core.hooks", "hooks_of_thread")()

    cdef bint _here(self, bint watching) except -1:
        """Refuse a call from elsewhere; returns whether it bound the loop."""
        return False if is_here(self._runner) else self._arrive(watching=watching)

    cdef int _check_first(self, DelayedOperation operation, tuple keys) except -1:
        cdef Admission admission = self._admission
        runner = self._runner
        self._runner = _CHECKING
        operation._state = admission
        try:
            returned = operation.try_complete()
            if returned and operation._state is admission:
                _reference("core.life_cycle", "warn_unended")(operation, returned, stacklevel=2)
        finally:
            if self._runner is _CHECKING:
                self._runner = runner
            if operation._state is admission:
                operation._state = _new
            elif self._notifier is not None:
                self._notifier.submitted(operation, keys)
                self._notifier.ended(operation, operation._state)
        return 0

    cdef int _watch(self, DelayedOperation operation, tuple keys) except -1:
        if self._refusal is not None:  # closed in its first check
            raise self._refuse(keys)
        if self.max_pending is not None and self._count() >= self.max_pending:
            raise self._full()
        self._add(operation, keys)
        operation._state = self
        since_ns = None
        if operation._timeout is not None:
            try:
                if self._notifier is None:
                    self.timer._start_deadline(operation, operation._timeout)
                else:
                    since_ns = self.timer._start_timeout(operation, operation._timeout)
            except BaseException:
                self._remove(operation)
                operation._state = _new
                raise
        if self._notifier is not None:
            self._notifier.submitted(operation, keys, since_ns)
        return 0

    cdef bint _move(self, DelayedOperation operation, timeout) except -1:
        """`_reschedule`."""
        if self._notifier is None and self.timer._restart_ordinary(operation, timeout):
            operation._timeout = timeout
            return True
        since_ns = self.timer._restart_timeout(operation, timeout)
        operation._timeout = timeout
        if self._notifier is not None:
            self._notifier.rescheduled(operation, since_ns)
        return True

    def _reschedule(self, operation, timeout):
        return self._move(operation, timeout)

    cdef Py_ssize_t _check_all(self, key, operations, limit) except -1:
        """`_walk`."""
        cdef Py_ssize_t completed = 0
        cdef HookQueue hooks = self._hooks
        cdef bint deferred = hooks.deferred
        cdef DelayedOperation operation
        hooks.deferred = True
        runner = self._runner
        self._runner = _CHECKING
        self.checking = key
        try:
            if isinstance(operations, DelayedOperation):  # sole
                completed = (<DelayedOperation> operations)._state is self and self._check_again(operations)
            else:
                for operation in operations:
                    if operation._state is self and self._check_again(operation):
                        completed += 1
                        if limit is not None and completed == limit:
                            break
            if self._notifier is not None:
                self._notifier.signalled(key, completed)
        finally:
            if self._runner is _CHECKING:
                self._runner = runner
            self.checking = None
            hooks.release(deferred)
        return completed

    cdef bint _check_again(self, DelayedOperation operation) except -1:
        if self._notifier is not None:
            self._notifier.checked(operation)
        try:
            returned = operation.try_complete()
            if returned and operation._state is self:
                _reference("core.life_cycle", "warn_unended")(operation, returned, stacklevel=2)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as exception:
            if not operation.fail(exception):
                _reference("core.reports", "report")(
                    f"try_complete of {operation!r} raised", exception, operation
                )
        return operation._state is _COMPLETED

    cdef bint _finish(self, DelayedOperation operation, outcome, result) except -1:
        """`_end`."""
        cdef HookQueue hooks = self._hooks
        waiters = operation._waiters_or_failure
        operation._state = outcome
        if outcome is _FAILED:
            operation._waiters_or_failure = result
        else:
            operation._waiters_or_failure = None
            if result is not None:
                operation.result = result
        self.timer._unschedule(operation)
        self._remove(operation)
        if waiters is not None:
            self._dispatcher.wake(waiters)
        if (outcome is _COMPLETED or outcome is _EXPIRED) and not isinstance(operation, KeyedWait):
            operation._waiters_or_failure = hooks
            _append(hooks.queue, operation)
        if self._notifier is not None:
            self._notifier.ended(operation, outcome)
        if self._emptied is not None and not self._count():
            self._emptied()
        if not hooks.deferred and hooks.queue:
            hooks.run()
        return True

    def _end(self, operation, outcome, result=None):
        return self._finish(operation, outcome, result)


cdef class Verbs(LifeCycle):
    def try_complete_else_watch(self, operation, keys):
        cdef DelayedOperation op
        cdef tuple distinct = self._distinct(keys)
        if isinstance(operation, KeyedWait) and (<KeyedWait> operation)._is_coroutine():
            raise _reference("core.operation", "no_operation")(operation)
        if not isinstance(operation, DelayedOperation) or (<DelayedOperation> operation)._state is not _new:
            raise _reference("core.operation", "cannot_watch")(operation)
        op = operation
        return self._admit(op, distinct)

    cdef bint _admit(self, DelayedOperation operation, tuple keys) except -1:
        """Check a new operation, then watch."""
        if self._refusal is not None:
            raise self._refuse(keys)
        cdef bint fresh = self._here(True)
        cdef HookQueue hooks = self._hooks
        cdef bint deferred = hooks.deferred
        hooks.deferred = True  # until it is watched: a hook could signal a key that it does not watch yet
        try:
            if type(operation) is not KeyedWait or self._notifier is not None:
                self._check_first(operation, keys)
            if operation._state is _new:
                self._watch(operation, keys)
        except BaseException:
            if fresh:
                self._leave_loop()  # a call that raises changes nothing, not even the owner
            raise
        finally:
            hooks.release(deferred)
        return operation._state is _COMPLETED

    def check_and_complete(self, key, *, limit=None):
        if limit is not None:
            limit = check_limit("limit", limit)
        self._here(False)
        found = self._watchers.get(key)
        if not isinstance(found, DelayedOperation):
            found = self._watchers_of(key) if limit is None else self._in_turn(key)
        return self._check_all(key, found, limit)

    def complete_for_key(self, key, result=None):
        cdef Py_ssize_t completed = 0
        cdef bint deferred
        cdef HookQueue hooks
        self._here(False)
        found = self._watchers.get(key)
        hooks = self._hooks
        deferred = hooks.deferred
        hooks.deferred = True
        try:
            if isinstance(found, dict):
                for operation in list(found):
                    completed += _complete(operation, result)
            elif found is not None and (<Watcher> found)._keys is not self._no_keys:
                completed += _complete(found, result)
            if self._notifier is not None:
                self._notifier.signalled(key, completed)
        finally:
            hooks.release(deferred)
        return completed


cdef bint _complete(operation, result) except -1:
    if type(operation) is KeyedWait:
        return (<KeyedWait> operation)._complete(result)
    return operation.force_complete(result)
