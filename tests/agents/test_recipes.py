"""The recipes of the agents' page, word for word, with scripted models in place of others."""

import json
import re
import subprocess
import sys

import pytest

from tests.agents.running import EXAMPLES, Started, need
from tests.pages import fenced_blocks
from tests.processes import until

pytestmark = pytest.mark.slow

PAGE = (EXAMPLES / "README.md").read_text(encoding="utf-8")
RECIPES = {
    title: [block.text for block in fenced_blocks(text) if block.language == "python"]
    for title, text in re.findall(r"^### (.+?)\n(.*?)(?=^##|\Z)", PAGE, flags=re.MULTILINE | re.DOTALL)
}

# A person answers each question, once with yes and once with no.
ANSWERING = """
import asyncio
from purgatory_async.durable import Durable

async def answers(purgatory, choice, running):
    asked = []
    while not running.done():
        async for each in purgatory.operations():
            asked.append(each.ask["title"])
            await purgatory.answer(each.id, choice)
        await asyncio.sleep(0.01)
    return asked

async def with_answers():
    for choice in ("yes", "no"):
        async with Durable("memory:", public_url="http://localhost") as purgatory:
            for attempt in range(2):  # the second run, as after a crash, asks nothing
                running = asyncio.create_task(run(purgatory, agent(), "task", "deploy 77"))
                asked = await answers(purgatory, choice, running)
                print(choice, asked, await running)

asyncio.run(with_answers())
"""
OPENAI = """
from agents import Model, ModelResponse, Usage, function_tool, set_tracing_disabled
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

set_tracing_disabled(True)

class Scripted(Model):
    async def get_response(self, system_instructions, input, *rest, **more):
        outputs = [] if isinstance(input, str) else [item for item in input if "output" in item]
        if not outputs:
            call = {"call_id": "1", "name": "deploy", "arguments": '{"version": 77}', "type": "function_call"}
            return ModelResponse([ResponseFunctionToolCall(**call)], Usage(), None)
        text = {"text": outputs[-1]["output"], "type": "output_text", "annotations": []}
        said = {"id": "1", "role": "assistant", "status": "completed", "type": "message"}
        message = ResponseOutputMessage(content=[ResponseOutputText(**text)], **said)
        return ModelResponse([message], Usage(), None)

    def stream_response(self, *arguments, **named):
        raise NotImplementedError

@function_tool(needs_approval=True)
def deploy(version: int) -> str:
    return f"deployed {version}"

def agent():
    return Agent("deployer", model=Scripted(), tools=[deploy])
"""
PYDANTIC = """
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

def scripted(messages, info):
    returned = [part for part in messages[-1].parts if part.part_kind == "tool-return"]
    if returned:
        return ModelResponse([TextPart(str(returned[-1].content))])
    return ModelResponse([ToolCallPart("deploy", {"version": 77})])

def agent():
    made = Agent(FunctionModel(scripted), output_type=[str, DeferredToolRequests])

    @made.tool_plain(requires_approval=True)
    def deploy(version: int) -> str:
        return f"deployed {version}"

    return made
"""
A2A = """
import asyncio

from a2a.server.context import ServerCallContext
from a2a.server.request_handlers import DefaultRequestHandlerV2
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, Message, Part, Role, SendMessageRequest, TaskState
from purgatory_async.durable import Durable

async def main():
    for choice in ("yes", "no"):
        async with Durable("memory:", public_url="http://localhost") as purgatory:
            store, card = InMemoryTaskStore(), AgentCard(name="deployer", capabilities=AgentCapabilities())

            async def sent(**named):
                handler = DefaultRequestHandlerV2(Deployer(purgatory), store, card)  # another replica each time
                message = Message(message_id="1", role=Role.ROLE_USER, parts=[Part(text="deploy")], **named)
                return await handler.on_message_send(SendMessageRequest(message=message), ServerCallContext())

            task = await sent()
            print(choice, TaskState.Name(task.status.state), task.status.message.parts[0].text.split("/a/")[0])
            async for each in purgatory.operations():
                await purgatory.answer(each.id, choice)
            task = await sent(task_id=task.id, context_id=task.context_id)
            print(choice, TaskState.Name(task.status.state), task.status.message.parts[0].text)

asyncio.run(main())
"""


def run(folder, *parts):
    started = Started("-c", "\n".join(parts), folder=folder)
    code, lines = started.end()
    started.close()
    assert code == 0, lines
    return lines


def test_the_page_has_no_recipe_that_is_not_run_here():
    assert {title: len(blocks) for title, blocks in RECIPES.items()} == {
        "OpenAI Agents SDK": 1,
        "pydantic-ai": 1,
        "Claude Code": 1,
        "A2A": 1,
        "Plain HTTP": 0,
    }


@pytest.mark.parametrize(
    ("title", "module", "model"),
    [("OpenAI Agents SDK", "agents", OPENAI), ("pydantic-ai", "pydantic_ai", PYDANTIC)],
)
def test_a_tool_call_waits_for_a_person(tmp_path, title, module, model):
    need(module)
    asked = """['May deploy run with {"version":77}?']"""
    lines = [line.replace(": 77", ":77") for line in run(tmp_path, *RECIPES[title], model, ANSWERING)]
    said = {"yes": "deployed 77", "no": "A person: no"}
    assert lines == [f"{choice} {titles} {said[choice]}" for choice in said for titles in (asked, "[]")]


def test_a_task_needs_input_until_a_person_has_answered(tmp_path):
    need("a2a")
    lines = run(tmp_path, *RECIPES["A2A"], A2A)
    assert [line for line in lines if line.startswith(("yes", "no"))] == [
        "yes TASK_STATE_INPUT_REQUIRED Answer at http://localhost",
        "yes TASK_STATE_COMPLETED deployed",
        "no TASK_STATE_INPUT_REQUIRED Answer at http://localhost",
        "no TASK_STATE_REJECTED A person: no",
    ]


@pytest.mark.parametrize(("choice", "decision"), [("yes", "allow"), ("no", "deny")])
def test_a_hook_waits_for_a_person(stage, choice, decision):
    scene = stage()
    program = RECIPES["Claude Code"][0].replace("8765", str(scene.served.port))
    call = {"session_id": "s", "tool_use_id": "t", "tool_name": "Bash", "tool_input": {"command": "ls"}}
    hook = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with hook:
        hook.stdin.write(json.dumps(call).encode())
        hook.stdin.close()
        answer = ("POST", "/v1/operations/s-t/answer", {"choice": choice})
        until(lambda: scene.served.request(*answer).status == 200, "the question")
        said = json.loads(hook.stdout.read())["hookSpecificOutput"]
    assert said["permissionDecision"] == decision
    assert said["permissionDecisionReason"] == f"A person: {choice}"
