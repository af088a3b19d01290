"""Measure how soon an agent hears of an answer: from the answer's request to the return of ``await_human``.

    python wake_up.py http://127.0.0.1:8000/mcp http://127.0.0.1:8765 200

The first address is the MCP server's, the second a service's that has its questions. Beside it stands a call
that does not wait: ``await_human`` of a question that was answered before, which is as much work.
"""

import asyncio
import sys
import time
from collections.abc import Iterable
from statistics import quantiles

from mcp import Client

from purgatory_async.client import AsyncClient

SETTLED_S = 0.05  # after which the call is held


async def once(mcp: Client, service: AsyncClient, question_id: str) -> tuple[float, float]:
    ask = {"id": question_id, "question": "Go on?", "choices": ["yes", "no"], "timeout": "10m"}
    await mcp.call_tool("ask_human", ask)
    waiting = asyncio.create_task(mcp.call_tool("await_human", {"id": question_id}))
    await asyncio.sleep(SETTLED_S)
    begin = time.perf_counter()
    await service.answer(question_id, "yes")
    answered = await waiting
    woken = time.perf_counter()
    again = await mcp.call_tool("await_human", {"id": question_id})
    assert answered.structured_content["choice"] == again.structured_content["choice"] == "yes"
    return woken - begin, time.perf_counter() - woken


def shown(name: str, seconds: Iterable[float]) -> None:
    percentiles = quantiles(seconds, n=100)
    print(f"{name:12} p50 {percentiles[49] * 1e3:6.1f} ms   p99 {percentiles[98] * 1e3:6.1f} ms")


async def main(mcp_address: str, address: str, count: str) -> None:
    run = f"wake-up-{time.time_ns()}"
    async with Client(mcp_address) as mcp, AsyncClient(address) as service:
        await once(mcp, service, f"{run}-warm")
        measured = [await once(mcp, service, f"{run}-{number}") for number in range(int(count))]
    for name, seconds in zip(("woken after", "plain call"), zip(*measured, strict=True), strict=True):
        shown(name, seconds)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
