"""Answers of at most a megabyte: operations and one-shot waits leave out their oldest signals if need be."""

from typing import Final, TypeVar

import msgspec

from purgatory_async.durable.documents import OperationView
from purgatory_async.durable.documents.messages import WaitView

ANSWER_BYTES: Final = 1 << 20
# Without its attachments a view has at most 64 keys, twice, and 64 signals with a key and a voter: half a megabyte.
_SAFE: Final = ANSWER_BYTES // 4
# The name of the member that says how many signals are left out.
_AROUND: Final = 32

V = TypeVar("V", OperationView, WaitView)


def fitting(view: V) -> V:
    """Return a view with as many of its newest signals as an answer holds. O(signals), or O(bytes) if it is large."""
    if not view.signals:
        return view
    size = sum(len(signal.value) for signal in view.signals if isinstance(signal.value, msgspec.Raw))
    if isinstance(view, OperationView):
        size += sum(len(each) for each in (view.data, view.result) if isinstance(each, msgspec.Raw))
    if size <= _SAFE:
        return view
    bare = msgspec.structs.replace(view, signals=())
    room = ANSWER_BYTES - len(msgspec.json.encode(bare)) - _AROUND
    left_out = len(view.signals)
    for signal in reversed(view.signals):
        room -= len(msgspec.json.encode(signal)) + 1  # and a comma
        if room < 0:
            break
        left_out -= 1
    if not left_out:
        return view
    return msgspec.structs.replace(view, signals=view.signals[left_out:], left_out=left_out)
