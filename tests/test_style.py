"""House rules that can be counted: sizes, names, documentation, and error messages that carry a value.

A rule is a function from sources to a list of complaints; the last test plants a fault for each of them.
"""

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache

import pytest

from tests.source_tree import ROOT, Source, Sources, read_package, with_fault

MAX_FILE_LINES = 500
MAX_CLASS_LINES = 250
MAX_BODY_LINES = 50  # without the docstring
MAX_TEST_NAME = 60
MIN_TEACHING_SHARE = 0.95

# A module's name says what it holds; these names do not.
GRAVITY_WELLS = ("common", "constants", "helpers", "misc", "models", "types", "utils")

# Pointers that send a reader back for a noun, persons for things, a second word for a lease, fields without their noun.
STRANGE = re.compile(
    r"(?<![\w'\"-])(as abov[e]|likewis[e]|of befor[e]|[Ww]hoeve[r]|loa[n]s?)(?![\w'\"-])"
    r"|^ +[\w, ]+: (Of|Those|That) [a-z]"
)

SOURCES = read_package()


def long_files(sources: Sources) -> list[str]:
    counted = {source.dotted: len(source.text.splitlines()) for source in sources.values()}
    return [f"{name}: {lines} lines" for name, lines in counted.items() if lines > MAX_FILE_LINES]


def long_classes(sources: Sources) -> list[str]:
    counted = {
        f"{source.name}.{node.name}": (node.end_lineno or 0) - node.lineno + 1
        for source in sources.values()
        for node in source.nodes
        if isinstance(node, ast.ClassDef)
    }
    return [f"{name}: {lines} lines" for name, lines in counted.items() if lines > MAX_CLASS_LINES]


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    lines = (function.end_lineno or 0) - function.lineno + 1
    if ast.get_docstring(function) is not None:
        docstring = function.body[0]
        lines -= (docstring.end_lineno or 0) - docstring.lineno + 1
    return lines


def long_bodies(sources: Sources) -> list[str]:
    return [
        f"{source.dotted}:{function.lineno}: {function.name} has {body_lines(function)} lines"
        for source in sources.values()
        for function in source.functions()
        if body_lines(function) > MAX_BODY_LINES
    ]


def long_test_names(sources: Sources) -> list[str]:
    return [
        f"{source.dotted}:{function.lineno}: {function.name} has {len(function.name)} characters"
        for source in sources.values()
        for function in source.functions()
        if function.name.startswith("test_") and len(function.name) > MAX_TEST_NAME
    ]


def gravity_wells(sources: Sources) -> list[str]:
    return [
        source.dotted
        for source in sources.values()
        if source.name.rpartition(".")[2].strip("_") in GRAVITY_WELLS
    ]


def undocumented(sources: Sources) -> list[str]:
    complaints = [
        f"{source.dotted}: no module docstring"
        for source in sources.values()
        if not ast.get_docstring(source.tree)
    ]
    return complaints + [
        f"{source.dotted}:{node.lineno}: {node.name} has no docstring"
        for source in sources.values()
        for node in source.nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if not node.name.startswith("_") and ast.get_docstring(node) is None
    ]


def strange_words(sources: Sources) -> list[str]:
    return [
        f"{source.dotted}: {found[0]!r} in {line.strip()!r}"
        for source in sources.values()
        for line in source.text.splitlines()
        if (found := STRANGE.search(line))
    ]


def interpolates(node: ast.AST) -> bool:
    """Whether an expression puts a value into a string."""
    return any(
        isinstance(part, ast.FormattedValue)
        or (
            isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr == "format"
        )
        for part in ast.walk(node)
    )


