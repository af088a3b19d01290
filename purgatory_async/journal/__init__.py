"""A journal of a purgatory's events on disk, written outside the event loop.

`Journal` is the observer that writes it, `read_journal` reads it back, `schema` defines the records. For large
journals, ``purgatory pipeline`` reads them with Spark.
"""

from purgatory_async.journal._alarms import REASONS, Usage, WhenFull
from purgatory_async.journal._journal import Journal
from purgatory_async.journal._writer_thread import Sync
from purgatory_async.journal.reader import read_journal
from purgatory_async.journal.segments import JournalError

__all__ = ["REASONS", "Journal", "JournalError", "Sync", "Usage", "WhenFull", "read_journal"]
