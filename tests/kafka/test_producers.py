"""Idempotent producers: a batch sent again is found, a gap and an older epoch are refused."""

import pytest

from purgatory_async.kafka.batches import read_batches
from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.producers import Producers
from tests.kafka.made_batches import batch


def header(producer_id: int, epoch: int, sequence: int, count: int = 1):
    (found,) = read_batches(batch(*[b"v"] * count, producer=(producer_id, epoch, sequence)))
    return found


def appended(producers: Producers, found, offset: int) -> None:
    assert producers.check(found) is None
    producers.appended(found, offset)


def refusal(producers: Producers, found) -> ErrorCode:
    with pytest.raises(ProtocolError) as caught:
        producers.check(found)
    return caught.value.code


def test_each_of_the_last_five_batches_is_found_again():
    producers = Producers()
    for number in range(7):
        appended(producers, header(1, 0, number * 2, 2), 100 + number * 2)
    assert [producers.check(header(1, 0, number * 2, 2)) for number in range(2, 7)] == [
        104,
        106,
        108,
        110,
        112,
    ]
    assert refusal(producers, header(1, 0, 2, 2)) is ErrorCode.out_of_order_sequence_number


def test_a_gap_is_refused():
    producers = Producers()
    appended(producers, header(1, 0, 0), 0)
    assert refusal(producers, header(1, 0, 2)) is ErrorCode.out_of_order_sequence_number


def test_another_length_at_the_same_sequence_is_no_duplicate():
    producers = Producers()
    appended(producers, header(1, 0, 0, 2), 0)
    assert refusal(producers, header(1, 0, 0, 1)) is ErrorCode.out_of_order_sequence_number


def test_an_older_epoch_is_refused():
    producers = Producers()
    appended(producers, header(1, 3, 0), 0)
    assert refusal(producers, header(1, 2, 1)) is ErrorCode.invalid_producer_epoch


def test_a_new_epoch_begins_again_at_zero():
    producers = Producers()
    appended(producers, header(1, 0, 0), 0)
    assert refusal(producers, header(1, 1, 1)) is ErrorCode.out_of_order_sequence_number
    appended(producers, header(1, 1, 0), 1)
    assert refusal(producers, header(1, 0, 1)) is ErrorCode.invalid_producer_epoch


def test_the_sequence_goes_on_at_zero_after_the_greatest():
    producers = Producers()
    appended(producers, header(1, 0, 2**31 - 2, 2), 0)
    appended(producers, header(1, 0, 0), 2)
    assert producers.check(header(1, 0, 2**31 - 2, 2)) == 0


def test_producers_without_a_number_are_not_checked():
    producers = Producers()
    for _ in range(2):
        appended(producers, header(-1, -1, -1), 0)
