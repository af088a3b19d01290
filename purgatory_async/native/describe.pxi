# A twin has only fields and hot methods. The rest, with the docstrings, it takes over from its reference.

cdef extern from *:
    """
    static void set_type_text(PyObject *type, const char *name, const char *doc) {
        ((PyTypeObject *)type)->tp_name = name;
        ((PyTypeObject *)type)->tp_doc = doc;
    }
    static int add_member(PyObject *type, PyObject *name, PyObject *member) {
        int failed = PyDict_SetItem(((PyTypeObject *)type)->tp_dict, name, member);
        PyType_Modified((PyTypeObject *)type);
        return failed;
    }
    static void mark_coroutine(PyObject *code) { ((PyCodeObject *)code)->co_flags |= CO_COROUTINE; }
    static int is_getset(PyObject *member) { return Py_IS_TYPE(member, &PyGetSetDescr_Type); }
    static int is_method(PyObject *member) { return Py_IS_TYPE(member, &PyMethodDescr_Type); }
    static int is_slot(PyObject *member) { return Py_IS_TYPE(member, &PyMemberDescr_Type); }
    static void set_getset_doc(PyObject *member, const char *doc) {
        ((PyGetSetDescrObject *)member)->d_getset->doc = doc;
    }
    static void set_method_doc(PyObject *member, const char *doc) {
        ((PyMethodDescrObject *)member)->d_method->ml_doc = doc;
    }
    static void set_send(PyObject *type, sendfunc send) {
        ((PyTypeObject *)type)->tp_as_async->am_send = send;
        PyType_Modified((PyTypeObject *)type);
    }
    """
    ctypedef int PySendResult
    ctypedef PySendResult (*sendfunc)(PyObject *, PyObject *, PyObject **) noexcept
    void set_type_text(object type, const char *name, const char *doc)
    int add_member(object type, object name, object member) except -1
    void mark_coroutine(object code)
    bint is_getset(object member)
    bint is_method(object member)
    bint is_slot(object member)
    void set_getset_doc(object member, const char *doc)
    void set_method_doc(object member, const char *doc)
    void set_send(object type, sendfunc send)

cdef set _OWN = {"__dict__", "__doc__", "__module__", "__slots__", "__static_attributes__", "__firstlineno__"}
cdef set _OF_LEVELS = {"_add_levels", "_holds", "_new_bucket"}  # a twin's levels are a snapshot, in vain to change
cdef dict _reprs = {}  # twin: ``__repr__`` of its reference; a slot, which cannot be taken over


cdef const char *_for_ever(str text) except NULL:
    """Copy a text to memory that is never freed."""
    cdef bytes encoded = text.encode()
    cdef Py_ssize_t size = len(encoded) + 1
    cdef char *copy = <char *> PyMem_Malloc(size)
    if copy is NULL:
        raise MemoryError
    memcpy(copy, <const char *> encoded, size)
    return copy


def take_over(twin: type, reference: type) -> None:
    """Give a twin its reference's name, its docstrings, and the methods that are not compiled."""
    name = f"{reference.__module__}.{reference.__qualname__}"
    set_type_text(twin, _for_ever(name), _for_ever(_documented(reference)))
    own = vars(twin)
    _reprs[twin] = vars(reference).get("__repr__")
    for name, member in vars(reference).items():
        if name not in own:
            if name not in _OWN | _OF_LEVELS and not is_slot(member) and not is_getset(member):
                add_member(twin, name, member)
        elif isinstance(text := getattr(member, "__doc__", None), str):
            if is_getset(own[name]):
                set_getset_doc(own[name], _for_ever(text))
            elif is_method(own[name]):
                set_method_doc(own[name], _for_ever(_documented(member)))
            elif hasattr(own[name], "__code__"):
                for detail in ("__doc__", "__annotations__", "__module__", "__qualname__"):  # of `wait`
                    setattr(own[name], detail, getattr(member, detail))
                if iscoroutinefunction(member):
                    mark_coroutine(own[name].__code__)
        _rebind_super(getattr(member, "fget", None) or getattr(member, "__func__", member), twin)


cdef str _documented(member):
    """A docstring from which CPython also reads the signature, without annotations."""
    parameters = [one.replace(annotation=one.empty) for one in signature(member).parameters.values()]
    shown = f"{Signature(parameters)}".replace("(self", "($self", 1)
    return f"{member.__name__}{shown}\n--\n\n{member.__doc__ or ''}"


cdef _rebind_super(function, twin):
    """Let ``super()`` in a taken-over method start from the twin."""
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    if "__class__" in names:
        function.__closure__[names.index("__class__")].cell_contents = twin


cdef dict _found = {}


cdef object _reference(str module, str name):
    """A name that is defined after this extension is loaded."""
    found = _found.get(name)
    if found is None:
        found = _found[name] = getattr(__import__("purgatory_async." + module, fromlist=[name]), name)
    return found
