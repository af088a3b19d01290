"""Strategies for the entries of a log: few names, short times, and limits that are soon reached."""

from hypothesis import strategies as st
from msgspec import UNSET, Raw

from purgatory_async.durable.documents import Ask, CountNeed, KeyedSignal
from purgatory_async.durable.fold import entries as kinds

START = 1_700_000_000_000_000

ids, keys = (st.sampled_from(names) for names in (("a", "b", "c"), ("k1", "k2", "k3")))
queues = st.sampled_from(("q1", "q1", "q2", "q1.dead"))
leases, writers = st.sampled_from(("l1", "l2", "l3", "l4", "l5")), st.sampled_from((None, "w1", "w2", "w3"))
durations = st.sampled_from((0, 1, 300, 999, 1000, 1001, 1700, 2000, 3000, 7_000_000, 60_000_000))
idems, digests = st.sampled_from((UNSET, UNSET, UNSET, "i1", "i2")), st.sampled_from(("d1", "d2"))
needs = st.sampled_from(("any", "all", CountNeed(amount=3), CountNeed(voters=2)))
counts = st.sampled_from((UNSET, 1, 2, 3))
any_leases = leases | st.sampled_from(("l1.1", "l2.1", "l2.2"))
delays = st.sampled_from((0, 0, 1, 999, 1000, 1700, 3000, 7_000_000))
items = st.sampled_from((Raw(b"1"), Raw(b"null")))
values = st.sampled_from((UNSET, Raw(b"null"), Raw(b'"text"')))

