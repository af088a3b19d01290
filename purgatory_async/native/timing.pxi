# Mirrors timing/.

@cython.trashcan(True)
cdef class Link:
    cdef public object _next
    cdef public object _prev


@cython.trashcan(True)
cdef class TimerNode(Link):
    cdef public int64_t deadline_tick


cdef class Bucket(Link):
    def __init__(self):
        self._next = self._prev = self
