"""The port behaves as Kafka's timer does, where that differs from ours too."""

from hypothesis import given
from hypothesis import strategies as st

from bench.designs.kafka_wheel import KafkaTask, KafkaTimer


def run_dry(timer):
    """Go from one due bucket to the next until none is queued; the tasks that expired, each with its time."""
    expired = []
    for _ in range(1_000):
        if (due := timer.next_expiration) is None:
            return expired
        expired += [(task, due) for task in timer.advance_clock(due)]
    raise AssertionError(f"{timer.queued_buckets} buckets are queued again and again")


def added(timer, *delays, now_ms=0):
    tasks = [KafkaTask(delay) for delay in delays]
    for task in tasks:
        timer.add(task, now_ms)
    return tasks


def test_a_bucket_is_queued_again_on_its_next_lap():
    timer = KafkaTimer(tick_ms=1, wheel_size=20)
    first, keeps_the_clock_going = added(timer, 7, 19)
    assert timer.advance_clock(19) == [first, keeps_the_clock_going]
    (second,) = added(timer, 8, now_ms=19)  # 27: the same slot, one lap on
    assert timer.queued_buckets == 1
    assert run_dry(timer) == [(second, 27)]


def test_tasks_of_a_bucket_expire_in_the_order_they_were_added():
    timer = KafkaTimer(tick_ms=10)
    tasks = added(timer, 58, 51, 55)
    assert [task for task, _ in run_dry(timer)] == tasks


def test_a_far_task_cascades_through_a_bucket_of_each_level():
    timer = KafkaTimer()
    (task,) = added(timer, 455)
    stops = []
    while (due := timer.next_expiration) is not None:
        stops.append((due, timer.advance_clock(due)))
    assert stops == [(400, []), (440, []), (455, [task])]


def test_a_cancelled_task_leaves_its_bucket_queued():
    timer = KafkaTimer()
    (task,) = added(timer, 7)
    task.cancel()
    assert (len(timer), timer.queued_buckets, timer.next_expiration) == (0, 1, 7)
    assert run_dry(timer) == []


def test_adding_a_task_again_moves_it():
    timer = KafkaTimer()
    (task,) = added(timer, 7)
    timer.add(task, now_ms=5)
    assert len(timer) == 1
    assert run_dry(timer) == [(task, 12)]


def test_after_idling_a_short_task_cascades_without_waiting():
    timer = KafkaTimer()
    (task,) = added(timer, 50, now_ms=900_000)
    assert timer.wheel.levels == 5
    assert timer.advance_clock(900_000) == []
    assert timer.next_expiration == 900_040
    assert run_dry(timer) == [(task, 900_050)]


@given(
    delays=st.lists(st.integers(0, 20_000), max_size=60),
    tick_ms=st.sampled_from([1, 3, 100]),
    wheel_size=st.sampled_from([2, 3, 20]),
)
def test_every_task_expires_once_in_the_tick_of_its_deadline(delays, tick_ms, wheel_size):
    timer = KafkaTimer(tick_ms=tick_ms, wheel_size=wheel_size)
    at_once = [delay for delay in delays if delay < tick_ms]
    added(timer, *delays)
    assert len(timer) == len(delays) - len(at_once)
    assert [task.delay_ms for task in timer.advance_clock(0)] == at_once
    expired = [(task.delay_ms, at) for task, at in run_dry(timer)]
    assert sorted(expired) == sorted((d, d - d % tick_ms) for d in delays if d >= tick_ms)
    assert len(timer) == 0
