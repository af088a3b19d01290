"""The entries of a store's log and the records of a journal, from the types that read and write them."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, get_args

import msgspec

from purgatory_async.durable.fold import entries
from purgatory_async.journal import schema
from reference.http import described, kind_of
from reference.markdown import code, document, prose, table

_LINK: Final = re.compile(r"\[(\w+)\]\(#\w+\)")
_LOG: Final = """# The log of a store

A store holds one ordered log; each entry is a JSON object of at most 1.5 MiB. `k` is its kind. The engine gives an
entry its position and its time, so no entry has either. Durations are integers in microseconds, attachments one line of
JSON. Members that have their default are left out. Entries of level 2 need a store at that level (`purgatory store
level`).
"""
_JOURNAL: Final = """# The journal

A journal is a folder of segments: JSON lines, or Parquet where pyarrow is installed. Each line is one record of one of
the kinds below; as a table, all kinds share the columns below. Instants and durations are integer nanoseconds.
"""


def log() -> str:
    """Return the page about the log of a store."""
    parts = [_LOG]
    for kind in get_args(entries.AnyEntry):
        parts += _struct(kind, [entries.Entry, entries.AnswerEntry, *kind.__mro__])
    return "\n\n".join(parts)


def journal() -> str:
    """Return the page about the records of a journal."""
    parts = [_JOURNAL]
    for kind in schema.kinds():
        parts += _struct(kind, kind.__mro__)
    added = dict.fromkeys(schema.ADDED, "may be missing in files of an earlier version")
    rows = [(code(name), kind, added.get(name, "")) for name, kind in schema.FIELDS]
    parts += ["## Columns", table(("column", "type", ""), rows)]
    return "\n\n".join(parts)


def _struct(kind: Any, documented: Iterable[type]) -> Iterator[str]:
    tag = msgspec.inspect.type_info(kind).tag  # type: ignore[union-attr]  # a struct's
    said, _ = document(kind)
    about: dict[str, str] = {}
    for each in documented:
        about |= document(each)[1] if issubclass(each, msgspec.Struct) and issubclass(kind, each) else {}
    yield f"## `{tag}`"
    yield said
    properties = msgspec.json.schema_components([kind])[1][kind.__name__]
    required = properties.get("required", [])
    names = dict(zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True))
    rows = []
    for member, each in properties["properties"].items():
        name = names.get(member)
        if name is not None:  # the tag is the heading
            shown = _LINK.sub(_target, kind_of(each))
            rows.append(
                (f"**{code(member)}**" if member in required else code(member), shown, about.get(name, ""))
            )
    yield table(("member", "value", "meaning"), [(*row[:2], prose(row[2])) for row in rows])


def _target(link: re.Match[str]) -> str:
    """Lead to a document that the HTTP service has, too."""
    known = link[1] in described()["components"]["schemas"]
    return f"[{link[1]}](http.md#{link[1].lower()})" if known else code(link[1])
