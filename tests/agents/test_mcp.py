"""The MCP server of the examples, with the SDK's own client: a person is asked once, and no answer is lost."""

import pytest

from tests.agents.running import EXAMPLES, PYTHON, need, press
from tests.ports import free_port
from tests.processes import accepts, until

pytestmark = pytest.mark.slow

DONE = "doing it yes"


@pytest.fixture(autouse=True)
def sdk():
    need("mcp", "uvicorn", "msgspec", "structlog")


@pytest.fixture(params=["service", "sqlite"])
def scene(request, stage):
    return begun(stage, request.param)


def begun(stage, carrier):
    """A scene whose MCP servers have their questions in a service, or in a store that they open."""
    scene = stage("postgres" if carrier == "postgres" else "sqlite")
    scene.here = scene.where(carrier)
    scene.port = free_port()
    scene.url = f"http://127.0.0.1:{scene.port}/mcp"
    return scene


def answered(scene, question_id, choice="yes"):
    """What there is once a person has answered: one question, announced once, with one answer."""
    return (1, [(question_id, "completed", {"choice": choice})]) == scene.asked()


@pytest.mark.parametrize("choice", ["yes", "no"])
def test_an_answer_by_link_reaches_the_agent(scene, choice):
    scene.mcp(*scene.here, port=scene.port)
    agent = scene.agent("deploy-77", scene.url)
    press(agent.says("asked: "), choice)
    code, lines = agent.end()
    assert (code, lines[-1]) == (0, DONE if choice == "yes" else "not doing it no")
    assert answered(scene, "deploy-77", choice)


def test_a_server_over_stdio_asks_and_waits_too(scene):
    server = (PYTHON, EXAMPLES / "mcp_server.py", *scene.here, "--announce", "chat")
    agent = scene.agent("deploy-77", *server)
    press(agent.says("asked: "), "yes")
    assert agent.end()[1][-1] == DONE
    assert answered(scene, "deploy-77")


def test_a_killed_agent_comes_back_to_its_question(scene):
    scene.mcp(*scene.here, port=scene.port)
    killed = scene.agent("deploy-77", scene.url)
    link = killed.says("asked: ")
    killed.kill()
    press(link, "yes")
    agent = scene.agent("deploy-77", scene.url)
    assert agent.end() == (0, ["asked: completed", DONE])
    assert answered(scene, "deploy-77")


def test_an_answer_while_the_server_is_dead_is_not_lost(scene):
    server = scene.mcp(*scene.here, port=scene.port)
    agent = scene.agent("deploy-77", scene.url)
    link = agent.says("asked: ")
    server.kill()
    agent.says("the server is away")
    press(link, "yes")
    scene.mcp(*scene.here, port=scene.port)
    assert agent.end()[1][-1] == DONE
    assert answered(scene, "deploy-77")


def test_a_server_that_is_stopped_cuts_its_held_calls(scene):
    server = scene.mcp(*scene.here, port=scene.port)
    agent = scene.agent("deploy-77", scene.url)
    link = agent.says("asked: ")
    server.process.terminate()
    assert server.end()[0] in {0, -15}  # uvicorn ends by the signal that it got
    scene.mcp(*scene.here, port=scene.port)
    press(link, "yes")
    assert agent.end()[1][-1] == DONE
    assert answered(scene, "deploy-77")


@pytest.mark.parametrize("carrier", ["service", "sqlite", "postgres"])
def test_of_two_replicas_one_may_be_killed(stage, carrier):
    scene = begun(stage, carrier)
    ports = [free_port(), free_port()]
    first, _ = [scene.mcp(*scene.here, port=port) for port in ports]
    agent = scene.agent("deploy-77", f"http://127.0.0.1:{scene.switch(*ports)}/mcp")
    link = agent.says("asked: ")
    first.kill()
    agent.says("the server is away")  # its call was at the first one
    press(link, "yes")
    assert agent.end()[1][-1] == DONE
    assert answered(scene, "deploy-77")


