"""The contract's asserts are in a module that is no test file; they too should say what was wrong."""

import pytest

pytest.register_assert_rewrite("tests.timing.contract_timer_queue", "tests.timing.hand_out")
