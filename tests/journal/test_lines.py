"""Any record is one line and round-trips; any bytes can be read, as records or as damage."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import asdict

from purgatory_async.journal._encoder import as_text
from purgatory_async.journal.columns import record_batches
from purgatory_async.journal.lines import Damage, encode_record, read_lines, whole_length
from purgatory_async.journal.schema import Outcome, Record, Reschedule, Signal, Stats, Submit, kinds

LONG = st.integers(-(2**63), 2**63 - 1)
POSITIVE = st.integers(1, 2**63 - 1)
INT = st.integers(-(2**31), 2**31 - 1)
# What a key may be, half of a surrogate pair included, and what becomes of it.
TEXT = st.text(st.characters()).map(as_text)
COMMON = {
    "schema_version": st.just(1),
    "run_id": TEXT,
    "node": TEXT,
    "seq": POSITIVE,
    "wall_ns": LONG,
    "mono_ns": LONG,
}
WORDS = st.sampled_from(["completed", "expired", "cancelled", "failed", "closed"])
SUBMITS = st.builds(
    Submit, **COMMON, op_id=TEXT, keys=st.lists(TEXT), needed=INT, timeout_ns=st.none() | LONG
)
RESCHEDULES = st.builds(Reschedule, **COMMON, op_id=TEXT, timeout_ns=st.none() | LONG)
SIGNALS = st.builds(Signal, **COMMON, key=TEXT, n=INT)
OUTCOMES = st.builds(
    Outcome,
    **COMMON,
    op_id=TEXT,
    keys=st.lists(TEXT),
    outcome=WORDS,
    latency_ns=LONG,
    lateness_ns=st.none() | LONG,
    checks=st.none() | INT,
    inserts=st.none() | INT,
    how=st.sampled_from([UNSET, "complete", "fail", "answer"]),
    by=st.just(UNSET) | TEXT,
)
STATS = st.builds(
    Stats,
    **COMMON,
    pending=LONG,
    watched=LONG,
    timer_buckets=LONG,
    tick_ns=POSITIVE,
    wheel_size=POSITIVE,
    purged=st.none() | LONG,
)
RECORDS = st.one_of(SUBMITS, RESCHEDULES, SIGNALS, OUTCOMES, STATS)


def line_of(record):
    buffer = bytearray()
    encode_record(record, buffer)
    return bytes(buffer)


@given(RECORDS)
def test_a_record_is_one_line_and_comes_back_as_it_was(record):
    line = line_of(record)
    assert (line.count(b"\n"), line[-1:]) == (1, b"\n")
    assert list(read_lines(line)) == [record]


VERSION_1 = rb"""
{"kind":"submit","op_id":"1","keys":["a","b"],"needed":2,"timeout_ns":null,"schema_version":1,"run_id":"r","node":"n","seq":1,"wall_ns":7,"mono_ns":8,"crc":"d23ecad1"}
{"kind":"signal","key":"a","n":3,"schema_version":1,"run_id":"r","node":"n","seq":2,"wall_ns":7,"mono_ns":8,"crc":"6b06e36d"}
{"kind":"outcome","op_id":"1","keys":["a","b"],"outcome":"expired","latency_ns":9,"lateness_ns":4,"checks":2,"inserts":1,"schema_version":1,"run_id":"r","node":"n","seq":3,"wall_ns":7,"mono_ns":8,"crc":"2dcb8cc9"}
{"kind":"outcome","op_id":"2","keys":["a"],"outcome":"failed","latency_ns":9,"lateness_ns":null,"checks":null,"inserts":null,"schema_version":1,"run_id":"r","node":"n","seq":4,"wall_ns":7,"mono_ns":8,"crc":"b28e100d"}
{"kind":"stats","pending":1,"watched":2,"timer_buckets":1,"tick_ns":10,"wheel_size":20,"purged":null,"schema_version":1,"run_id":"r","node":"n","seq":5,"wall_ns":7,"mono_ns":8,"crc":"84794d71"}
""".lstrip()


def test_lines_of_version_1_are_read_and_written_as_ever():
    found = list(read_lines(VERSION_1))
    assert [type(record) for record in found] == [Submit, Signal, Outcome, Outcome, Stats]
    assert b"".join(map(line_of, found)) == VERSION_1


@given(st.lists(RECORDS, max_size=5))
def test_records_are_rows_of_columns_without_loss(records):
    rows = [row for batch in record_batches(records) for row in batch.to_pylist()]
    by_kind = [record for kind in kinds() for record in records if type(record) is kind]
    for row, record in zip(rows, by_kind, strict=True):
        assert row["kind"] == type(record).__name__.lower()
        assert {name: row[name] for name in record.__struct_fields__} == {
            name: None if value is UNSET else value for name, value in asdict(record).items()
        }


@given(st.binary(max_size=300))
def test_any_bytes_are_read(data):
    found = list(read_lines(data))
    assert len(found) == data.count(b"\n")
    assert all(isinstance(each, Damage) for each in found)
    assert data[whole_length(data) :].count(b"\n") == 0


@given(RECORDS, st.data())
def test_a_line_with_bytes_cut_or_inserted_is_no_other_record(record, data):
    line = line_of(record)[:-1]
    begin, end = sorted((data.draw(st.integers(0, len(line))), data.draw(st.integers(0, len(line)))))
    hurt = line[:begin] + data.draw(st.binary(max_size=4)).replace(b"\n", b"") + line[end:] + b"\n"
    (found,) = read_lines(hurt)
    # Without its end it has no checksum either; then what is missing shows in the fields.
    if isinstance(found, Record) and b',"crc":' in hurt:
        assert hurt[:-1] == line
