"""All verbs, carried out in this process."""

from purgatory_async.durable.library.operations import Operations
from purgatory_async.durable.library.queues import Queues
from purgatory_async.durable.library.signals import Signals


class InProcess(Operations, Signals, Queues):
    """Implements `Backend` on a state of this process; see its bases."""
