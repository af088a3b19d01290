# Mirrors core/: hooks, watch_lists, watch_table, operation, life_cycle, verbs.

from purgatory_async.clock import check_timeout
from purgatory_async.core.outcome import CANCELLED, COMPLETED, EXPIRED, FAILED, Outcome
from purgatory_async.core.owner import CHECKING
from purgatory_async.errors import check_callback, check_exception, check_limit

cdef object _CANCELLED = CANCELLED, _COMPLETED = COMPLETED, _EXPIRED = EXPIRED, _FAILED = FAILED
cdef object _CHECKING = CHECKING
cdef object _Outcome = Outcome


cdef object _reference(str module, str name):
    """A name that is defined after this extension is loaded; for what is rare."""
    return getattr(__import__("purgatory_async." + module, fromlist=[name]), name)


# --- hooks ---------------------------------------------------------------------------------------


cdef class HookQueue:
    cdef public object queue
    cdef public bint held

    def __init__(self):
        self.queue = deque()
        self.held = False

    cpdef release(self, bint held):
        self.held = held
        if not held and self.queue:
            self.run()

    cpdef run_unless_held(self):
        if not self.held and self.queue:
            self.run()


# --- watch lists ---------------------------------------------------------------------------------


@cython.trashcan(True)
cdef class Watcher(TimerNode):
    cdef public object _keys
    cdef public Watcher _older
    cdef public Watcher _newer


cdef class SharedList(dict):
    cdef public tuple of
    cdef public Py_ssize_t width

    def __init__(self, tuple of, *first):
        for watcher in first:
            self[watcher] = None
        self.now_of(of)


cdef tuple _keys_of(Watcher watcher):
    keys = watcher._keys
    if type(keys) is SharedList:
        return (<SharedList> keys).of
    return keys if type(keys) is tuple else (keys,)


# --- watch table ---------------------------------------------------------------------------------


