"""The architecture: the order of the layers, and what each may import, as `layers` has them.

Every import counts: one inside a function or under ``if TYPE_CHECKING`` binds two files as firmly as one at
the top. A rule is a function from the package's sources to a list of complaints; the last tests plant a fault
for each of them, and an innocent lookalike.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import cache

import pytest

from tests.layers import (
    BANNED_IN_LIBRARY,
    EXCEPTIONS,
    FORBIDDEN,
    HEAVY,
    LAYERS,
    LAZY,
    LIBRARY,
    ON_PUBLIC_NAMES,
    PUBLIC_MODULES,
    WIRE,
    WITHOUT_WIRE,
)
from tests.source_tree import PACKAGE, ROOT, Sources, read_package, with_fault

SOURCES = read_package()
MAX_ROOTS = 4  # of the errors


def matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def layer_of(name: str) -> str | None:
    return next((layer for layer, patterns in LAYERS.items() if matches(name, patterns)), None)


def internal_imports(sources: Sources) -> dict[str, dict[str, int]]:
    """For each module the modules of the package that it imports, with the line."""
    edges: dict[str, dict[str, int]] = {name: {} for name in sources}
    for source in sources.values():
        for target, line in source.imports:
            if target.partition(".")[0] == PACKAGE:
                name = target.removeprefix(PACKAGE).removeprefix(".")
                # ``from package.module import Name`` means the module; a name that is a module means itself.
                name = name if name in sources else name.rpartition(".")[0]
                if name != source.name:
                    edges[source.name].setdefault(name, line)
    return edges


def modules_without_a_layer(sources: Sources) -> list[str]:
    return [f"{source.dotted} is in no layer" for source in sources.values() if layer_of(source.name) is None]


def imports_that_run_up(sources: Sources) -> list[str]:
    order = (None, *LAYERS)
    return [
        f"{sources[name].dotted}:{line}: {layer_of(name)} imports {layer_of(target)} ({target or PACKAGE})"
        for name, targets in internal_imports(sources).items()
        for target, line in targets.items()
        if order.index(layer_of(target)) > order.index(layer_of(name))
    ]


def ways_to_the_wire(sources: Sources) -> list[str]:
    edges, complaints = internal_imports(sources), []
    for start in WITHOUT_WIRE:
        ways = {start: (sources[start].dotted,)}
        for name in (order := [start]):  # grows as it is read
            for target in edges[name]:
                if target not in ways:
                    ways[target] = (*ways[name], sources[target].dotted)
                    order.append(target)
        complaints += [" -> ".join(way) for name, way in ways.items() if matches(name, WIRE)]
    return complaints


def import_cycles(sources: Sources) -> list[str]:
    edges, finished, complaints = internal_imports(sources), set[str](), []

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            complaints.append(" -> ".join(sources[step].dotted for step in (*path[path.index(name) :], name)))
        elif name not in finished:
            for target in edges.get(name, ()):
                visit(target, (*path, name))
            finished.add(name)

    for name in edges:
        visit(name, ())
    return complaints


def forbidden_imports(sources: Sources) -> list[str]:
    return [
        f"{source.dotted}:{line}: imports {target}, but {reason}"
        for source in sources.values()
        for target, line in source.imports
        for modules, layers, exempt, reason in FORBIDDEN
        if target.partition(".")[0] in modules
        and layer_of(source.name) in layers
        and not matches(source.name, exempt)
        and source.name not in EXCEPTIONS.get(target, ())
    ]


def eager_imports(sources: Sources) -> list[str]:
    return [
        f"{source.dotted}:{line}: imports {target} when it is imported itself"
        for source in sources.values()
        if layer_of(source.name) in LIBRARY
        for target, line in source.eager_imports
        if target.partition(".")[0] in LAZY
    ]


def banned_calls(sources: Sources) -> list[str]:
    """Banned names of asyncio, imported by name or reached through the module under any alias."""
    complaints = []
    for source in (source for source in sources.values() if layer_of(source.name) in LIBRARY):
        aliases = {
            alias.asname or "asyncio"
            for node in source.nodes
            if isinstance(node, ast.Import)
            for alias in node.names
            if alias.name.partition(".")[0] == "asyncio"
        }
        used = [(target, line) for target, line in source.imports if target.startswith("asyncio.")]
        used += [(ast.unparse(node), node.lineno) for node in source.nodes if isinstance(node, ast.Attribute)]
        complaints += [
            f"{source.dotted}:{line}: uses {name}"
            for name, line in used
            if name.partition(".")[0] in {"asyncio", *aliases}
            and name.rpartition(".")[2] in BANNED_IN_LIBRARY
        ]
    return complaints


def second_clocks(sources: Sources) -> list[str]:
    """Readings of a monotonic clock outside the one file: a difference between two sources means nothing."""
    return [
        f"{source.dotted}:{line}: reads {name}; use purgatory_async.clock.monotonic, a timer or a loop"
        for source in sources.values()
        if source.name != "clock"
        for name, line in (
            *source.imports,
            *((ast.unparse(node), node.lineno) for node in source.nodes if isinstance(node, ast.Attribute)),
        )
        if name.startswith("time.")
        and name.removeprefix("time.").removesuffix("_ns") in {"monotonic", "perf_counter"}
    ]


def private_names(sources: Sources) -> list[str]:
    """Modules behind the public ones, and attributes with an underscore that are not the object's own."""
    complaints, edges = [], internal_imports(sources)
    for source in (source for source in sources.values() if matches(source.name, ON_PUBLIC_NAMES)):
        complaints += [
            f"{source.dotted}:{line}: imports {sources[target].dotted}, which is not public"
            for target, line in edges[source.name].items()
            if target not in PUBLIC_MODULES and not matches(target, ON_PUBLIC_NAMES)
        ]
        complaints += [
            f"{source.dotted}:{node.lineno}: uses {ast.unparse(node)}"
            for node in source.nodes
            if isinstance(node, ast.Attribute)
            and node.attr.startswith("_")
            and not node.attr.startswith("__")
            and ast.unparse(node.value) not in {"self", "cls"}
        ]
    return complaints


