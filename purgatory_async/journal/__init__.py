"""A record of what a purgatory did: written beside the event loop, read by whoever wants to learn from it.

`Journal` is the observer that writes it, `read_journal` reads it back; `schema` has the records. For anything large,
``purgatory pipeline report`` and its sisters read it with Spark.
"""

from purgatory_async.journal._journal import Journal, WhenFull
from purgatory_async.journal._segment_file import JournalError
from purgatory_async.journal._writer_thread import Sync
from purgatory_async.journal.reader import read_journal

__all__ = ["Journal", "JournalError", "Sync", "WhenFull", "read_journal"]
