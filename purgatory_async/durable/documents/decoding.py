"""Reads documents, and says where one breaks the contract."""

import re
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

import msgspec
from msgspec import Raw

from purgatory_async.durable.documents import problems, strict_json
from purgatory_async.durable.documents.messages import Fault

MAX_FAULTS: Final = 16
_PLACE: Final = re.compile(r"(.*) - at `\$(.*)`", re.DOTALL)
_MEMBER: Final = re.compile(r"(?:unknown|missing required) field `(.*)`$", re.DOTALL)
_STEP: Final = re.compile(r"\.([^.\[]+)|\[([0-9]+)\]")
_INTEGER: Final = re.compile(r"[0-9]{1,19}").fullmatch
_MAX_FAULT: Final = 1024  # characters: the patterns would take minutes on a name of a megabyte

M = TypeVar("M")


def decoded(body: bytes, decoder: msgspec.json.Decoder[M], *, optional: bool = False) -> M:
    """Decode a body as a message; ``optional`` reads an empty body as ``{}``.

    Raises:
        Problem: ``malformed`` or ``invalid``.
    """
    # Twice: the check covers the whole text, while the decoder leaves attachments unparsed.
    if body or not optional:
        try:
            strict_json.check(body)
        except ValueError as error:
            raise problems.malformed(str(error)) from None
    try:
        return decoder.decode(body or b"{}")
    except msgspec.ValidationError as error:
        raise problems.invalid(*pointed(str(error))) from None


def decoded_each(member: str, texts: Iterable[Raw], read: Callable[[Raw], M], checked: str) -> tuple[M, ...]:
    """Decode the elements of a list one by one.

    Args:
        member: The name of the list in the body.
        texts: Its elements.
        read: Decodes one of them, and checks it.
        checked: The name of the member that it checks, raising a `Problem`.

    Raises:
        Problem: ``invalid``, with the first 16 faults of all of them.
    """
    found, faults = list[M](), list[Fault]()
    for number, text in enumerate(texts):
        place = f"/{member}/{number}"
        try:
            found.append(read(text))
        except msgspec.ValidationError as error:
            pointer, detail = pointed(str(error))
            faults.append(Fault(place + pointer, detail))
        except problems.Problem as problem:
            faults.append(Fault(f"{place}/{checked}", problem.document.detail))
        if len(faults) == MAX_FAULTS:
            break
    if faults:
        first, *more = faults
        raise problems.invalid(first.pointer, first.detail, *more)
    return tuple(found)


def decoded_integer(name: str, text: str, lowest: int, highest: int) -> int:
    """Return an integer parameter within its bounds.

    Raises:
        Problem: ``bad-parameter``.
    """
    # int() alone accepts underscores, spaces and non-ASCII digits.
    if _INTEGER(text) and lowest <= (value := int(text)) <= highest:
        return value
    raise problems.bad_parameter(name, text, f"an integer from {lowest} to {highest}")


def pointed(text: str) -> tuple[str, str]:
    """Split a message of msgspec into a JSON Pointer and an explanation."""
    if len(text) > _MAX_FAULT:
        text = f"{text[:_MAX_FAULT]}...`"
    match = _PLACE.fullmatch(text)
    detail, place = (text, "") if match is None else (match[1], match[2])
    steps = [step[1] if step[1] is not None else step[2] for step in _STEP.finditer(place)]
    member = _MEMBER.search(detail)
    if member is not None:
        steps.append(member[1])
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in steps), detail
