# Mirrors loop/: wait, wakeups. A wait is operation and coroutine in one, and yields an exact asyncio future: a task
# takes its fast path only for that.

cdef extern from *:
    """
    static PyObject *make(PyObject *type, PyObject *args, PyObject *kwargs) {  /* a call, without copies */
        PyObject *made = ((PyTypeObject *)type)->tp_new((PyTypeObject *)type, args, NULL);
        if (made != NULL && Py_TYPE(made)->tp_init(made, args, kwargs) < 0) Py_CLEAR(made);
        return made;
    }
    static int is_async_object(PyObject *value) {  /* it can be awaited, or is an async generator */
        PyAsyncMethods *methods = Py_TYPE(value)->tp_as_async;
        return methods != NULL && (methods->am_await != NULL || methods->am_anext != NULL);
    }
    static int set_attribute(PyObject *descriptor, PyObject *of, PyObject *value) {
        return Py_TYPE(descriptor)->tp_descr_set(descriptor, of, value);
    }
    """
    bint is_async_object(object value) noexcept
    object make(object type, tuple args, dict kwargs)
    int set_attribute(object descriptor, object of, object value) except -1

# Looked up once: most waiters are exact futures.
cdef object _blocking = vars(Future)["_asyncio_future_blocking"]
cdef object _set_result = Future.set_result, _cancelled = Future.cancelled
cdef tuple _no_arguments = ()

cdef enum Step:
    FRESH, STARTED, HELD, FINISHED  # held: it waits for hooks

cdef int SEND_RETURN = 0, SEND_NEXT = 1

cdef str _WAIT = "Purgatory.wait"


cdef class KeyedWait(DelayedOperation):
    cdef Waiting _purgatory
    cdef tuple _wanted  # the keys, for messages: an ended operation has none
    cdef Step _step

    def __init__(self, timeout=None):
        if self._purgatory is not None:
            refuse_again(self, "__name__")
        self._step = FINISHED  # an operation, no coroutine
        DelayedOperation.__init__(self, timeout)

    def __dealloc__(self):
        if self._step == FRESH:
            warn(f"coroutine '{_WAIT}' was never awaited", RuntimeWarning)

    def __repr__(self):
        if self._is_coroutine():
            return f"<coroutine object {_WAIT} at {id(self):#x}>"
        return _reprs[DelayedOperation](self)

    def force_complete(self, result=None):
        return self._complete(result)

    cdef bint _complete(self, result) except -1:
        return not self._given_up() and _end(self, _COMPLETED, result)

    def fail(self, exception):
        return not self._given_up() and DelayedOperation.fail(self, exception)

    cdef bint fire(self) except -1:
        return not self._given_up() and _end(self, _EXPIRED, None)

    cpdef bint _given_up(self) except -1:
        waiters = self._waiters_or_failure
        if waiters is None or self._state is _FAILED:
            return False
        if type(waiters) is dict:  # another task awaits it as an operation
            return self.abandoned and self.cancel()
        return (_cancelled(waiters) if type(waiters) is Future else waiters.cancelled()) and self.cancel()

    cdef bint _is_coroutine(self):
        """Whether it has not been watched: as long as it has not, the reference has no operation."""
        return self._purgatory is not None and (self._state is None or self._state is _new)

    # The coroutine.

    @property
    def __name__(self):
        return "wait"

    @property
    def __qualname__(self):
        return _WAIT

    def __await__(self):
        return self if self._step == FRESH else DelayedOperation.__await__(self)

    def __next__(self):
        cdef PyObject *result = NULL
        if self._send(&result) == SEND_NEXT:
            return _owned(result)
        raise StopIteration(_owned(result))

    def send(self, value):
        return self.__next__()

    def throw(self, kind, value=None, traceback=None):
        if self._step == FINISHED:
            raise RuntimeError("cannot reuse already awaited coroutine")
        self.close()
        try:
            raise _thrown(kind, value, traceback)
        except StopIteration as stop:
            raise _stopped("coroutine") from stop

    def close(self):
        if self._step == STARTED:
            self.cancel()
        self._step = FINISHED

    cdef int _send(self, PyObject **result) except -1:
        """Take the next step: SEND_NEXT with a future to wait for, or SEND_RETURN with the answer."""
        try:
            return self._resume(result)
        except StopIteration as stop:  # of a condition, a key or a failure: for the awaiter it would be the end
            raise _stopped("coroutine") from stop

    cdef int _resume(self, PyObject **result) except -1:
        if self._step == FRESH:
            self._step = FINISHED  # if it raises
            self._purgatory._begin(self)
            if type(self._state) is not _Outcome:
                try:
                    self._waiters_or_failure = future = self._purgatory.new_future()
                except BaseException:
                    self.cancel()
                    raise
                self._step = STARTED
                return _suspend(future, result)
        elif self._step == FINISHED:
            raise RuntimeError("cannot reuse already awaited coroutine")
        self._step = FINISHED
        if type(self._state) is not _Outcome:
            self.cancel()
            raise RuntimeError("await wasn't used with future")
        answer = self.result if self._state is _COMPLETED else self.answer(self._wanted)
        result[0] = <PyObject *> answer
        Py_INCREF(answer)
        return SEND_RETURN


