"""The pages of the Python API: what each public module lists in ``__all__``, by autodoc."""

from importlib.util import find_spec
from typing import Final

# The modules that users import, with what the navigation calls them.
_MODULES: Final = {
    "purgatory_async": "The library",
    "purgatory_async.patterns": "Patterns",
    "purgatory_async.web": "Long polls and event streams",
    "purgatory_async.cluster": "Signals between workers",
    "purgatory_async.durable": "Durable operations",
    "purgatory_async.client": "Clients of the service",
    "purgatory_async.testing": "Tests of waiting code",
    "purgatory_async.kafka": "Kafka broker",
    "purgatory_async.kafka.testing": "Kafka broker in tests",
    "purgatory_async.journal": "Journal",
    "purgatory_async.metrics": "Metrics",
    "purgatory_async.otel": "OpenTelemetry",
    "purgatory_async.events": "Events for observers",
    "purgatory_async.clock": "Clocks",
    "purgatory_async.timing": "Timing wheels",
}
MODULES: Final = {module: said for module, said in _MODULES.items() if find_spec(module)}


def name_of(module: str) -> str:
    """Return the name of a module's page."""
    return f"reference/api/{module.removeprefix('purgatory_async').strip('.') or 'purgatory_async'}"


def markdown(module: str) -> str:
    """Return the page of a module."""
    return f"""# {MODULES[module]}: `{module}`

```{{eval-rst}}
.. automodule:: {module}
   :members:
```
"""


def contents() -> str:
    """Return the page that lists the modules."""
    names = {module: name_of(module).rpartition("/")[2] for module in MODULES}
    listed = "\n".join(f"- [{said}]({names[module]}.md): `{module}`" for module, said in MODULES.items())
    tree = "\n".join(names.values())
    return f"""# Python API

The modules to import. What a module does not list in `__all__` may change at any time.

{listed}

```{{toctree}}
:hidden:

{tree}
```
"""
