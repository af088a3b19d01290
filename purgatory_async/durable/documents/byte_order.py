"""Names the byte-order mark of a text that must not have one, so that a refusal says what an editor hides."""

from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE, BOM_UTF32_LE
from typing import Final

_MARKS: Final = {
    BOM_UTF8: "UTF-8",
    BOM_UTF32_LE: "UTF-32",  # before the mark of UTF-16, which it begins with
    BOM_UTF16_LE: "UTF-16",
    BOM_UTF16_BE: "UTF-16",
}


def bom_fault(text: bytes) -> str | None:
    r"""Say that a text starts with a byte-order mark, and what to do; None if it does not. O(1).

    Example:
        >>> bom_fault(b"\xef\xbb\xbf{}")
        'starts with a BOM (byte-order mark) of UTF-8; write it in UTF-8 without one'
        >>> bom_fault(b"{}") is None
        True
    """
    for mark, name in _MARKS.items():
        if text.startswith(mark):
            return f"starts with a BOM (byte-order mark) of {name}; write it in UTF-8 without one"
    return None
