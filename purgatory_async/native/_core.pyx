# cython: language_level=3, binding=False, boundscheck=False, wraparound=False, initializedcheck=False, auto_pickle=False, nonecheck=True
"""The compiled twins of the classes marked `also_compiled`; each file below mirrors the reference of its name."""

from asyncio import BaseEventLoop, Future, InvalidStateError
from collections import deque
from inspect import CO_COROUTINE, Signature, iscoroutinefunction, signature
from types import FunctionType, GenericAlias
from warnings import warn
from weakref import ref as weakref_of

cimport cython
from cpython.mem cimport PyMem_Malloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t
from libc.string cimport memcpy

include "sources.pxi"
include "describe.pxi"
include "timing.pxi"
include "timer.pxi"
include "watch_table.pxi"
include "operation.pxi"
include "life_cycle.pxi"
include "wait.pxi"
