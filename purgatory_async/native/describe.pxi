# A twin shows the reference's module and docstrings. Types and properties of an extension take these from C strings.

cdef extern from *:
    """
    static void set_type_text(PyObject *type, const char *name, const char *doc) {
        ((PyTypeObject *)type)->tp_name = name;
        ((PyTypeObject *)type)->tp_doc = doc;
        PyType_Modified((PyTypeObject *)type);
    }
    static void set_property_doc(PyObject *property, const char *doc) {
        ((PyGetSetDescrObject *)property)->d_getset->doc = doc;
    }
    static int is_getset(PyObject *member) { return Py_IS_TYPE(member, &PyGetSetDescr_Type); }
    """
    void set_type_text(object type, const char *name, const char *doc)
    void set_property_doc(object property, const char *doc)
    bint is_getset(object member)


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
    """Give a twin the module and the docstrings of its reference."""
    set_type_text(
        twin,
        _for_ever(f"{reference.__module__}.{reference.__qualname__}"),
        _for_ever(reference.__doc__ or ""),
    )
    own = vars(twin)
    for name, member in vars(reference).items():
        text = getattr(member, "__doc__", None)
        if name not in own or not isinstance(text, str):
            continue
        if is_getset(own[name]):
            set_property_doc(own[name], _for_ever(text))
        elif hasattr(own[name], "__code__"):
            own[name].__doc__ = text
