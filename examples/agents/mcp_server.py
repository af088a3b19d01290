"""An MCP server by which an agent asks a person, and waits for the answer for minutes or days.

    python mcp_server.py http://127.0.0.1:8765               # stdio; the questions are in a service
    python mcp_server.py sqlite:///questions.db --port 8000  # http://127.0.0.1:8000/mcp; they are in a store

The process holds nothing that matters: start as many as you like, and kill them whenever you like.
"""

import argparse
import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Literal

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel, Field

from purgatory_async import PurgatoryError
from purgatory_async.client import AsyncClient, AsyncVerbs, Operation, Policy, RequestRefused
from purgatory_async.durable import Durable

HELD_S = 50.0  # of one call: hosts and proxies give up on one that takes a minute
PROGRESS_S = 10.0  # between signs of life

NAMES = "Names the decision, as deploy-77; never the run or the attempt. The same id is the same question."
NEXT = {
    "pending": "Nothing is decided. Call await_human with this id, again and again.",
    "completed": "Act by the choice alone. No choice is no consent.",
}
OVER = "There will be no answer, so do not act. To ask once more, use another id."
Id = Annotated[str, Field(description=NAMES)]


class Question(BaseModel):
    """A question, as the agent reads it."""

    id: str
    state: Literal["pending", "completed", "expired", "cancelled", "failed", "closed"]
    choice: str | None = None
    comment: str | None = None
    by: str | None = None
    link: Annotated[str | None, Field(description="Show it to the person, who answers there.")] = None
    next: str = NEXT["pending"]

    @classmethod
    def of(cls, asked: Operation, link: str | None = None) -> "Question":
        """Return what the agent may know of an operation."""
        answer = {"choice": asked.choice, "comment": asked.comment, "by": asked.by}
        return cls(id=asked.id, state=asked.state, link=link, next=NEXT.get(asked.state, OVER), **answer)


@contextmanager
def told() -> Iterator[None]:
    """Let the agent read why it was refused."""
    try:
        yield
    except (PurgatoryError, ValueError) as refused:
        raise ToolError(str(refused)) from refused


def server_of(purgatory: AsyncVerbs, announce: str | None = None) -> MCPServer:
    """Return a server of the two tools, whose questions are in a service or a store."""
    server = MCPServer("ask-human", log_level="WARNING")

    @server.tool()
    async def ask_human(id: Id, question: str, choices: list[str], timeout: str = "24h") -> Question:  # noqa: A002
        """Ask a person to choose. Returns at once, with the answer if one came: then call await_human.

        The timeout, such as 30m, 24h or 7d, counts from the first call with this id. After an error call it again.
        """
        ask, link = {"title": question, "choices": choices, "comment": "optional"}, None
        with told():
            asked = await purgatory.attach(id, ask=ask, timeout=timeout, keep="7d", announce=announce)
            with suppress(RequestRefused):  # it was answered, or links are for others to make
                link = (await purgatory.links(id)).url
            return Question.of(asked, link)

    @server.tool()
    async def await_human(id: Id, context: Context) -> Question:  # noqa: A002
        """Wait for a person's answer. While it is pending after 50 s, call it again."""
        with told(), suppress(TimeoutError):
            async with asyncio.timeout(HELD_S):
                while (asked := await purgatory.follow(id, timeout=PROGRESS_S)).pending:
                    await context.report_progress(asked.elapsed, message="A person has not answered yet.")
            return Question.of(asked)
        return Question(id=id, state="pending")

    return server


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("where", help="URL of a service (its token in PURGATORY_TOKEN), or of a store")
    parser.add_argument("--port", type=int, help="serve streamable HTTP in place of stdio")
    parser.add_argument("--announce", metavar="QUEUE", help="where a bot takes each question once")
    parser.add_argument("--public-url", metavar="URL", help="for a store: of a service on it, for the links")
    parser.add_argument("--link-secret", metavar="FILE", help="for a store: the same as that service's")
    given = parser.parse_args()
    purgatory: AsyncVerbs
    if given.where.startswith("http"):
        token = os.environ.get("PURGATORY_TOKEN")
        purgatory = AsyncClient(given.where, token=token, policy=Policy(patience=HELD_S))
    else:
        purgatory = Durable(given.where, public_url=given.public_url, link_secret=given.link_secret)
    async with purgatory:
        server = server_of(purgatory, given.announce)
        if given.port is None:
            await server.run_stdio_async()
        else:  # stateless: any replica can have any call, and those that a restart cuts are made again
            app = server.streamable_http_app(stateless_http=True)
            await uvicorn.Server(uvicorn.Config(app, port=given.port, timeout_graceful_shutdown=1)).serve()


if __name__ == "__main__":
    asyncio.run(main())
