"""Questions with links, in virtual time."""

import html
import re
from urllib.parse import quote_plus

import pytest

PUBLIC = "https://holds.example.org/team"
FORM = ("content-type", "application/x-www-form-urlencoded")
ASK = {"title": "Deploy 7?", "text": "It passed.", "choices": ["yes", "no"], "comment": "optional"}


class Asked:
    """A service that makes links, and questions of it."""

    def __init__(self, client):
        self.client = client
        self._count = 0

    async def ask(self, *, timeout=None, **ask):
        """Ask a question; returns the id of its operation."""
        self._count += 1
        name = f"q-{self._count}"
        await self.client.submit("deploys", id=name, timeout=timeout, ask={**ASK, **ask})
        return name

    async def link(self, name, **order):
        """Make a link to a question; returns the path of its page."""
        made = await self.client.request("POST", f"/v1/operations/{name}/links", order)
        assert made.status == 201, made.body
        url = made.json["url"]
        assert url.startswith(f"{PUBLIC}/a/")
        return url.removeprefix(PUBLIC)

    async def asked(self, *, timeout=None, link=None, **ask):
        """Ask a question, and make a link to it; returns the path of its page."""
        return await self.link(await self.ask(timeout=timeout, **ask), **(link or {}))

    async def get(self, path, *headers):
        return await self.client.request("GET", path, headers=headers)

    async def post(self, path, *headers, **fields):
        """Send the form of a page."""
        text = "&".join(f"{name}={quote_plus(value)}" for name, value in fields.items())
        return await self.client.request("POST", path, text.encode(), [FORM, *headers])

    async def decide(self, path, *headers, **answer):
        """Answer as JSON."""
        return await self.client.request("POST", path, answer, headers)

    async def state(self, name):
        return (await self.client.request("GET", f"/v1/operations/{name}")).json["state"]

    @property
    def position(self):
        """How many entries the state has seen."""
        return self.client.service.fold.position


@pytest.fixture
def questions(make_client):
    return Asked(make_client(public_url=PUBLIC))


def words(reply):
    """The text of a page, as a person reads it."""
    body = re.search("<main>(.*)</main>", reply.body.decode(), re.DOTALL)[1]
    return html.unescape(re.sub(r"(\s*<[^>]*>\s*)+", "\n", body)).strip()
