"""A LangGraph thread that waits for a person while no process of it runs, and no longer than a day.

    python langgraph_approval.py ask http://127.0.0.1:8765 refund-42 900  # prints a link, and ends
    python langgraph_approval.py work http://127.0.0.1:8765               # goes on with what has ended

In place of the service's URL a store will do: sqlite:///questions.db. Both keep the thread in threads.db, and any
of them may be killed at any time: what was begun is finished, and the refund is paid once.
"""

import asyncio
import sys
from typing import Any, TypedDict

import aiosqlite
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, interrupt

from purgatory_async.client import AsyncClient, AsyncVerbs, Lease, RequestRefused
from purgatory_async.durable import Durable

QUEUE = "threads"  # of questions that have ended
LEASE_S = 30.0  # how long after a worker's death another one goes on
DATABASE = "threads.db"


class Refund(TypedDict, total=False):
    """The state of a thread."""

    amount: int
    answer: dict[str, str | None]


async def pay(thread: str, amount: int) -> None:
    """Pay once for a thread, however often it is called: a step that was killed runs again."""
    async with aiosqlite.connect(DATABASE) as database:
        await database.execute("CREATE TABLE IF NOT EXISTS payments (thread PRIMARY KEY, amount)")
        await database.execute("INSERT OR IGNORE INTO payments VALUES (?, ?)", (thread, amount))
        await database.commit()


def graph_of(purgatory: AsyncVerbs, saver: AsyncSqliteSaver) -> CompiledStateGraph:
    async def approve(state: Refund, config: RunnableConfig) -> Refund:
        # The thread's id is the question's: this step runs again when it is resumed, and attaches.
        asked = await purgatory.attach(
            config["configurable"]["thread_id"],
            ask={"title": f"Refund {state['amount']} EUR?", "choices": ["yes", "no"]},
            timeout="24h",  # an interrupt alone would wait for ever
            keep="7d",
            deliver=QUEUE,
        )
        return {"answer": interrupt(asked.id)}

    async def refund(state: Refund, config: RunnableConfig) -> None:
        if state["answer"]["choice"] == "yes":  # expired is no "yes"
            await pay(config["configurable"]["thread_id"], state["amount"])

    steps = StateGraph(Refund)
    steps.add_node(approve)
    steps.add_node(refund)
    for before, after in ((START, "approve"), ("approve", "refund"), ("refund", END)):
        steps.add_edge(before, after)
    return steps.compile(checkpointer=saver)


async def ask(purgatory: AsyncVerbs, graph: CompiledStateGraph, thread: str, amount: str) -> None:
    config = {"configurable": {"thread_id": thread}}
    begun = (await graph.aget_state(config)).created_at is not None
    # "sync": the thread is on disk before the question can be answered.
    await graph.ainvoke(None if begun else {"amount": int(amount)}, config, durability="sync")
    try:
        print((await purgatory.links(thread)).url)
    except RequestRefused as refused:
        print(refused.slug)


async def work(purgatory: AsyncVerbs, graph: CompiledStateGraph) -> None:
    async def resume(lease: Lease) -> None:
        ended = await purgatory.status(lease.item["operation"])
        config: Any = {"configurable": {"thread_id": ended.id}}
        answer = {"state": ended.state, "choice": ended.choice, "by": ended.by}
        while (
            thread := await graph.aget_state(config)
        ).next:  # nothing is left of one that was resumed before
            waiting = {each.id: answer for each in thread.interrupts if each.value == ended.id}
            if thread.interrupts and not waiting:
                break  # this one waits for another question by now
            # Without an interrupt it is between two steps, where a killed process left it.
            await graph.ainvoke(Command(resume=waiting) if waiting else None, config, durability="sync")
        print(f"{ended.id}: {ended.choice or ended.state}", flush=True)

    await purgatory.work(QUEUE, resume, lease=LEASE_S)


async def main(verb: str, where: str, *arguments: str) -> None:
    purgatory: AsyncVerbs = AsyncClient(where) if where.startswith("http") else Durable(where)
    async with purgatory, AsyncSqliteSaver.from_conn_string(DATABASE) as saver:
        await {"ask": ask, "work": work}[verb](purgatory, graph_of(purgatory, saver), *arguments)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
