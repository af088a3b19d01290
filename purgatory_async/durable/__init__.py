"""The state that outlives its process: a fold of one ordered log, how entries come to it, and `Durable`, its face.

`Durable` has the verbs of `purgatory_async.client.AsyncClient` without a service, on a store of the application's own.

| file | holds |
|---|---|
| `library/` | `Durable`, and what carries out its verbs; a signal from a program without a loop |
| `verbs/` | what may be asked of the state, whatever carries the question |
| `waiting/` | what waits in this process: for signals, items, positions, events |
| `documents/` | bodies, views and problems: what is asked and answered, and its rules |
| `grants`, `backing` | on whose behalf something is asked; where the state is |
| `stats/` | figures of the last minute, the survey and the search of what is pending |
| `fold/` | what entries do: pure, equal at every replica |
| `state` | what `at_once` and `on_log` have in common, and the guard that both ask |
| `later` | an answer that is there at once, or comes |
| `at_once` | the state of one process, in memory |
| `on_log` | a worker's state on a log, the same at every worker |
| `proposals`, `progress`, `in_time` | what it appends, and how far it is |
| `tracing` | both, where their changes are reported to what makes traces |
| `steps`, `ticks`, `heartbeat`, `log_time`, `tasks`, `loading`, `recovery` | what drives it |
| `history`, `since`, `listing` | for readers: the history of an index, what came after it, what is pending |
| `urls`, `store_url`, `patient` | a log from its URL, also while its engine is away |
| `links/` | links by which a person answers |
| `private_file` | files of secrets |
| `checkpoints/` | checkpoints, exports, and what ``purgatory store`` does |
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from purgatory_async.durable.library.durable import Durable
    from purgatory_async.durable.library.signalling import signal

__all__ = ["Durable", "signal"]

_LOADED_ON_USE = {
    "Durable": "purgatory_async.durable.library.durable",
    "signal": "purgatory_async.durable.library.signalling",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is used: what only needs the fold loads no more."""
    if name not in _LOADED_ON_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LOADED_ON_USE[name]), name)
