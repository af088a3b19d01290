"""A log from outside the serving loop: its state, its checkpoints, its export.

| file | holds |
|---|---|
| `engines` | what a log's own methods do not offer: whether it exists, and one process at a time |
| `loading` | the state of a log: its newest checkpoint, and the entries after it |
| `checkpointing` | a process that saves a checkpoint |
| `checkpointer` | starts that process for a serving worker |
| `levels` | the level of a log, read and raised |
| `restoring` | another epoch after a backup was restored |
| `grants` | what other roles of a Postgres need |
| `recorder`, `export` | the log as a journal: its records, and the files with a state to continue from |

Only `checkpointer` is used while serving; the rest serves ``purgatory store``.
"""
