"""Requests of operations that are promises."""

ONE = "/v1/operations/deploy-77"
ASK = {"title": "Deploy 77?", "choices": ["approve", "reject"], "comment": "optional"}
QUESTION = {"timeout": "24h", "keep": "7d", "ask": ASK}


async def put(client, body=QUESTION, target=ONE, headers=()):
    return await client.request("PUT", target, body, headers)


async def post(client, verb, body, target=ONE, headers=()):
    return await client.request("POST", f"{target}/{verb}", body, headers)


async def shown(client, target=ONE):
    return (await client.request("GET", target)).json
