"""A missing package is reported in one sentence; an import error of ours is not mistaken for one."""

import pytest

from bench.measure.extra import needing


def missing(name):
    raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def test_a_missing_package_is_named_with_its_extra(capsys):
    with pytest.raises(SystemExit) as refused, needing("spark"):
        missing("pyarrow.parquet")
    assert refused.value.code == 2
    assert capsys.readouterr().err == 'pyarrow is not installed; run: pip install "purgatory-async[spark]"\n'


@pytest.mark.parametrize("name", ["bench.proposal.gone", "purgatory_async.gone", None])
def test_a_missing_module_of_ours_is_a_fault(name):
    with pytest.raises(ModuleNotFoundError), needing("spark"):
        missing(name)