@pytest.mark.parametrize("again", [False, True], ids=["another takes over", "it starts again"])
def test_a_killed_service_costs_no_answer(stage, again):
    scene = stage()
    first, port = scene.serve(free_port()), free_port()
    switch = scene.switch(first.port) if again else scene.switch(first.port, scene.served.port)
    scene.mcp(f"http://127.0.0.1:{switch}", port=port)
    agent = scene.agent("deploy-77", f"http://127.0.0.1:{port}/mcp")
    link = agent.says("asked: ").replace(str(first.port), str(scene.served.port))
    first.until_count("held", 1)
    first.process.kill()
    first.process.wait()
    press(link, "yes")  # at the other one
    if again:
        first.start()
        until(lambda: accepts(first.port), "the service")
    code, lines = agent.end()
    assert (code, lines[1:]) == (0, [DONE])  # the agent has not noticed
    assert answered(scene, "deploy-77")


@pytest.mark.parametrize(("end", "state"), [("reschedule", "expired"), ("cancel", "cancelled")])
def test_a_question_without_an_answer_is_no_consent(scene, end, state):
    scene.mcp(*scene.here, port=scene.port)
    agent = scene.agent("deploy-77", scene.url)
    agent.says("asked: ")
    request = ("POST", "/v1/operations/deploy-77/reschedule", {"timeout": "1ms"})
    if end == "cancel":
        request = ("DELETE", "/v1/operations/deploy-77")
    assert scene.served.request(*request).status == 200
    assert agent.end()[1][-1] == f"not doing it {state}"
    # Who asks once more has the same end: there is no second question.
    again = scene.agent("deploy-77", scene.url)
    assert again.end()[1] == [f"asked: {state}", f"not doing it {state}"]


def test_another_question_with_the_id_is_refused(scene):
    scene.mcp(*scene.here, port=scene.port)
    scene.agent("deploy-77", scene.url).says("asked: ")
    other = scene.start(EXAMPLES / "mcp_agent.py", "deploy-77", "Delete all?", scene.url)
    code, lines = other.end()
    assert code == 1
    assert "409 duplicate-id" in "\n".join(lines)


def test_a_token_that_may_not_answer_gets_no_link(stage, tmp_path):
    scene, port, served = stage(), free_port(), free_port()
    (tokens := tmp_path / "tokens").touch(mode=0o600)
    agent, bot = "a" * 32, "b" * 32
    rights = "prefix=deploy- prefix=chat"
    tokens.write_text(f"{agent} wait,signal name=agent {rights}\n{bot} wait,answer name=bot {rights}\n")
    guarded = scene.serve(served, "--tokens", tokens)
    guarded.headers["Authorization"] = f"Bearer {bot}"
    server = (EXAMPLES / "mcp_server.py", guarded.address, "--announce", "chat", "--port", port)
    scene.start(*server, PURGATORY_TOKEN=agent)
    until(lambda: accepts(port), "the MCP server")
    asking = scene.agent("deploy-77", f"http://127.0.0.1:{port}/mcp")
    assert asking.says("asked: ") == "pending"
    link = guarded.request("POST", "/v1/operations/deploy-77/links", {"by": "Ann"}).json["url"]
    press(link, "yes")
    assert asking.end()[1][-1] == DONE


# In place of 50 s and 10 s; prints what a client sees of one call.
SHORT = """
import asyncio, sys, mcp_server
mcp_server.HELD_S, mcp_server.PROGRESS_S = 1.0, 0.2
asyncio.run(mcp_server.main())
"""
CALL = """
import asyncio, sys
from mcp import Client
async def progress(so_far, total, message):
    print("progress:", message)
async def main():
    async with Client(sys.argv[1]) as mcp:
        for heard in (progress, None):
            result = await mcp.call_tool("await_human", {"id": sys.argv[2]}, progress_callback=heard)
            print("result:", result.structured_content["state"], result.structured_content["next"])
asyncio.run(main())
"""


def test_a_held_call_ends_with_pending_and_shows_life(scene):
    ask = {"timeout": "1h", "ask": {"title": "Deploy?", "choices": ["yes"]}}
    assert scene.served.request("PUT", "/v1/operations/deploy-77", ask).status == 202
    scene.start("-c", SHORT, *scene.here, "--port", scene.port)
    until(lambda: accepts(scene.port), "the MCP server")
    code, lines = scene.start("-c", CALL, scene.url, "deploy-77").end()
    assert code == 0, lines
    pending = "result: pending Nothing is decided. Call await_human with this id, again and again."
    assert [line for line in lines if line.startswith("result")] == [pending] * 2
    assert "progress: A person has not answered yet." in lines