def drawn_errors(sources: Sources) -> dict[str, tuple[str, str]]:
    """The classes that the docstring of `errors` draws, each with its base there and the room that raises it."""
    drawn, path = dict[str, tuple[str, str]](), ["Exception"]
    for line in (ast.get_docstring(sources["errors"].tree) or "").splitlines():
        if node := re.search(r"\+-- (\w+) +(?:(\w+): )?", line):
            depth = node.start() // 5
            path[depth:] = [node[1]]
            drawn[node[1]] = path[depth - 1], node[2] or ""
    return drawn


def defined_errors(sources: Sources) -> list[tuple[str, str, str, list[str]]]:
    """Each exception class of the package: its name, its line, its room, and its bases by their last names."""
    classes = [
        (
            node.name,
            f"{source.dotted}:{node.lineno}",
            "" if layer_of(source.name) in LIBRARY else source.name.partition(".")[0],
            [ast.unparse(base).rpartition(".")[2] for base in node.bases],
        )
        for source in sources.values()
        for node in source.nodes
        if isinstance(node, ast.ClassDef)
    ]
    bases = {base for *_, bases in classes for base in bases}
    errors = {base for base in bases if base.endswith(("Error", "Exception", "Exit", "Interrupt", "Warning"))}
    while more := {name for name, *_, bases in classes if errors.intersection(bases)} - errors:
        errors |= more
    return [each for each in classes if errors.intersection(each[-1])]


def errors_out_of_the_drawing(sources: Sources) -> list[str]:
    """Errors that `errors` does not draw under a base of theirs and with their room, and drawn ones without a class."""
    drawn, defined = drawn_errors(sources), defined_errors(sources)
    complaints = [
        f"{line}: errors.py does not draw {name} under {' or '.join(bases)}, of {room or PACKAGE}"
        for name, line, room, bases in defined
        if drawn.get(name) not in [(base, room) for base in bases]
    ]
    complaints += [
        f"errors.py draws {name}, and no module has it"
        for name in drawn.keys() - {name for name, *_ in defined}
    ]
    roots = [name for name, (base, _) in drawn.items() if base == "Exception"]
    return complaints if len(roots) <= MAX_ROOTS else [*complaints, f"errors.py draws {len(roots)} roots"]


