"""The model itself keeps the contract that it is used to check."""

import pytest

from tests.timing.contract_timer_queue import MakeQueue, TimerQueueContract
from tests.timing.sorted_queue import SortedQueue


class TestSortedQueueIsATimerQueue(TimerQueueContract):
    @pytest.fixture
    def make_queue(self) -> MakeQueue:
        return SortedQueue
