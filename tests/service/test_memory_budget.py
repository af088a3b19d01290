"""The memory of a real process stays within its budgets of bytes, whatever is kept and left unread."""

import time
from contextlib import ExitStack

import pytest

from bench.service.hoard import fill, keep_deaf
from bench.service.served import Served

pytestmark = pytest.mark.slow

KEPT, UNSENT = 24, 8
FLAGS = ("--max-bytes", f"{KEPT}MiB", "--max-unsent", f"{UNSENT}MiB")


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_values_of_a_megabyte_and_deaf_clients_are_bounded(store, tmp_path):
    flags = () if store == "memory" else ("--store", f"sqlite:///{tmp_path}/log.db")
    with Served(*FLAGS, *flags) as served, ExitStack() as stack:
        statuses = fill(served.port, 120)
        assert statuses[503] > 20  # far more than there is room for
        keep_deaf(stack, served.port)
        time.sleep(1)
        fill(served.port, 30, 1000)
        assert served.peak_kib() / 1024 < 2 * (KEPT + UNSENT) + 100
