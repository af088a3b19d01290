# Mirrors core/: hooks and operation.

from purgatory_async.clock import check_timeout
from purgatory_async.core.outcome import CANCELLED, COMPLETED, EXPIRED, FAILED, Outcome
from purgatory_async.core.owner import CHECKING
from purgatory_async.errors import (
    check_callback, check_exception, check_limit, check_result, makes_coroutines, refuse_again, refuse_number,
    returned_async
)

cdef object _CANCELLED = CANCELLED, _COMPLETED = COMPLETED, _EXPIRED = EXPIRED, _FAILED = FAILED
cdef object _CHECKING = CHECKING
cdef object _Outcome = Outcome
cdef object _append = deque.append, _popleft = deque.popleft


cdef class OperationAwait


cdef class HookQueue:
    cdef public object queue
    cdef public bint deferred

    def __init__(self):
        self.queue = deque()
        self.deferred = False

    cpdef release(self, bint deferred):
        self.deferred = deferred
        if not deferred and self.queue:
            self.run()

    cpdef run(self):
        cdef bint deferred = self.deferred
        queue = self.queue
        self.deferred = True
        try:
            while queue:
                ended = _popleft(queue)
                try:
                    returned = ended.on_complete()
                    if returned is not None:
                        check_result("on_complete", ended, returned)
                except BaseException as exception:
                    self._raised("on_complete", ended, exception)
                if _has_expired(ended):
                    try:
                        returned = ended.on_expiration()
                        if returned is not None:
                            check_result("on_expiration", ended, returned)
                    except BaseException as exception:
                        self._raised("on_expiration", ended, exception)
                if isinstance(ended, DelayedOperation):
                    (<DelayedOperation> ended)._waiters_or_failure = None
                else:
                    ended._waiters = None
        finally:
            self.deferred = deferred
            if queue:  # after an interrupt
                _reference("core.reports", "call_soon")(self.run_unless_deferred)


cdef bint _has_expired(object ended) except -1:
    return (<DelayedOperation> ended)._state is _EXPIRED if isinstance(ended, DelayedOperation) else ended._state is _EXPIRED


cdef class DelayedOperation(Watcher):
    cdef object __weakref__
    cdef public object result, _state
    # A failed one has no waiters, and one that has ended only the queue of its hooks; one place for all saves 16 bytes.
    cdef object _waiters_or_failure
    cdef object _timeout

    __class_getitem__ = classmethod(GenericAlias)

    @property
    def timeout(self):
        if self._state is None:
            raise AttributeError("timeout")
        return self._timeout

    @timeout.setter
    def timeout(self, value):
        self._timeout = value

    @property
    def _waiters(self):
        return None if self._state is _FAILED else self._waiters_or_failure

    @_waiters.setter
    def _waiters(self, waiters):
        self._waiters_or_failure = waiters

    @property
    def _failure(self):
        return self._waiters_or_failure

    @property
    def _has_hooks(self):
        return not isinstance(self, KeyedWait)

    def __init__(self, timeout=None):
        if self._state is not None:
            refuse_again(self, "_state")
        _set_timeout(self, timeout)
        self.result = None

    def __repr__(self):
        return _reprs[DelayedOperation](self)

    def try_complete(self):
        return False

    def on_complete(self):
        pass

    def on_expiration(self):
        pass

    def force_complete(self, result=None):
        return _end(self, _COMPLETED, result)

    def fail(self, exception):
        check_exception(exception)
        if self._state is None:
            raise AttributeError("_state")
        if type(self._state) is _Outcome:
            return False
        failure = (exception, exception.__traceback__)
        if isinstance(self._state, LifeCycle):
            return (<LifeCycle> self._state)._finish(self, _FAILED, failure)
        self._waiters_or_failure = failure
        return _end(self, _FAILED, None)

    def cancel(self):
        return _end(self, _CANCELLED, None)

    def reschedule(self, timeout):
        if timeout is not None and not ordinary(timeout):
            timeout = check_timeout(timeout)
        state = self._state
        if isinstance(state, LifeCycle):
            return (<LifeCycle> state)._move(self, timeout)
        if state is None:
            raise AttributeError("_state")
        return state._reschedule(self, timeout)

    @property
    def outcome(self):
        if self._state is None:
            raise AttributeError("_state")
        return self._state if type(self._state) is _Outcome else None

    def _expire(self):
        return self.fire()

    cdef bint fire(self) except -1:
        return _end(self, _EXPIRED, None)

    @property
    def _waiting(self):
        return type(self._state) is not _Outcome

    def __await__(self):
        cdef OperationAwait started = OperationAwait.__new__(OperationAwait)
        started._operation = self
        return started


cdef int _set_timeout(DelayedOperation operation, timeout) except -1:
    if timeout is not None and not ordinary(timeout):
        timeout = check_timeout(timeout)
    operation._timeout = timeout
    operation._state = _new
    return 0


cdef bint _end(DelayedOperation operation, outcome, result) except -1:
    """End an operation wherever it is."""
    state = operation._state
    if isinstance(state, LifeCycle):
        return (<LifeCycle> state)._finish(operation, outcome, result)
    if type(state) is _Outcome:
        return False
    if state is None:
        raise AttributeError("_state")
    return state._end(operation, outcome, result)


cdef class New:
    pass


cdef New _new = New()


cdef class Admission:
    cdef public HookQueue _hooks

    def __init__(self, HookQueue hooks):
        self._hooks = hooks
