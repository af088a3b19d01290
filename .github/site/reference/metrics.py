"""Every metric of ``/metrics``: name, type, labels and help, as services of both kinds of store show them."""

import asyncio
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from prometheus_client.core import Metric

from purgatory_async.service.api.scrape import OWN, SHARED
from purgatory_async.service.app import create_app
from purgatory_async.service.settings.settings import Settings
from reference.markdown import code, prose, table

_INTRODUCTION: Final = """# Metrics

`GET /metrics` answers in the format of Prometheus. With several workers, metrics of the state are shown once, and
metrics of a worker once for each, with the label `worker`; `purgatory_worker_up` is 0 for a worker that does not answer
the scrape. Some appear only with a store, some only with a journal.
"""

_LAST_SHOWN: Final = "purgatory_store_wal_bytes"  # once the store's checkpoints are looked after


def markdown() -> str:
    """Return the page."""
    with tempfile.TemporaryDirectory() as directory:
        families = asyncio.run(_families(Path(directory)))
    if missing := (SHARED | OWN) - families.keys():
        raise ValueError(f"every metric must be shown, missing are {', '.join(sorted(missing))}")
    rows = [
        (
            code(_exposed(family)),
            family.type,
            ", ".join(map(code, _labels(family))),
            prose(family.documentation),
            "state" if name in SHARED else "worker",
        )
        for name, family in sorted(families.items())
    ]
    return f"{_INTRODUCTION}\n{table(('name', 'type', 'labels', 'what it counts', 'of'), rows)}\n"


async def _families(directory: Path) -> dict[str, Metric]:
    """Return the families of a service on a store, and of one in memory with a journal."""
    found: dict[str, Metric] = {}
    for settings in (
        Settings(store=f"sqlite:///{directory}/state.db", jitter=0),  # type: ignore[arg-type]  # read by its reader
        Settings(journal=directory / "journal", jitter=0),
    ):
        found |= {family.name: family for family in await _collect(settings)}
    return found


async def _collect(settings: Settings) -> Iterable[Metric]:
    app = create_app(settings)
    received: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    received.put_nowait({"type": "lifespan.startup"})
    running = asyncio.create_task(app({"type": "lifespan"}, received.get, sent.put))  # type: ignore[arg-type]
    await sent.get()
    await app.service.loaded.wait()
    families = list(app.service.metrics.registry.collect())
    while not settings.store.in_memory and _LAST_SHOWN not in {family.name for family in families}:
        await asyncio.sleep(0.01)
        families = list(app.service.metrics.registry.collect())
    received.put_nowait({"type": "lifespan.shutdown"})
    with suppress(asyncio.CancelledError):
        await running
    return families


def _exposed(family: Metric) -> str:
    return f"{family.name}_total" if family.type == "counter" else family.name


def _labels(family: Metric) -> list[str]:
    names = {name: None for sample in family.samples for name in sample.labels} | dict.fromkeys(
        getattr(family, "_labelnames", ())
    )
    return [name for name in names if name != "le"]
