"""Every collection that a service, or a `Durable`, keeps: found by walking its objects."""

import functools
import types
from collections import Counter, deque

KINDS = (dict, list, set, deque, bytearray)
LOOKED_AT = 50  # of each collection: its first objects show what kind the others are
OURS = ("purgatory_async.durable.", "purgatory_async.service.")


def containers(*roots):
    """Return the collections that can be reached from some objects: ``module:Class.attribute``."""
    return set(sizes(*roots))


def sizes(*roots):
    """Return how much those have that can be reached, all of one name together."""
    found, seen, todo = Counter(), {}, list(roots)
    while todo:
        thing = todo.pop()
        if id(thing) in seen:
            continue
        seen[id(thing)] = thing  # kept, so that no other has its id
        todo += inside(thing)
        kind = type(thing)
        if kind.__module__.startswith(OURS):
            for name, value in attributes(thing):
                todo.append(value)
                if isinstance(value, KINDS):
                    module = kind.__module__.removeprefix("purgatory_async.").removeprefix("service.")
                    found[f"{module}:{kind.__qualname__}.{name}"] += len(value)
    return found


def inside(thing):
    """Return what a collection, function or coroutine holds."""
    match thing:
        case dict():
            found = [*[*thing][:LOOKED_AT], *[*thing.values()][:LOOKED_AT]]
        case list() | set() | deque() | tuple() | frozenset():
            found = [*thing][:LOOKED_AT]
        case types.MethodType():
            found = [thing.__self__]
        case types.FunctionType():
            found = [cell.cell_contents for cell in thing.__closure__ or ()]
        case functools.partial():
            found = [thing.func, *thing.args, *thing.keywords.values()]
        case types.CoroutineType() if thing.cr_frame is not None:
            found = [*thing.cr_frame.f_locals.values()]
        case _:
            found = []
    return found


def attributes(thing):
    """Iterate over the names and values of an object's attributes, in slots or not."""
    yield from getattr(thing, "__dict__", {}).items()
    for kind in type(thing).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(thing, name):
                yield name, getattr(thing, name)
