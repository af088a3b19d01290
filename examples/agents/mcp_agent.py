"""A scripted agent in place of a model: asks a person by an MCP server, and acts by the answer.

    python mcp_agent.py deploy-77 'Deploy version 77?' http://127.0.0.1:8000/mcp
    python mcp_agent.py deploy-77 'Deploy version 77?' python mcp_server.py http://127.0.0.1:8765

It goes on when the server, or the agent itself, was killed and started again: the id is the question.
"""

import asyncio
import os
import sys
from typing import Any

import httpx2
from mcp import Client, MCPError, StdioServerParameters

CUT = (MCPError, OSError, httpx2.TransportError)  # the server is away, or its process has ended
PAUSE_S = 0.5


async def call(mcp: Client, tool: str, **arguments: object) -> dict[str, Any]:
    result = await mcp.call_tool(tool, arguments)
    if result.is_error:  # a model would read it
        raise RuntimeError(result.content[0].text)
    return result.structured_content


async def decision(server: str | StdioServerParameters, question_id: str, question: str) -> dict[str, Any]:
    while True:
        try:
            async with Client(server) as mcp:
                asked = await call(mcp, "ask_human", id=question_id, question=question, choices=["yes", "no"])
                print(f"asked: {asked['link'] or asked['state']}", flush=True)
                while asked["state"] == "pending":
                    asked = await call(mcp, "await_human", id=question_id)
                return asked
        except* CUT:
            print("the server is away; asking again", flush=True)
        await asyncio.sleep(PAUSE_S)


async def main(question_id: str, question: str, *server: str) -> None:
    by_url = server[0].startswith("http")
    command = StdioServerParameters(command=server[0], args=[*server[1:]], env=dict(os.environ))
    where = server[0] if by_url else command
    asked = await decision(where, question_id, question)
    print("doing it" if asked["choice"] == "yes" else "not doing it", asked["choice"] or asked["state"])


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
