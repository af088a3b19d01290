"""An agent of two replicas asks a person in a chat and waits for the answer; any process may be killed at any time.

``ask_a_person.py agent ADDRESS 77`` asks whether to deploy version 77, in any number of processes, again and again.
``ask_a_person.py bot ADDRESS CHAT`` takes questions and answers to the chat: here a folder, each file a message.
Without arguments it starts a service, two replicas and the bot, and answers as a person would.
"""

import secrets
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2

from purgatory_async.client import Client, RequestRefused, ServiceUnreachable

ENDED = {"already-ended", "forgotten", "unknown-operation"}


def agent(service: Client, version: str) -> None:
    # The id says what the question is about, so every replica, and every run of it, gets the one answer.
    question = service.ask(
        f"deploy-{version}",
        f"Deploy {version}?",
        choices=("yes", "no"),
        timeout="24h",
        data={"to": "Ann"},
        announce="chat",
        deliver="chat",
    )
    # Expired is no "no". Written at once, since the replicas may share a terminal.
    sys.stdout.write(f"deploy {version}: {question.choice or question.state}\n")


def bot(service: Client, chat: str) -> None:
    while True:
        try:
            if (lease := service.take("chat", timeout=None)) is not None:
                # The item's id is the message's: one that was killed before it acknowledged has written it already.
                if not (posted := Path(chat, lease.item_id)).exists():
                    draft = posted.with_name(f".{posted.name}")
                    draft.write_text(message(service, lease.item), encoding="utf-8")
                    draft.replace(posted)
                service.acknowledge_batch([lease])
        except ServiceUnreachable:
            continue


def message(service: Client, item: dict[str, Any]) -> str:
    try:
        question = service.status(item["operation"])
        if item["event"] == "ended":
            return f"{question.ask['title']} {question.choice or question.state}"
        link = service.links(question.id, by=question.data["to"])
    except RequestRefused as refused:
        if refused.slug not in ENDED:
            raise
        return f"{item['operation']}: {refused.slug}"
    return f"{question.ask['title']} {link.url}"


def demonstrate(folder: Path, stack: ExitStack) -> None:
    def start(*command: str | Path) -> subprocess.Popen[bytes]:
        process = stack.enter_context(subprocess.Popen([sys.executable, *command], cwd=folder))  # noqa: S603
        stack.callback(process.terminate)
        return process

    def messages(count: int) -> str:
        while len(found := [path.read_text(encoding="utf-8") for path in chat.glob("[!.]*")]) < count:
            time.sleep(0.1)
        return "\n".join(sorted(found))

    (chat := folder / "chat").mkdir()
    (secret := folder / "secret").touch(mode=0o600)
    secret.write_text(secrets.token_urlsafe(32))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    address = f"http://127.0.0.1:{port}"
    store = ("--store", "sqlite:///log", "--public-url", address, "--link-secret", secret)
    start("-m", "purgatory_async", "serve", "--port", port, *store)
    start(__file__, "bot", address, chat)
    replicas = [start(__file__, "agent", address, "77") for _ in range(2)]
    httpx2.post(messages(1).split()[-1], data={"choice": "yes"})  # as the button of the page does
    for replica in replicas:
        replica.wait()
    print(messages(2))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        with Client(sys.argv[2]) as service:
            {"agent": agent, "bot": bot}[sys.argv[1]](service, sys.argv[3])
    else:
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            demonstrate(Path(folder), stack)
