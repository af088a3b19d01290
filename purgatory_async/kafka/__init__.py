"""A Kafka broker in memory: no security, no transactions, not for production data.

Unmodified Kafka clients talk to it. Their produce, fetch, delete-records and join requests wait in this library's
purgatories, as they do in Kafka's.

    Broker   listens, answers, and ends every held request when it is closed

It needs the extra ``kafka``: ``pip install "purgatory-async[kafka]"``.

>>> import asyncio
>>> async def main():
...     async with Broker() as broker:
...         return broker.host, broker.port > 0
>>> asyncio.run(main())
('127.0.0.1', True)
"""

try:
    from purgatory_async.kafka.broker import Broker
except ModuleNotFoundError as missing:
    if (missing.name or "").startswith("purgatory_async"):
        raise
    raise ModuleNotFoundError(
        f"purgatory_async.kafka needs {missing.name}, which is not installed; "
        'run: pip install "purgatory-async[kafka]"',
        name=missing.name,
    ) from missing

__all__ = ["Broker"]
