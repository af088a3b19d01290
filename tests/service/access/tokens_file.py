"""A service with tokens, and requests that carry one."""

PAD = "-0123456789abcdef"


def bearer(name):
    return [("authorization", f"Bearer {name}{PAD}")]


def write_tokens(path, *lines):
    """Write a tokens file; the first word of a line is the token's beginning, which `bearer` takes."""
    text = "".join(f"{name}{PAD} {rest}\n" for name, rest in (line.split(" ", 1) for line in lines))
    path.write_text(text)
    path.chmod(0o600)
    return path


class Tenants:
    """A service in virtual time whose requests have tokens."""

    def __init__(self, make_client, path, *lines, **settings):
        self.path = write_tokens(path, *lines)
        self.client = make_client(tokens=path, **settings)
        self.service = self.client.service

    async def ask(self, name, method, target, body=None, *headers):
        return await self.client.request(method, target, body, [*bearer(name), *headers])

    async def held(self, name, method, target, body=None):
        return await self.client.held(method, target, body, bearer(name))

    async def submit(self, name, **order):
        reply = await self.ask(name, "POST", "/v1/operations", order)
        assert reply.status == 202, reply.body
        return reply.json

    async def lease(self, name, queue, item=1):
        """Put an item and lease it; returns the lease's id."""
        reply = await self.ask("root", "POST", f"/v1/queues/{queue}/items", {"item": item})
        assert reply.status == 201
        return (await self.ask(name, "POST", f"/v1/queues/{queue}/take", {})).json["lease"]

    def change(self, *lines):
        """Give the service another tokens file."""
        write_tokens(self.path, *lines)
        self.client.app.access.reload()