KEYED = st.builds(
    KeyedSignal,
    key=keys,
    value=values,
    amount=st.integers(1, 3),
    voter=st.sampled_from((UNSET, "v1", "v2")),
)
NEW = st.builds(kinds.NewItem, item=items, delay_us=delays)
OF_QUEUES = (
    st.builds(
        kinds.PutItem,
        queue=queues,
        item=items,
        delay_us=delays,
        idem=idems,
        digest=digests,
    ),
    st.builds(
        kinds.PutItems,
        queue=queues,
        items=st.lists(NEW, min_size=1, max_size=4).map(tuple),
        idem=idems,
        digest=digests,
    ),
    st.builds(
        kinds.WantItem,
        queue=queues,
        lease_id=leases,
        lease_us=durations | st.just(UNSET),
        wait_us=durations | st.just(60_000_000),
        max=st.integers(1, 3),
    ),
    st.builds(
        kinds.WantItem,
        queue=queues,
        lease_id=leases,
        lease_us=durations,
        wait_us=durations | st.just(60_000_000),
        max=st.integers(1, 2),
        idem=st.sampled_from(("i1", "i2")),
        digest=st.sampled_from(("d1", "d1", "d1", "d2")),
    ),
    st.builds(
        kinds.WantItem, queue=queues, lease_id=leases, lease_us=durations, wait_us=durations, max=st.just(1)
    ),
    st.builds(kinds.LeaveLine, lease_id=leases),
    st.builds(kinds.EndLease, lease_id=any_leases, back=st.booleans(), delay_us=delays),
    st.builds(kinds.ExtendLease, lease_id=any_leases, lease_us=durations | st.just(UNSET)),
    st.builds(
        kinds.SetQueue,
        queue=queues,
        lease_us=durations | st.just(UNSET),
        max_attempts=st.sampled_from((UNSET, None, 1, 1, 2)),
        max_items=counts | st.none(),
        max_bytes=st.sampled_from((UNSET, None, 129, 300, 1000)),
    ),
    st.builds(kinds.PurgeQueue, queue=queues),
    st.builds(kinds.RedriveItems, queue=queues, max=counts),
)
some_keys = st.lists(keys, min_size=1, max_size=3, unique=True).map(tuple)
instants = st.sampled_from((0, START, START + 1_000, START + 2_500, START + 61_000_000, START + 700_000_000))
asks = st.sampled_from((UNSET, UNSET, Ask("Deploy?"), Ask("Deploy?", "now", ("yes", "no"), "optional")))
told = st.sampled_from((UNSET, "q1", "q2"))
names = st.sampled_from((None, "ann", "bob"))
numbers = st.sampled_from(
    (UNSET, Raw(b"1"), Raw(b"1.0"), Raw(b"true"), Raw(b'{"a":1,"b":[]}'), Raw(b'{"b":[],"a":1e0}'))
)
long_answer = Raw(b'"' + b"x" * 9_000 + b'"')
OF_PROMISES = (
    *2
    * (
        st.builds(
            kinds.SubmitOperation,
            id=ids,
            keys=some_keys,
            need=needs,
            timeout_us=st.none() | durations,
            data=numbers,
            idem=idems,
            digest=digests,
            since=st.sampled_from((UNSET, 0, 1, 3, 9, 40, 10_000)),
            gap=st.sampled_from((False, False, True)),
            keep_us=durations | st.just(UNSET),
            ask=asks,
            announce=told,
            deliver=told,
        ),
    ),
    st.builds(
        kinds.SubmitOperation,
        id=ids,
        keys=st.just(("k1",)),
        timeout_us=st.sampled_from((None, 2000)),
        data=numbers,
        keep_us=st.sampled_from((UNSET, 2000)),
        deliver=st.sampled_from((UNSET, "q1")),
        attach=st.just(True),
    ),
    st.builds(
        kinds.SubmitOperation,
        id=ids,
        keys=some_keys,
        until_us=instants,
        keep_us=st.sampled_from((UNSET, 2000)),
        attach=st.booleans(),
        idem=idems,
        digest=digests,
    ),
    st.builds(
        kinds.CompleteOperation,
        id=ids,
        result=numbers | st.just(long_answer),
        by=names,
        via=names,
        submitted=st.sampled_from((0, 0, 0, 5)),
        idem=idems,
        digest=digests,
    ),
    st.builds(kinds.FailOperation, id=ids, error=st.just(Raw(b'"no"')), by=names, idem=idems, digest=digests),
    st.builds(
        kinds.AnswerOperation,
        id=ids,
        choice=st.just("yes"),
        comment=st.sampled_from((UNSET, "why")),
        by=names,
    ),
    st.builds(
        kinds.RescheduleOperation,
        id=ids,
        timeout_us=st.none() | durations,
        until_us=instants | st.just(UNSET),
        idem=idems,
        digest=digests,
    ),
    st.builds(kinds.ForgetOperation, id=ids),
)
SIGNALS = (
    st.builds(
        kinds.SignalKey,
        key=keys,
        value=values,
        amount=st.integers(1, 3),
        voter=st.sampled_from((UNSET, "v1", "v2")),
        idem=idems,
        digest=digests,
    ),
    st.builds(
        kinds.SignalKeys,
        signals=st.lists(KEYED, min_size=1, max_size=4).map(tuple),
        idem=idems,
        digest=digests,
    ),
)
LIMITS = st.builds(
    kinds.SetLimits,
    max_pending=counts,
    max_items=counts,
    retention_us=st.sampled_from((UNSET, 0, 1500, 60_000_000)),
    keep_signals=counts,
    keep_for_us=st.sampled_from((UNSET, 0, 1_000_000)),
    max_lease_us=st.sampled_from((UNSET, 1000, 60_000_000)),
    max_kept=st.sampled_from((UNSET, 1, 600, 1000, 1800, 6000, 18_000)),
)
ENTRIES = st.one_of(
    st.builds(
        kinds.SubmitOperation,
        id=ids,
        keys=some_keys,
        need=needs,
        timeout_us=st.none() | durations,
        data=values,
        idem=idems,
        digest=digests,
    ),
    *SIGNALS,
    st.builds(kinds.EndOperation, id=ids, how=st.sampled_from(("completed", "cancelled")), result=values),
    *OF_QUEUES,
    *OF_PROMISES,
    st.builds(kinds.Tick),
    st.builds(kinds.Alive),
    LIMITS,
)

q1 = st.just("q1")
TO_A_QUEUE = st.one_of(
    st.builds(kinds.PutItem, queue=q1, item=items, delay_us=delays),
    st.builds(kinds.PutItems, queue=q1, items=st.lists(NEW, min_size=2, max_size=4).map(tuple)),
    st.builds(kinds.SetQueue, queue=q1, max_attempts=st.sampled_from((1, 2)), lease_us=durations),
    st.builds(kinds.RedriveItems, queue=q1, max=counts),
)
ON_A_LEASE = st.one_of(
    st.builds(kinds.EndLease, lease_id=st.just(""), back=st.just(True), delay_us=delays),
    st.builds(kinds.EndLease, lease_id=st.just(""), back=st.booleans()),
    st.builds(kinds.ExtendLease, lease_id=st.just(""), lease_us=durations | st.just(UNSET)),
    st.builds(kinds.LeaveLine, lease_id=st.just("")),
)
