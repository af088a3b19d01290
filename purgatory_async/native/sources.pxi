# Names the sources, so that an extension built from others is noticed; see build.py.

cdef extern from *:
    """
    #define TEXT_OF(macro) AS_TEXT(macro)
    #define AS_TEXT(text) #text
    static const char *const sources_mark = "built from sources " TEXT_OF(PURGATORY_SOURCES);
    """
    const char *const sources_mark

sources = sources_mark.decode()
