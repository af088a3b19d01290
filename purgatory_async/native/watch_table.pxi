# Mirrors core/: watch_lists, watch_counts and watch_table.

from cpython.dict cimport PyDict_DelItem, PyDict_SetDefault, PyDict_SetItem

cdef extern from *:
    """
    static int compares_itself(PyObject *watcher) {  /* it may define __eq__ */
        return Py_TYPE(watcher)->tp_richcompare != PyBaseObject_Type.tp_richcompare;
    }
    """
    bint compares_itself(object watcher) noexcept

cdef enum:
    FEW_KEYS = 8  # are compared with each other


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


cdef bint _differ(tuple keys) except -1:
    """Whether a few keys have different hashes."""
    cdef Py_hash_t[FEW_KEYS] hashes
    cdef Py_ssize_t index, other
    for index in range(len(keys)):
        hashes[index] = hash(keys[index])
        for other in range(index):
            if hashes[other] == hashes[index]:
                return False
    return True


cdef class WatchCounts:
    cdef public dict _watchers
    cdef public Py_ssize_t _more_pending, _more_pairs, _vacant
    cdef public Watcher _arrivals
    cdef object _no_keys

    def __init__(self):
        refuse_again(self, "_watchers")
        self._watchers = {}
        self._arrivals = Watcher()
        self._arrivals._older = self._arrivals._newer = self._arrivals
        self._no_keys = _reference("core.watch_lists", "NO_KEYS")

    cdef Py_ssize_t _count(self):
        return len(self._watchers) + self._more_pending

    cpdef list _watchers_of(self, key):
        found = self._watchers.get(key)
        if found is None:
            return []
        if isinstance(found, dict):
            return list(found)
        return [] if (<Watcher> found)._keys is self._no_keys else [found]


cdef class WatchTable(WatchCounts):
    cdef tuple _distinct(self, keys):
        cdef tuple given
        if type(keys) is tuple or type(keys) is list:
            given = <tuple> keys if type(keys) is tuple else tuple(<list> keys)
            if 0 < len(given) <= FEW_KEYS and _differ(given):
                return given
        return _reference("core.watch_table", "distinct_keys")(keys)

    cdef int _add(self, Watcher watcher, tuple keys) except -1:
        cdef SharedList shared = None
        first = keys[0]
        found = _set_default(self._watchers, first, watcher) if len(keys) == 1 else self._watchers.get(first)
        if found is not None and found is not watcher:
            shared = self._shared_list(found, keys)
        if shared is not None:
            _refuse_equal(watcher)
            PyDict_SetItem(shared, watcher, None)
            self._more_pending += 1
            self._more_pairs += shared.width
        elif found is not watcher:
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
            shared.now_of(keys if switched == len(keys) else keys[:switched])  # a whole slice is a copy here
        return shared

    cpdef _enter(self, Watcher watcher, tuple keys):
        cdef dict watchers = self._watchers
        cdef object own  # a dict, or an ordered one
        cdef Py_ssize_t known = len(watchers), new
        cdef list entered = []
        try:
            for key in keys:
                found = _set_default(watchers, key, watcher)
                if found is watcher:
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
        cdef dict watchers = self._watchers
        keys = watcher._keys
        try:
            if type(keys) is SharedList:
                self._leave_shared(keys, watcher)
            elif type(keys) is tuple or watchers[keys] is not watcher:
                self._leave(watcher)
            else:
                del watchers[keys]  # the sole watcher of its only key
        except BaseException as exception:  # leaving cannot be refused
            self._search_out(watcher, exception)
        watcher._keys = self._no_keys
        cdef Watcher older = watcher._older, newer = watcher._newer
        older._newer = newer
        newer._older = older
        watcher._older = watcher._newer = None

    cpdef _leave(self, Watcher watcher):
        cdef dict watchers = self._watchers
        cdef tuple keys = _keys_of(watcher)
        cdef Py_ssize_t known = len(watchers), gone
        for key in keys:
            found = watchers[key]
            if found is not watcher:
                if type(found) is not SharedList:
                    del found[watcher]
                elif (<SharedList> found).width == len(keys):
                    self._leave_shared(found, watcher)
                    return
                else:
                    found.pop(watcher, None)  # a key may find it more than once
                if found:
                    continue
            del watchers[key]
        gone = known - len(watchers)
        self._more_pending += gone - 1
        self._more_pairs += gone - len(keys)

    cpdef _leave_shared(self, SharedList shared, Watcher watcher):
        cdef Py_ssize_t width = shared.width  # first: it raises for None
        PyDict_DelItem(shared, watcher)
        self._more_pending -= 1
        self._more_pairs -= width
        if not len(shared):
            self._give_up(shared)


cdef inline object _set_default(dict watchers, object key, Watcher watcher):
    if watchers is None:
        raise AttributeError("_watchers")  # as if it were not set
    return <object> PyDict_SetDefault(watchers, key, watcher)


cdef int _refuse_equal(object watcher) except -1:
    if compares_itself(watcher):
        _reference("core.watch_lists", "refuse_equal")(watcher)
    return 0
