"""The Protocol of the async verbs: what the models need, what satisfies it, what carries it out."""

import inspect
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, get_type_hints

import pytest

import purgatory_async.client
from purgatory_async.client import AsyncClient, AsyncVerbs, Lease
from purgatory_async.client._backend import Backend
from purgatory_async.client._calls import ServiceVerbs

if TYPE_CHECKING:

    def satisfies(client: AsyncClient) -> AsyncVerbs:
        return client


WITHOUT_EXTRAS = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"anyio", "httpx2", "msgspec"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from purgatory_async import client
from purgatory_async.client import AsyncVerbs, Lease, RequestRefused, values
assert "AsyncClient" in dir(client)
for name in ("AsyncClient", "Client"):
    try:
        getattr(client, name)
    except ModuleNotFoundError as error:
        print(error)
print(*sorted({"anyio", "http", "httpx2", "json"} & {*sys.modules}))
"""


def methods(kind):
    return {
        name: method
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_") or name in {"__aenter__", "__aexit__"}
    }


def test_the_protocol_needs_no_http_library():
    run = subprocess.run([sys.executable, "-c", WITHOUT_EXTRAS], check=False, capture_output=True, text=True)
    *refused, loaded = run.stdout.splitlines()
    assert refused == [
        'AsyncClient needs anyio, which is not installed; run: pip install "purgatory-async[client]"',
        'Client needs httpx2, which is not installed; run: pip install "purgatory-async[client]"',
    ]
    assert loaded == "", run.stderr


def test_every_public_name_can_be_imported():
    for name in purgatory_async.client.__all__:
        assert getattr(purgatory_async.client, name).__name__ == name
    assert {*purgatory_async.client.__all__} <= {*dir(purgatory_async.client)}
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = purgatory_async.client.Nothing


def test_models_survive_pickle():
    lease = Lease("l", {"n": 1}, 30.0)
    assert pickle.loads(pickle.dumps(lease)) == lease


@pytest.mark.parametrize("name", sorted(methods(AsyncVerbs)))
def test_the_async_client_takes_what_the_protocol_says(name):
    promised, kept = (inspect.signature(methods(kind)[name]) for kind in (AsyncVerbs, AsyncClient))
    assert promised.parameters == kept.parameters


def test_the_clients_have_more_than_the_protocol():
    assert methods(AsyncClient).keys() - methods(AsyncVerbs).keys() == {"aclose", "drain", "stats"}


@pytest.mark.parametrize("name", sorted(methods(Backend)))
def test_the_conversations_carry_the_backend_out(name):
    if name == "events":
        pytest.skip("a stream is no conversation")
    wanted, given = (methods(kind)[name] for kind in (Backend, ServiceVerbs))
    parameters = [[*inspect.signature(each).parameters.values()] for each in (wanted, given)]
    for parameter, other in zip(*parameters, strict=False):
        assert (parameter.name, parameter.kind) == (other.name, other.kind)
        assert parameter.default in {other.default, inspect.Parameter.empty}
    assert all(more.default is None for more in parameters[1][len(parameters[0]) :])
    awaited, talked = (get_type_hints(each)["return"].__args__[-1] for each in (wanted, given))
    nothing = (None, type(None))
    assert awaited is object or talked == awaited or (talked in nothing and awaited in nothing)


def test_what_carries_the_verbs_out_is_no_part_of_the_protocol():
    assert not hasattr(AsyncVerbs, "_backend")