RULES = (
    modules_without_a_layer,
    imports_that_run_up,
    ways_to_the_wire,
    import_cycles,
    forbidden_imports,
    eager_imports,
    banned_calls,
    second_clocks,
    private_names,
    errors_out_of_the_drawing,
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_package_keeps_the_rule(rule: Callable[[Sources], list[str]]) -> None:
    complaints = rule(SOURCES)
    assert not complaints, "\n".join(complaints)


def test_what_the_literals_name_is_there() -> None:
    # Above the library a layer may list what is still to come.
    listed = {name for layer in LIBRARY for name in LAYERS[layer] if not name.endswith("*")}
    assert listed <= set(SOURCES)
    for target, modules in EXCEPTIONS.items():
        assert set(modules) == {name for name in modules if target in dict(SOURCES[name].imports)}


def test_importing_the_library_loads_only_the_standard_library() -> None:
    script = f"import sys; before = {{*sys.modules}}; import {PACKAGE}; print(*{{*sys.modules}} - before)"
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, check=False, capture_output=True, text=True
    )
    loaded = set(run.stdout.split())
    assert PACKAGE in loaded, run.stderr
    assert sorted(loaded.intersection(HEAVY)) == []


PLANTED = (
    pytest.param(
        ways_to_the_wire,
        "service.service",
        f"from {PACKAGE}.service.http.unsent import Unsent",
        id="the service counts a connection's bytes",
    ),
    pytest.param(
        ways_to_the_wire,
        "service.records",
        f"from {PACKAGE}.service.held.requests import HeldRequests",
        id="the service's journal holds requests",
    ),
    pytest.param(modules_without_a_layer, "_stray", "", id="a module without a layer"),
    pytest.param(
        imports_that_run_up, "timing._wheel", "from ..loop.timer import Timer", id="timing imports the loop"
    ),
    pytest.param(
        imports_that_run_up,
        "loop.timer",
        f"from {PACKAGE} import Purgatory",
        id="the loop imports the package",
    ),
    pytest.param(
        imports_that_run_up,
        "events",
        f"def late():\n    from {PACKAGE}.loop.purgatory import Purgatory",
        id="an import in a function runs up",
    ),
    pytest.param(
        imports_that_run_up,
        "core.operation",
        f"if TYPE_CHECKING:\n    import {PACKAGE}.loop.purgatory",
        id="a typing-only import runs up",
    ),
    pytest.param(
        import_cycles,
        "timing._entry",
        "from . import _wheel\nfrom ._queue import TimerQueue",
        id="a cycle in a layer",
    ),
    pytest.param(forbidden_imports, "timing._wheel", "import asyncio", id="a wheel with a loop"),
    pytest.param(
        forbidden_imports, "core.operation", "from asyncio import Future", id="an operation with a loop"
    ),
    pytest.param(forbidden_imports, "loop.timer", "from time import monotonic", id="a second reader of time"),
    pytest.param(forbidden_imports, "loop.purgatory", "import threading", id="a thread outside the portal"),
    pytest.param(forbidden_imports, "core.hooks", "from threading import Lock", id="a lock in the core"),
    pytest.param(forbidden_imports, "loop.purgatory", "import uvloop", id="the library needs uvloop"),
    pytest.param(forbidden_imports, "testing", "import pytest", id="a test double needs pytest"),
    pytest.param(forbidden_imports, "service.app", "import pyspark", id="the service needs Spark"),
    pytest.param(forbidden_imports, "journal.lines", "import pyarrow", id="a line needs columns"),
    pytest.param(
        forbidden_imports,
        "pipeline.workload",
        "def late():\n    from pyspark.sql import Row",
        id="a kernel needs Spark",
    ),
    pytest.param(
        forbidden_imports, "pipeline.jobs.report", "import pandas as pd", id="a report is made of frames"
    ),
    pytest.param(
        imports_that_run_up,
        "journal.segments",
        f"from {PACKAGE}.service.settings import Settings",
        id="a journal knows the service",
    ),
    pytest.param(
        imports_that_run_up, "service.http.head", f"import {PACKAGE}.service.api.routes", id="the wire routes"
    ),
    pytest.param(
        imports_that_run_up, "service.state.signals", f"import {PACKAGE}.service.http", id="the state serves"
    ),
    pytest.param(
        forbidden_imports,
        "web._starlette",
        "def late():\n    from starlette.responses import Response",
        id="a poll imports its framework when it is called",
    ),
    pytest.param(
        forbidden_imports,
        "web._aiohttp",
        "if TYPE_CHECKING:\n    from aiohttp import web",
        id="a poll imports its framework for its types",
    ),
    pytest.param(
        eager_imports,
        "loop.timer",
        "try:\n    import structlog\nexcept ImportError: pass",
        id="eager structlog",
    ),
    pytest.param(banned_calls, "loop.purgatory", "from asyncio import wait_for", id="wait_for by name"),
    pytest.param(
        banned_calls, "loop.timer", "import asyncio as aio\naio.timeout(1)", id="timeout through an alias"
    ),
    pytest.param(
        banned_calls, "loop.wakeups", "import asyncio\nasyncio.tasks.wait([])", id="wait through a submodule"
    ),
    pytest.param(second_clocks, "cli.top", "import time\ntime.perf_counter_ns()", id="a clock of its own"),
    pytest.param(second_clocks, "client._talk", "from time import monotonic", id="a clock by name"),
    pytest.param(
        private_names,
        "patterns.quorum",
        f"from {PACKAGE}.loop.wait import KeyedWait",
        id="a pattern on our wait",
    ),
    pytest.param(private_names, "patterns.hand_off", "purgatory._watchers", id="a pattern in our lists"),
    pytest.param(
        errors_out_of_the_drawing, "web.race", "class Stray(Exception): pass", id="an error without a root"
    ),
    pytest.param(
        errors_out_of_the_drawing, "cli.top", "class Bad(click.ClickException): pass", id="another's error"
    ),
    pytest.param(
        errors_out_of_the_drawing,
        "cluster.log",
        "class LogLost(log.LogError): pass",
        id="an error that is not drawn",
    ),
    pytest.param(
        errors_out_of_the_drawing,
        "web.race",
        "class Refused(RefusedError): pass",
        id="one name for two errors",
    ),
)


