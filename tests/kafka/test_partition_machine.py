"""A partition against a list: appended to, followed, trimmed and truncated in any order."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from purgatory_async.kafka.budget import Budget
from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.partition import Partition
from tests.kafka.made_batches import batch, records_in
from tests.machines import explore

EVERYTHING = 1 << 30
FOLLOWERS = (1, 2)
LAG_S = 10.0


class PartitionMachine(RuleBasedStateMachine):
    """The model: values in order, the first that is left, each follower's end, and the greatest least end."""

    def __init__(self):
        super().__init__()
        self.budget = Budget(EVERYTHING)
        self.partition = Partition("t", 0, replicas=(0, *FOLLOWERS), budget=self.budget)
        self.values: list[bytes] = []
        self.bounds = [0]  # where batches begin, and the end
        self.start = self.high = 0
        self.now = 0.0
        self.ends = dict.fromkeys(FOLLOWERS, 0)
        self.caught_up = dict.fromkeys(FOLLOWERS, 0.0)
        self.fetches = dict.fromkeys(FOLLOWERS, (0.0, 0))  # the last one's time, and the leader's end then
        self.in_sync = set(FOLLOWERS)

    def advance(self):
        self.high = max(self.high, min([len(self.values), *(self.ends[one] for one in self.in_sync)]))

    @rule(values=st.lists(st.binary(min_size=1, max_size=3_000), min_size=1, max_size=4))
    def append(self, values):
        found = self.partition.append(batch(*values), acks_all=True)
        assert found == (len(self.values), len(self.values) + len(values))
        self.values += values
        self.bounds.append(len(self.values))
        self.advance()

    @rule(data=st.data(), replica=st.sampled_from(FOLLOWERS))
    def follow(self, data, replica):
        end = data.draw(st.sampled_from(self.bounds))
        self.partition.follow(replica, end, 0, self.now)
        self.ends[replica] = end
        fetched_at, end_then = self.fetches[replica]
        self.fetches[replica] = self.now, len(self.values)
        if end == len(self.values):
            self.caught_up[replica] = self.now
        elif end >= end_then:
            self.caught_up[replica] = max(fetched_at, self.caught_up[replica])
        if end < self.high:
            self.in_sync.discard(replica)
        elif replica not in self.in_sync:
            self.in_sync.add(replica)
            self.caught_up[replica] = self.now
        self.advance()

    @rule(seconds=st.sampled_from([1.0, 11.0]))
    def drop_laggards(self, seconds):
        self.now += seconds
        late = {
            one
            for one in self.in_sync
            if self.ends[one] < len(self.values) and self.now - self.caught_up[one] > LAG_S
        }
        assert self.partition.drop_laggards(self.now, LAG_S) == bool(late)
        self.in_sync -= late
        self.advance()

    @rule(data=st.data())
    def trim(self, data):
        offset = data.draw(st.integers(-1, len(self.values) + 1))
        target = self.high if offset == -1 else offset
        if target <= self.high:
            assert self.partition.delete_before(offset) == target
            self.start = max(self.start, target)
        else:
            with pytest.raises(ProtocolError) as caught:
                self.partition.delete_before(offset)
            assert caught.value.code is ErrorCode.offset_out_of_range

    @precondition(lambda self: self.high < len(self.values))
    @rule(data=st.data())
    def truncate(self, data):
        """As a follower does to what its leader has not; never below the high watermark."""
        offset = data.draw(st.sampled_from([bound for bound in self.bounds if bound >= self.high]))
        self.partition.log.truncate(offset)
        del self.values[offset:]
        self.bounds = [bound for bound in self.bounds if bound <= offset]
        self.ends = {one: min(end, offset) for one, end in self.ends.items()}
        for one, end in self.ends.items():
            self.partition.followers[one].end = end

    @rule(data=st.data(), max_bytes=st.integers(1, 20_000))
    def read(self, data, max_bytes):
        offset = data.draw(st.integers(self.start, len(self.values)))
        for until in (self.high, len(self.values)):
            views = self.partition.log.read(offset, until, max_bytes, at_least_one=True)
            read = [record for record in records_in(b"".join(views)) if record.offset >= offset]
            values = self.values[offset:until]
            assert [record.value for record in read] == values[: len(read)]
            assert [record.offset for record in read] == list(range(offset, offset + len(read)))
            assert bool(read) == bool(values)

    @invariant()
    def ends_and_counts_hold(self):
        partition = self.partition
        assert (partition.log.start, partition.high_watermark, partition.log.end) == (
            *(self.start, self.high),
            len(self.values),
        )
        assert partition.followers.in_sync == self.in_sync
        assert partition.log.start <= partition.high_watermark <= partition.log.end
        assert self.budget.used_bytes == partition.log.size_bytes
        everything = partition.log.read(self.start, len(self.values), EVERYTHING, at_least_one=False)
        assert partition.log.bytes_between(self.start, len(self.values)) == sum(map(len, everything))


def test_no_story_of_a_partition_differs_from_a_list():
    explore(PartitionMachine, examples=30, steps=30)
