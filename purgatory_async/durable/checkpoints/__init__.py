"""A log from outside the serving loop: its state, its checkpoints, its export.

| file | holds |
|---|---|
| `loading` | the state of a log: its newest checkpoint, and the entries after it |
| `checkpointing` | a process that saves a checkpoint |
| `checkpointer` | starts that process for a serving worker |
| `copying` | a log begins with the state of another one, on any engine |
| `upkeep` | the level of a log is raised; it gets another epoch after a backup was restored |
| `recorder`, `export` | the log as a journal: its records, and the files with a state to continue from |

Only `checkpointer` is used while serving; the rest serves ``purgatory store``.
"""
