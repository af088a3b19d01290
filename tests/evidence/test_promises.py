"""Each promise has tests, and its tests notice when it is broken."""

import pytest

from tests.evidence.page import PAGE, page
from tests.evidence.planting import Copy
from tests.evidence.promises import PROMISES, Fault
from tests.source_tree import PACKAGE, ROOT

FAULTS = [fault for promise in PROMISES for fault in promise.faults]
TESTS_FAILED = 1


def test_every_promise_names_its_page_and_its_tests() -> None:
    named = [path for promise in PROMISES for path in (promise.page, *promise.tests)]
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.file)
def test_a_fault_can_be_planted_at_one_place(fault: Fault) -> None:
    text = (ROOT / PACKAGE / fault.file).read_text(encoding="utf-8")
    assert text.count(fault.right) == 1
    assert fault.wrong != fault.right
    assert (ROOT / fault.seen_by.partition("::")[0]).exists()


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return Copy.make(tmp_path_factory.mktemp("planted"))


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.file)
def test_the_tests_of_a_promise_notice_a_planted_fault(copy: Copy, fault: Fault) -> None:
    code, said = copy.run_with(fault)
    assert code == TESTS_FAILED, said


@pytest.mark.slow
def test_without_a_fault_the_same_tests_pass(copy: Copy) -> None:
    code, said = copy.run("tests/core/test_close.py")
    assert code == 0, said


def test_the_page_of_evidence_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()