@cache
def standing(rule: Callable[[Sources], list[str]]) -> frozenset[str]:
    """The rule's complaints about the package as it is."""
    return frozenset(rule(SOURCES))


@pytest.mark.parametrize(("rule", "module", "text"), PLANTED)
def test_the_rule_sees_a_planted_fault(rule: Callable[[Sources], list[str]], module: str, text: str) -> None:
    found = set(rule(with_fault(SOURCES, module, text))) - standing(rule)
    assert found, f"{rule.__name__} does not see {text!r} in {module}"


def test_a_drawn_error_without_a_class_is_seen() -> None:
    kept = {name: source for name, source in SOURCES.items() if name != "kafka.groups.members"}
    assert errors_out_of_the_drawing(kept) == ["errors.py draws MemberIdRequiredError, and no module has it"]


@pytest.mark.parametrize(
    ("module", "text"),
    [
        pytest.param("loop.timer", "def log():\n    import structlog", id="structlog where it is needed"),
        pytest.param("loop.portal", "import threading, concurrent.futures", id="threads in the portal"),
        pytest.param("journal._writer_thread", "import threading", id="the thread that writes a journal"),
        pytest.param("testing.plugin", "import pytest", id="pytest in the plugin"),
        pytest.param("loop.timer", "event.wait()\nfuture.timeout", id="a method that shares a banned name"),
        pytest.param("patterns.quorum", "self._own\nself.__slots__", id="a pattern's own"),
    ],
)
def test_the_rules_allow_what_they_should(module: str, text: str) -> None:
    planted = with_fault(SOURCES, module, text)
    assert [complaint for rule in RULES for complaint in set(rule(planted)) - standing(rule)] == []