cdef class ConditionWait(KeyedWait):
    cdef public object _until

    def __init__(self, until, timeout):
        KeyedWait.__init__(self, timeout)
        self._until = until

    def try_complete(self):
        if self._given_up():
            return False  # waiter cancelled: do not consume
        value = self._until()
        if not value:
            return False
        if is_async_object(value):
            raise returned_async("until", self._until, value)
        return self._complete(value)


cdef class OperationAwait:
    """A task's await of an operation."""

    cdef DelayedOperation _operation
    cdef object _waiter
    cdef Step _step

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        cdef PyObject *result = NULL
        if self._send(&result) == SEND_NEXT:
            return _owned(result)
        raise StopIteration(_owned(result))

    def send(self, value):
        return self.__next__()

    def throw(self, kind, value=None, traceback=None):
        self.close()
        try:
            raise _thrown(kind, value, traceback)
        except StopIteration as stop:
            raise _stopped("generator") from stop

    def close(self):
        if self._step == STARTED:
            self._operation._drop_waiter(self._waiter)
        self._step = FINISHED

    cdef int _send(self, PyObject **result) except -1:
        cdef DelayedOperation operation = self._operation
        cdef Step step = self._step
        self._step = FINISHED
        state = operation._state
        if type(state) is not _Outcome:
            if step != FRESH:
                if step == STARTED:
                    operation._drop_waiter(self._waiter)
                raise RuntimeError("await wasn't used with future")
            if state is None:
                raise AttributeError("_state")
            if isinstance(state, Waiting):
                (<Waiting> state)._here(True)
                waiter = (<Waiting> state).new_future()
            else:
                waiter = state.new_waiter(operation)  # raises
            self._waiter = waiter
            if operation._waiters_or_failure is None:
                operation._waiters_or_failure = waiter
            else:
                operation._add_waiter(waiter)
            self._step = STARTED
            return _suspend(waiter, result)
        if step == FINISHED:
            raise StopIteration
        if state is _FAILED:
            try:
                operation._raise_failure()
            except StopIteration as stop:
                raise _stopped("generator") from stop
        if operation._waiters_or_failure is not None:
            if step != HELD:
                self._step = HELD
                result[0] = <PyObject *> None
                Py_INCREF(None)
                return SEND_NEXT
            operation._run_hooks()
        result[0] = <PyObject *> state
        Py_INCREF(state)
        return SEND_RETURN


cdef PySendResult _send_wait(PyObject *self, PyObject *value, PyObject **result) except -1:
    return (<KeyedWait> self)._send(result)


cdef PySendResult _send_operation(PyObject *self, PyObject *value, PyObject **result) except -1:
    return (<OperationAwait> self)._send(result)


