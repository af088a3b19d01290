"""The package's sources as syntax trees, for the tests that read the code instead of running it."""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

PACKAGE = "purgatory_async"
ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Source:
    """One module of the package.

    Attributes:
        name: Relative to the package; "" is the package itself.
        is_package: Whether the file is an ``__init__.py``.
        text: The file's text.
    """

    name: str
    is_package: bool
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The text, parsed."""
        return ast.parse(self.text)

    @property
    def dotted(self) -> str:
        """The name as one imports it."""
        return f"{PACKAGE}.{self.name}".rstrip(".")

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Every node, function bodies and typing-only blocks included."""
        return list(ast.walk(self.tree))

    @cached_property
    def imports(self) -> list[tuple[str, int]]:
        """Every name imported, absolute, with its line; ``from a import b`` gives ``a.b``."""
        return list(self._imports(self.nodes))

    @property
    def eager_imports(self) -> list[tuple[str, int]]:
        """As `imports`, those that run when the module is imported."""
        return list(self._imports(_run_on_import(self.tree)))

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        """Every function and method, nested ones included."""
        return (node for node in self.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))

    def _imports(self, nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
        package = self.dotted.split(".")[: None if self.is_package else -1]
        for node in nodes:
            if isinstance(node, ast.Import):
                yield from ((alias.name, node.lineno) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                parent = package[: len(package) - node.level + 1] if node.level else []
                base = ".".join([*parent, *([node.module] if node.module else [])])
                yield from ((f"{base}.{alias.name}", node.lineno) for alias in node.names)


Sources = dict[str, Source]


def read_package() -> Sources:
    """Every module of the package by its relative name."""
    found = {}
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        parts = path.relative_to(ROOT / PACKAGE).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        found[name] = Source(name, is_package, path.read_text(encoding="utf-8"))
    return found


def with_fault(sources: Sources, name: str, text: str) -> Sources:
    """The package with ``text`` added to the end of one module, or as a new one: a planted fault."""
    before = sources.get(name, Source(name, is_package=False, text=""))
    return {**sources, name: Source(name, before.is_package, f"{before.text}\n{text}\n")}


def _run_on_import(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when the module is imported: no function body, nothing under TYPE_CHECKING."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        yield from _run_on_import(node)