cdef class WatchTable:
    cdef public dict _watchers
    cdef public Py_ssize_t _more_pending, _more_pairs, _vacant
    cdef public Watcher _arrivals
    cdef SharedList _last_shared  # entered last: its keys need no second check
    cdef object _no_keys

    def __init__(self):
        self._watchers = {}
        self._arrivals = Watcher()
        self._arrivals._older = self._arrivals._newer = self._arrivals
        self._no_keys = _reference("core.watch_lists", "NO_KEYS")

    cdef Py_ssize_t _count(self):
        return len(self._watchers) + self._more_pending

    cdef tuple _distinct(self, keys):
        if self._last_shared is not None and keys is self._last_shared.of:
            return <tuple> keys
        if type(keys) is tuple and len(<tuple> keys) == 1:
            hash((<tuple> keys)[0])
            return <tuple> keys
        return _reference("core.watch_table", "distinct_keys")(keys)

    cdef int _add(self, Watcher watcher, tuple keys) except -1:
        cdef SharedList shared = None
        first = keys[0]
        found = self._watchers.get(first)
        if found is not None:
            shared = self._shared_list(found, keys)
        if shared is not None:
            _refuse_equal(watcher)
            shared[watcher] = None
            self._more_pending += 1
            self._more_pairs += shared.width
            self._last_shared = shared
        elif found is None and len(keys) == 1:
            self._watchers[first] = watcher
        else:
            self._enter(watcher, keys)
        if shared is not None and shared.of is keys:
            watcher._keys = shared
        else:
            watcher._keys = first if len(keys) == 1 and type(first) is not tuple else keys
        cdef Watcher newest = self._arrivals._older
        watcher._older = newest
        watcher._newer = self._arrivals
        newest._newer = self._arrivals._older = watcher
        return 0

    cpdef SharedList _shared_list(self, found, tuple keys):
        cdef SharedList shared
        if type(found) is SharedList:
            shared = found
            return shared if len(shared) and (shared.of is keys or shared.of == keys) else None
        if not isinstance(found, Watcher) or (<Watcher> found)._keys is self._no_keys:
            return None
        if keys != _keys_of(found):
            return None
        for key in keys:
            if self._watchers.get(key) is not found:
                return None
        _refuse_equal(found)
        shared = SharedList((), found)
        cdef Py_ssize_t switched = 0
        try:
            for key in keys:
                self._watchers[key] = shared
                switched += 1
        finally:
            shared.now_of(keys[:switched])
        return shared

    cpdef _enter(self, Watcher watcher, tuple keys):
        cdef dict watchers = self._watchers
        cdef object own  # a dict, or an ordered one
        cdef Py_ssize_t known = len(watchers), new
        cdef list entered = []
        try:
            for key in keys:
                found = watchers.get(key)
                if found is None:
                    watchers[key] = watcher
                    continue
                _refuse_equal(watcher)
                if isinstance(found, dict) and type(found) is not SharedList and found:
                    own = found
                else:
                    own = self._own_list(key, found)
                self._vacant -= not own
                own[watcher] = None
                entered.append(own)
        except BaseException:
            while len(watchers) > known:
                watchers.popitem()  # removes its own newest keys without a comparison
            for own in entered:
                del own[watcher]
                self._vacant += not own
            raise
        new = len(watchers) - known
        self._more_pending += 1 - new
        self._more_pairs += len(keys) - new

    cpdef _remove(self, Watcher watcher):
        try:
            self._leave(watcher)
        except BaseException as exception:  # leaving cannot be refused
            self._search_out(watcher, exception)
        watcher._keys = self._no_keys
        cdef Watcher older = watcher._older, newer = watcher._newer
        older._newer = newer
        newer._older = older
        watcher._older = watcher._newer = None

    cpdef _leave(self, Watcher watcher):
        cdef dict watchers = self._watchers
        cdef tuple keys
        cdef SharedList shared
        cdef Py_ssize_t known, gone
        only = watcher._keys
        if type(only) is SharedList:
            shared = only
            del shared[watcher]
            self._more_pending -= 1
            self._more_pairs -= shared.width
            if not len(shared):
                self._give_up(shared)
            return
        if type(only) is not tuple and watchers[only] is watcher:
            del watchers[only]
            return
        keys = only if type(only) is tuple else (only,)
        known = len(watchers)
        for key in keys:
            found = watchers[key]
            if found is not watcher:
                if type(found) is not SharedList:
                    del found[watcher]
                elif (<SharedList> found).width == len(keys):
                    shared = found
                    del shared[watcher]
                    self._more_pending -= 1
                    self._more_pairs -= shared.width
                    if not len(shared):
                        self._give_up(shared)
                    return
                else:
                    found.pop(watcher, None)  # a key may find it more than once
                if found:
                    continue
            del watchers[key]
        gone = known - len(watchers)
        self._more_pending += gone - 1
        self._more_pairs += gone - len(keys)

    cpdef list _watchers_of(self, key):
        found = self._watchers.get(key)
        if found is None:
            return []
        if isinstance(found, dict):
            return list(found)
        return [] if (<Watcher> found)._keys is self._no_keys else [found]


cdef int _refuse_equal(object watcher) except -1:
    if type(watcher).__eq__ is not _identity:
        _reference("core.watch_lists", "refuse_equal")(watcher)
    return 0


cdef object _identity = object.__eq__


# --- operations ----------------------------------------------------------------------------------


cdef class DelayedOperation(Watcher):
    cdef object __weakref__
    cdef public object result, _state, _waiters, _failure
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
    def _has_hooks(self):
        return not isinstance(self, KeyedWait)

    def __init__(self, timeout=None):
        _set_timeout(self, timeout)

    def __repr__(self):
        return _reprs[DelayedOperation](self)

    def force_complete(self, result=None):
        return _end(self, _COMPLETED, result)

    def fail(self, exception):
        check_exception(exception)
        if type(self._state) is _Outcome:
            return False
        self._failure = (exception, exception.__traceback__)
        return _end(self, _FAILED, None)

    def cancel(self):
        return _end(self, _CANCELLED, None)

    @property
    def outcome(self):
        return self._state if type(self._state) is _Outcome else None

    def _expire(self):
        return self.fire()

    cdef bint fire(self) except -1:
        return _end(self, _EXPIRED, None)

    @property
    def _waiting(self):
        return type(self._state) is not _Outcome

    def __await__(self):
        return OperationAwait.__new__(OperationAwait, self)