cdef int _suspend(object future, PyObject **result) except -1:
    """Hand a future to the task, as its ``__await__`` would."""
    if type(future) is Future:
        set_attribute(_blocking, future, True)
    else:
        future._asyncio_future_blocking = True
    result[0] = <PyObject *> future
    Py_INCREF(future)
    return SEND_NEXT


cdef bint _is_look(until) except -1:
    """`makes_coroutines`, without a call for a plain function."""
    if type(until) is FunctionType and not (<object> until.__code__.co_flags) & CO_COROUTINE and not until.__dict__:
        return False
    return makes_coroutines(until)


cdef object _owned(PyObject *result):
    """The object of a reference that the caller owns."""
    owned = <object> result
    Py_DECREF(owned)
    return owned


cdef object _thrown(kind, value, traceback):
    if value is None:
        value = kind if isinstance(kind, BaseException) else kind()
    return value if traceback is None else value.with_traceback(traceback)


cdef object _stopped(str kind):
    """What a native coroutine or generator raises in place of a `StopIteration` that is not its own end (PEP 479)."""
    return RuntimeError(f"{kind} raised StopIteration")


cdef class Waiting(Verbs):
    cdef object _create_future
    cdef dict _of_loop  # arguments of a future, if the loop's `create_future` is asyncio's own

    @property
    def _new_future(self):
        return self._create_future

    @_new_future.setter
    def _new_future(self, create):
        self._create_future = create
        plain = getattr(create, "__func__", None) is BaseEventLoop.create_future
        self._of_loop = {"loop": create.__self__} if plain else None

    cdef object new_future(self):
        return self._create_future() if self._of_loop is None else make(Future, _no_arguments, self._of_loop)

    @cython.binding(True)  # a function, for it must show as an async one; it does not check its self
    def wait(self, *keys, until=None, timeout=None):
        cdef KeyedWait operation
        if not isinstance(self, Waiting):
            raise TypeError(f"descriptor 'wait' requires a 'Purgatory' object but received a {type(self).__name__!r}")
        if until is None:
            operation = KeyedWait.__new__(KeyedWait)
        elif _is_look(until):
            return _reference("loop.wait", "wait_looking")(self, keys, until, timeout)
        else:
            operation = ConditionWait.__new__(ConditionWait)
            (<ConditionWait> operation)._until = until
        operation._purgatory = self
        operation._wanted = keys
        operation._timeout = timeout
        return operation

    def new_waiter(self, operation):
        self._here(True)
        return self.new_future()

    cdef int _begin(self, KeyedWait operation) except -1:
        cdef tuple keys = operation._wanted
        try:
            for key in keys:
                hash(key)
        except TypeError as error:
            raise _reference("loop.wait", "unhashable")(key, error) from None
        if operation._timeout is None and len(keys) > 1:
            refuse_number(keys)
        if type(operation) is ConditionWait:
            check_callback("until", (<ConditionWait> operation)._until)
        _set_timeout(operation, operation._timeout)
        operation._wanted = keys = self._distinct(keys)
        self._admit(operation, keys)
        return 0


# --- wakeups -------------------------------------------------------------------------------------


cdef class Dispatcher:
    cdef object __weakref__
    cdef public object _loop, _sleepers
    cdef public Py_ssize_t _left, _queued

    def __init__(self, loop):
        self._loop = weakref_of(loop)
        self._sleepers = deque()
        self._left = _reference("loop.wakeups", "SLICE")

    cpdef wake(self, waiters):
        if type(waiters) is dict:
            for waiter in waiters:
                self.wake(waiter)
        elif self._left:
            self._left -= 1
            try:
                if type(waiters) is Future:
                    _set_result(waiters, None)
                else:
                    waiters.set_result(None)
            except InvalidStateError:
                pass  # cancelled
            except RuntimeError:
                _reference("loop.wakeups", "_check_closed")(waiters)
            if not self._left:
                self.soon(self._wake_slice)
        else:
            self._sleepers.append(waiters)


set_send(KeyedWait, <sendfunc> _send_wait)
set_send(ConditionWait, <sendfunc> _send_wait)
set_send(OperationAwait, <sendfunc> _send_operation)
