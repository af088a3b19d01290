"""Rewrite the asserts of the contract's module, which is no test file, so that they explain a failure."""

import pytest

pytest.register_assert_rewrite("tests.timing.contract_timer_queue", "tests.timing.hand_out")
