"""Signals: from the bodies that ask for them to entries of the log, and from the state to what readers see."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, Raw, Struct

from purgatory_async.durable.documents import KeyedSignal, SignalBody, SignalView, kept, problems
from purgatory_async.durable.documents.decoding import decoded, decoded_each
from purgatory_async.durable.documents.fitting import ANSWER_BYTES
from purgatory_async.durable.documents.long_lists import check_list
from purgatory_async.durable.documents.messages import MAX_SIGNALS, FollowedSignal, FollowView, KeyView
from purgatory_async.durable.documents.names import MAX_KEYS, checked_key
from purgatory_async.durable.fold.entries import SignalKey, SignalKeys
from purgatory_async.durable.fold.fold import Fold
from purgatory_async.durable.fold.signals import Signal
from purgatory_async.durable.history import SINCE_GRAMMAR, Since, history_at, parse_since
from purgatory_async.durable.since import Found, Seen, Wanted
from purgatory_async.durable.state import Guard, State
from purgatory_async.durable.waiting.followers import Followers
from purgatory_async.durable.waiting.waiters import G

MAX_INDEX: Final = 2**63 - 1
MAX_FOLLOWED: Final = 256
"""The most signals of an answer to a follower."""
# What an answer has around its signals: the names of its members, two indexes and a history.
_AROUND: Final = 256


class _Batch(Struct, forbid_unknown_fields=True):
    """`SignalsBody`, its signals not yet decoded, so that each fault can be told."""

    signals: Annotated[list[Raw], Meta(min_length=1, max_length=MAX_SIGNALS)]


_SIGNAL: Final = msgspec.json.Decoder(SignalBody)
_BATCH: Final = msgspec.json.Decoder(_Batch)
_KEYED: Final = msgspec.json.Decoder(KeyedSignal)


def signal_in(body: bytes, key: str, by: Guard) -> SignalKey:
    """Check the body of a signal, and return its entry.

    Raises:
        Problem: ``malformed`` or ``invalid``.
    """
    signal, grant = decoded(body, _SIGNAL, optional=True), by.grant
    return SignalKey(
        key=key,
        value=kept(signal.value),
        amount=signal.amount,
        voter=signal.voter,
        owner=grant.owner,
        quota=grant.quota,
    )


def signals_in(body: bytes, by: Guard) -> SignalKeys:
    """Check the body of a batch of signals, and return its entry.

    Raises:
        Problem: ``malformed`` or ``invalid``; ``forbidden`` for a key that the caller may not use.
    """
    check_list(body, "signals", MAX_SIGNALS)
    signals = decoded_each("signals", decoded(body, _BATCH).signals, _keyed, "key")
    by.use(*(signal.key for signal in signals))
    grant = by.grant
    return SignalKeys(signals=signals, owner=grant.owner, quota=grant.quota)


def _keyed(text: Raw) -> KeyedSignal:
    signal = _KEYED.decode(text)
    checked_key(signal.key)
    signal.value = kept(signal.value)
    return signal


def newest(fold: Fold, key: str) -> KeyView:
    """Show the newest signal of a key. O(1)."""
    return _view(key, fold.signals.latest(key))


def newer(fold: Fold, key: str, index: int) -> KeyView | None:
    """Show the newest signal of a key if it is above an index: a key's newest has the highest. O(1)."""
    latest = fold.signals.latest(key)
    # An index above the newest position is from another epoch: then everything is new.
    if (0 if latest is None else latest.index) <= index <= fold.position:
        return None
    return _view(key, latest)


def _view(key: str, latest: SignalView | None) -> KeyView:
    # An unknown or dropped key reads as one without signals. A signal may have no value.
    if latest is None:
        return KeyView(key, 0, None)
    return KeyView(key, latest.index, None if latest.value is UNSET else latest.value)


def since_in(text: str) -> Since:
    """Return the place after which a reader wants signals.

    Raises:
        Problem: ``bad-parameter``.
    """
    since = parse_since(text)
    if since is None:
        raise problems.bad_parameter("since", text, SINCE_GRAMMAR)
    return since


def wanted_in(keys: Iterable[str], prefixes: Iterable[str], by: Guard) -> Wanted:
    """Return the distinct keys and prefixes to follow, each checked.

    Raises:
        Problem: ``invalid``, ``bad-key``, ``too-many-keys`` or ``forbidden``.
    """
    keys, prefixes = (tuple(dict.fromkeys(names)) for names in (keys, prefixes))
    if not keys and not prefixes:
        raise problems.invalid("/key", "name at least one key or prefix in the query, got none")
    if len(keys) + len(prefixes) > MAX_KEYS:
        raise problems.too_many_keys(len(keys) + len(prefixes), MAX_KEYS)
    wanted = Wanted(tuple(map(checked_key, keys)), tuple(map(checked_key, prefixes)))
    by.use(*keys, *prefixes)
    return wanted


async def follow(
    state: State, followers: Followers[G], wanted: Wanted, since: Since, *, most: int, wait: float, by: G
) -> FollowView:
    """Show the signals after a place; wait while there is none. The state must have caught up.

    Args:
        state: Has the signals.
        followers: Wait for them.
        wanted: The keys and prefixes.
        since: The place.
        most: The most signals to show; an answer holds fewer of large ones, but at least one.
        wait: Seconds to wait.
        by: Who follows.

    Raises:
        Problem, LogUnavailable: As of `Followers.follow`.
    """
    if since.index is None:
        found = Found((), gap=False)
    else:
        seen = Seen(since.history or state.epoch, since.index)
        # One more than fits: then there are more.
        found = await followers.follow(wanted, seen, most=most + 1, wait=wait, by=by)
    shown = _shown(found.signals, most)
    more = len(shown) < len(found.signals)
    index = shown[-1].index if more else state.fold.signals.highest
    return FollowView(shown, index, f"{history_at(state, index)}-{index}", more, found.gap)


def _shown(signals: Sequence[Signal], most: int) -> list[FollowedSignal]:
    """Return signals as they are shown, no more than an answer holds."""
    shown: list[FollowedSignal] = []
    room = ANSWER_BYTES - _AROUND
    for signal in signals[:most]:
        view = signal.view
        one = FollowedSignal(view.key, view.index, view.value, signal.amount, view.voter)
        room -= len(msgspec.json.encode(one)) + 1  # and a comma
        if room < 0 and shown:
            break
        shown.append(one)
    return shown
