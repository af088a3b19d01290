"""The state that outlives its process: a fold of one ordered log, and how entries come to it.

| file | holds |
|---|---|
| `fold/` | what entries do: pure, equal at every replica |
| `documents` | the types that entries and answers share |
| `state` | what `at_once` and `on_log` have in common, and the guard that both ask |
| `later` | an answer that is there at once, or comes |
| `at_once` | the state of one process, in memory |
| `on_log` | a worker's state on a log, the same at every worker |
| `proposals`, `progress`, `in_time` | what it appends, and how far it is |
| `steps`, `ticks`, `heartbeat`, `log_time`, `tasks`, `loading`, `recovery` | what drives it |
| `history`, `since`, `listing` | for readers: the history of an index, what came after it, what is pending |
| `urls`, `store_url`, `patient` | a log from its URL, also while its engine is away |
| `links/` | links by which a person answers |
| `private_file` | files of secrets |
| `checkpoints/` | checkpoints, exports, and what ``purgatory store`` does |
"""
