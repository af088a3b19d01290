"""The contract suite calls every verb with every argument."""

import ast
import inspect
from functools import cache
from pathlib import Path

import pytest

from purgatory_async.client import AsyncVerbs
from tests.durable.library.scripts import CALLS, WAITS

HERE = Path(__file__).parent
VERBS = {
    name: method
    for name, method in inspect.getmembers(AsyncVerbs, inspect.isfunction)
    if not name.startswith("_")
}
NOT_PLAYED = frozenset(
    {"signals", "events", "work", "links"}
)  # without end; signed, so that no two are equal


@cache
def called():
    """The verbs that the suite calls on ``verbs``, each with the arguments that it is given."""
    found = {name: set() for name in VERBS}
    for path in HERE.glob("test_*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        constants = {
            ast.unparse(node.targets[0]): [ast.literal_eval(key) for key in node.value.keys]
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict)
        }
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            verb = node.func.attr
            if verb in VERBS and ast.unparse(node.func.value) == "verbs":
                parameters = list(inspect.signature(VERBS[verb]).parameters.values())[1:]
                found[verb] |= {each.name for each in parameters[: len(node.args)]}
                for keyword in node.keywords:
                    found[verb].update(
                        [keyword.arg] if keyword.arg else constants.get(ast.unparse(keyword.value), ())
                    )
                if any(each.kind is each.VAR_POSITIONAL for each in parameters) and node.args:
                    found[verb].add(parameters[0].name)
    return found


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_the_suite_gives_a_verb_every_argument(verb):
    parameters = set(inspect.signature(VERBS[verb]).parameters) - {"self"}
    assert parameters <= called()[verb]


@pytest.mark.parametrize("verb", sorted(VERBS.keys() - NOT_PLAYED))
def test_random_scripts_give_a_verb_every_argument(verb):
    parameters = list(inspect.signature(VERBS[verb]).parameters)[1:]
    given = set()
    for calls in (CALLS, WAITS):
        arguments, options = calls.get(verb, ((), {}))
        given |= {*parameters[: len(arguments)], *options}
    assert set(parameters) <= given
