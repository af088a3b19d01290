"""A leader and two real followers, without sockets: what is in sync has what was acknowledged, whatever restarts."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from purgatory_async.kafka.partition import NO_EPOCH, Partition
from purgatory_async.kafka.segments import Budget
from tests.kafka.made_batches import batch, records_in
from tests.machines import explore

EVERYTHING = 1 << 30
FOLLOWERS = (1, 2)
LAG_S = 10.0


def fresh(epoch: int) -> Partition:
    return Partition("t", 0, replicas=(0, *FOLLOWERS), budget=Budget(EVERYTHING), leader_epoch=epoch)


def values_of(partition: Partition) -> dict[int, bytes]:
    log = partition.log
    views = log.read(log.start, log.end, EVERYTHING, at_least_one=False)
    return {read.offset: read.value for read in records_in(b"".join(views)) if read.offset >= log.start}


def how_far(partition: Partition) -> tuple[int, int]:
    return partition.leader_epoch, partition.log.end


class ReplicationMachine(RuleBasedStateMachine):
    """The model: what the leader was given since it started."""

    def __init__(self):
        super().__init__()
        self.now = 0.0
        self.epoch = 0
        self.remember: set[int] = set()  # those that have not restarted since they fetched
        self.followers = {replica: fresh(NO_EPOCH) for replica in FOLLOWERS}
        self.leader = fresh(self.epoch)
        self.given: dict[int, bytes] = {}
        self.high = 0

    @rule(replicas=st.sets(st.sampled_from(FOLLOWERS)))
    def start_leader(self, replicas):
        """It reaches these followers; what was acknowledged survives if one of them was in sync."""
        copies = (self.followers[replica] for replica in replicas)
        best = max(copies, key=how_far, default=fresh(NO_EPOCH))
        start, high, before = self.leader.log.start, self.high, self.given
        survives = bool(replicas & self.leader.followers.in_sync & self.remember)
        self.epoch += 1
        self.leader = fresh(NO_EPOCH)
        self.leader.start_over(best.log.start)
        views = best.log.read(best.log.start, best.log.end, EVERYTHING, at_least_one=False)
        self.leader.append_copies(b"".join(views))
        self.leader.lead_again(self.epoch)
        self.given, self.high = values_of(self.leader), 0
        for offset in range(start, high) if survives else ():
            assert self.given[offset] == before[offset], f"{offset} was acknowledged, and is gone"

    @rule(values=st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=3))
    def append(self, values):
        base, end = self.leader.append(batch(*values), acks_all=True)
        self.given |= dict(zip(range(base, end), values, strict=True))

    @rule(replica=st.sampled_from(FOLLOWERS))
    def start_follower(self, replica):
        self.followers[replica] = fresh(NO_EPOCH)
        self.remember.discard(replica)

    @rule(replica=st.sampled_from(FOLLOWERS), max_bytes=st.sampled_from([1, 500, EVERYTHING]))
    def fetch(self, replica, max_bytes):
        leader, follower = self.leader, self.followers[replica]
        offset = follower.log.end
        if not leader.log.continues(offset, follower.leader_epoch):
            follower.drop_diverging(*leader.log.diverging(follower.leader_epoch), leader.log.start)
            return
        self.remember.add(replica)
        leader.follow(replica, offset, follower.log.start, self.now)
        views = leader.log.read(offset, leader.log.end, max_bytes, at_least_one=True)
        follower.append_copies(b"".join(views))
        follower.learn(leader.high_watermark, leader.log.start)

    @rule()
    def catch_up(self):
        for _ in range(3):
            for replica in FOLLOWERS:
                self.fetch(replica, EVERYTHING)

    @rule(seconds=st.sampled_from([1.0, 11.0]))
    def pass_time(self, seconds):
        self.now += seconds
        self.leader.drop_laggards(self.now, LAG_S)

    @rule(data=st.data())
    def delete_records(self, data):
        low = self.leader.log.start
        self.leader.delete_before(data.draw(st.integers(low, self.leader.high_watermark)))

    @invariant()
    def the_high_watermark_never_goes_back(self):
        assert self.high <= self.leader.high_watermark <= self.leader.log.end
        self.high = self.leader.high_watermark

    @invariant()
    def the_leader_has_what_it_was_given(self):
        start = self.leader.log.start
        assert values_of(self.leader) == {at: value for at, value in self.given.items() if at >= start}

    @invariant()
    def replicas_in_sync_have_what_was_acknowledged(self):
        for replica in self.leader.followers.in_sync:
            follower = self.followers[replica]
            if replica not in self.remember:  # it will leave with its next fetch
                continue
            has = values_of(follower)
            for offset in range(max(self.leader.log.start, follower.log.start), self.high):
                assert has[offset] == self.given[offset]

    @invariant()
    def followers_never_have_anything_else(self):
        for follower in self.followers.values():
            if follower.leader_epoch == self.epoch:
                assert values_of(follower).items() <= self.given.items()
                assert follower.high_watermark <= follower.log.end


def test_no_story_loses_what_was_acknowledged():
    explore(ReplicationMachine, examples=30, steps=30)
