"""The purgatory and its timer on an event loop."""

from asyncio import _get_running_loop

from purgatory_async.core.reports import surroundings

surroundings.running_loop = _get_running_loop