def message_builders(sources: Sources) -> set[str]:
    """Classes and functions of the package that make a message from what they are given."""
    names = set()
    for source in sources.values():
        for node in source.nodes:
            if isinstance(node, ast.ClassDef):
                makers = [part for part in node.body if getattr(part, "name", "") in {"__init__", "__str__"}]
                names |= {node.name} if any(interpolates(maker) for maker in makers) else set()
            elif isinstance(node, ast.FunctionDef):
                answers = [
                    part.value for part in ast.walk(node) if isinstance(part, ast.Return) and part.value
                ]
                names |= {node.name} if any(interpolates(answer) for answer in answers) else set()
    return names


def raised_messages(source: Source) -> Iterator[tuple[ast.Call, int]]:
    """Every ``raise Error(...)`` with at least one argument."""
    for node in source.nodes:
        if (
            isinstance(node, ast.Raise)
            and isinstance(node.exc, ast.Call)
            and (node.exc.args or node.exc.keywords)
        ):
            yield node.exc, node.lineno


def mute_messages(sources: Sources) -> list[str]:
    """The raised messages that carry no value, where they are more than one in twenty."""
    builders, mute, total = message_builders(sources), [], 0
    for source in sources.values():
        built = {
            target.id
            for node in source.nodes
            if isinstance(node, ast.Assign) and interpolates(node.value)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for error, line in raised_messages(source):
            total += 1
            arguments = [*error.args, *(keyword.value for keyword in error.keywords)]
            name = getattr(error.func, "attr", getattr(error.func, "id", ""))
            through_builder = name in builders and not all(
                isinstance(part, ast.Constant) for part in arguments
            )
            direct = any(interpolates(part) or getattr(part, "id", None) in built for part in arguments)
            if not (through_builder or direct):
                mute.append(f"{source.dotted}:{line}: the message of {name} names no value")
    return mute if len(mute) > total * (1 - MIN_TEACHING_SHARE) else []


SLEEPS = ("anyio.sleep", "asyncio.sleep", "sleep", "time.sleep")
NO_REAL_TIME = ("pytest.mark.slow", "virtual")  # words of the marks of tests that may sleep


def sleeps_of(node: ast.AST) -> Iterator[ast.Call]:
    """The calls below a node that sleep for longer than a turn, except in a loop that waits for something."""
    for part in ast.iter_child_nodes(node):
        if isinstance(part, ast.While):
            continue
        if isinstance(part, ast.Call) and ast.unparse(part.func) in SLEEPS and part.args:
            seconds = part.args[0]
            if not (isinstance(seconds, ast.Constant) and seconds.value == 0):
                yield part
        yield from sleeps_of(part)


def real_sleeps(sources: Sources) -> list[str]:
    """The sleeps in tests that are neither slow nor in virtual time."""
    complaints = []
    for source in sources.values():
        if "sleep(" not in source.text:
            continue  # most are not even parsed
        marks = [
            node for node in source.tree.body if isinstance(node, ast.Assign) and "mark" in ast.unparse(node)
        ]
        of_all = " ".join(
            ast.unparse(node.value) for node in marks if "pytestmark" in ast.unparse(node.targets[0])
        )
        if any(word in of_all for word in NO_REAL_TIME) or "VirtualTimeLoop" in source.text:
            continue
        for node in source.tree.body:
            own = " ".join(ast.unparse(mark) for mark in getattr(node, "decorator_list", ()))
            if not any(word in own for word in NO_REAL_TIME):
                complaints += [
                    f"{source.dotted}:{call.lineno}: {ast.unparse(call)}" for call in sleeps_of(node)
                ]
    return complaints


RULES = (
    long_files,
    long_classes,
    long_bodies,
    gravity_wells,
    undocumented,
    strange_words,
    mute_messages,
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_package_keeps_the_rule(rule: Callable[[Sources], list[str]]) -> None:
    complaints = rule(SOURCES)
    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize("folder", ["tests", "examples", "bench"])
@pytest.mark.parametrize(
    "rule", [long_files, long_bodies, long_test_names, strange_words], ids=lambda rule: rule.__name__
)
def test_what_stands_beside_the_package_keeps_the_rule(
    rule: Callable[[Sources], list[str]], folder: str
) -> None:
    complaints = rule(read_beside(folder))
    assert not complaints, "\n".join(complaints)


# The package's other sources. A browser imports the page's scripts as they are.
OTHER_SOURCES = (".css", ".html", ".js", ".lua", ".pxi", ".pyx", ".sql")


def test_the_packages_other_sources_keep_the_size() -> None:
    complaints = long_files(read_beside("purgatory_async", *OTHER_SOURCES))
    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize("suffix", OTHER_SOURCES)
def test_the_size_of_other_sources_sees_a_planted_fault(suffix: str) -> None:
    sources = read_beside("purgatory_async", suffix)
    name, *_ = sources
    assert long_files(with_fault(sources, name, "x\n" * (MAX_FILE_LINES + 1)))


@cache  # each parses a file once for all rules
def read_beside(folder: str, *suffixes: str) -> Sources:
    """Read what lies in a folder: Python, or files with these suffixes, which no rule may parse."""
    paths = sorted(path for path in (ROOT / folder).rglob("*") if path.suffix in (suffixes or (".py",)))
    named = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}
    return {name: Source(name, is_package=False, text=text) for name, text in named.items()}


def test_a_test_that_is_not_slow_sleeps_in_no_real_time() -> None:
    # The commands below tests/soak take the time that they are given.
    sources = read_beside("tests")
    commands = [name for name in sources if name.startswith("tests/soak/") and "/test_" not in name]
    complaints = real_sleeps({name: sources[name] for name in sources if name not in commands})
    assert not complaints, "\n".join(complaints)


PLANTED = (
    pytest.param(long_files, "#\n" * (MAX_FILE_LINES + 1), id="a file too long"),
    pytest.param(long_classes, "class C:\n" + "    x = 1\n" * MAX_CLASS_LINES, id="a class too long"),
    pytest.param(long_bodies, "def f():\n" + "    pass\n" * MAX_BODY_LINES, id="a function too long"),
    pytest.param(
        long_test_names, f"def test_{'x' * (MAX_TEST_NAME - 4)}(): pass", id="a test's name too long"
    ),
    pytest.param(
        undocumented, "class Public:\n    '''Said.'''\n    def verb(self): pass", id="a silent method"
    ),
    pytest.param(strange_words, "# Likewise, as abov" + "e.", id="a pointer instead of a noun"),
    pytest.param(strange_words, "    position: " + "Of the last entry.", id="a field without its noun"),
    pytest.param(
        real_sleeps, "async def test_x():\n    await asyncio.sleep(0.01)", id="a sleep in real time"
    ),
    pytest.param(mute_messages, "raise ValueError('that is wrong')\n" * 1000, id="errors that name no value"),
)


@pytest.mark.parametrize(("rule", "text"), PLANTED)
def test_the_rule_sees_a_planted_fault(rule: Callable[[Sources], list[str]], text: str) -> None:
    one = {"clock": SOURCES["clock"]}
    assert set(rule(with_fault(one, "clock", text))) - set(rule(one))


def test_the_rule_sees_a_module_called_after_nothing() -> None:
    assert gravity_wells(with_fault(SOURCES, "timing._utils", ""))


@pytest.mark.parametrize(
    ("text", "mute"),
    [
        pytest.param("raise E('x')", 1, id="constant"),
        pytest.param("raise E(f'{x}')", 0, id="f-string"),
        pytest.param("raise E('{}'.format(x))", 0, id="format"),
        pytest.param("m = f'{x}'\nraise E(m)", 0, id="built before"),
        pytest.param("m = 'x'\nraise E(m)", 1, id="named but constant"),
        pytest.param("def say(x): return f'{x}'\nraise say(x)", 0, id="through a builder"),
        pytest.param("raise E", 0, id="no message to judge"),
    ],
)
def test_what_counts_as_a_message_that_carries_a_value(text: str, mute: int) -> None:
    assert len(mute_messages({"m": Source("m", is_package=False, text=text)})) == mute