cdef int _set_timeout(DelayedOperation operation, timeout) except -1:
    if timeout is not None and not ordinary(timeout):
        check_timeout(timeout)
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
    def __reduce__(self):
        return "NEW"


cdef New _new = New()


cdef class Admission:
    cdef public HookQueue _hooks

    def __init__(self, HookQueue hooks):
        self._hooks = hooks


# --- life cycle ----------------------------------------------------------------------------------


cdef class LifeCycle(WatchTable):
    cdef public object name, max_pending, checking
    cdef public Scheduler timer
    cdef public object _dispatcher, _emptied, _notifier, _refusal, _runner
    cdef public HookQueue _hooks
    cdef public Admission _admission

    def __init__(self, name, max_pending):
        WatchTable.__init__(self)
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
            if operation.try_complete() and operation._state is admission:
                _reference("core.life_cycle", "warn_unended")(operation, stacklevel=2)
        finally:
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

    cdef Py_ssize_t _check_all(self, key, operations, limit) except -1:
        """`_walk`."""
        cdef Py_ssize_t completed = 0
        cdef HookQueue hooks = self._hooks
        cdef bint held = hooks.held
        cdef DelayedOperation operation
        hooks.held = True
        runner = self._runner
        self._runner = _CHECKING
        self.checking = key
        try:
            for operation in operations:
                if operation._state is self and self._check_again(operation):
                    completed += 1
                    if limit is not None and completed == limit:
                        break
            if self._notifier is not None:
                self._notifier.signalled(key, completed)
        finally:
            self._runner = runner
            self.checking = None
            hooks.release(held)
        return completed

    cdef bint _check_again(self, DelayedOperation operation) except -1:
        if self._notifier is not None:
            self._notifier.checked(operation)
        try:
            if operation.try_complete() and operation._state is self:
                _reference("core.life_cycle", "warn_unended")(operation, stacklevel=2)
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
        operation._state = outcome
        if result is not None:
            operation.result = result
        self.timer._unschedule(operation)
        self._remove(operation)
        waiters = operation._waiters
        if waiters is not None:
            operation._waiters = None
            self._dispatcher.wake(waiters)
        if (outcome is _COMPLETED or outcome is _EXPIRED) and not isinstance(operation, KeyedWait):
            hooks.queue.append(operation)
        if self._notifier is not None:
            self._notifier.ended(operation, outcome)
        if self._emptied is not None and not self._count():
            self._emptied()
        if not hooks.held and hooks.queue:
            hooks.run()
        return True

    def _end(self, operation, outcome, result=None):
        return self._finish(operation, outcome, result)


# --- verbs ---------------------------------------------------------------------------------------


cdef class Verbs(LifeCycle):
    def try_complete_else_watch(self, operation, keys):
        cdef DelayedOperation op
        cdef tuple distinct = self._distinct(keys)
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
        cdef bint held = hooks.held
        hooks.held = True  # until it is watched: a hook could signal a key that it does not watch yet
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
            hooks.release(held)
        return operation._state is _COMPLETED

    def check_and_complete(self, key, *, limit=None):
        if limit is not None:
            check_limit("limit", limit)
        self._here(False)
        return self._check_all(key, self._watchers_of(key) if limit is None else self._in_turn(key), limit)

    def complete_for_key(self, key, result=None):
        cdef Py_ssize_t completed = 0
        cdef bint held
        cdef HookQueue hooks
        self._here(False)
        found = self._watchers.get(key)
        hooks = self._hooks
        held = hooks.held
        hooks.held = True
        try:
            if isinstance(found, dict):
                for operation in list(found):
                    completed += _complete(operation, result)
            elif found is not None and (<Watcher> found)._keys is not self._no_keys:
                completed += _complete(found, result)
            if self._notifier is not None:
                self._notifier.signalled(key, completed)
        finally:
            hooks.release(held)
        return completed


cdef bint _complete(operation, result) except -1:
    if type(operation) is KeyedWait:
        return (<KeyedWait> operation)._complete(result)
    return operation.force_complete(result)
