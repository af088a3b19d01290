"""A damaged journal is read: each record is found or reported as missing.

Nothing is ever invented: each record that is read is one that was written.
"""

import pytest

from purgatory_async.journal.lines import Damage, encode_record, read_lines, whole_length
from purgatory_async.journal.reader import read_journal
from purgatory_async.journal.schema import Outcome, Signal, Stats, Submit
from tests.journal.journaled import JournaledPurgatory, everything, missing, until

RECORDS = 50


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A file of 50 records of all kinds, as a journal left it, and its records."""
    directory = tmp_path_factory.mktemp("journal")
    journaled = JournaledPurgatory(directory, node="n1")
    journaled.journal.gauge(journaled.purgatory)
    for number in range(15):
        journaled.watch(f"order:{number}", ("tuple", number), timeout=None if number % 5 else 0.5)
        journaled.clock.advance(0.2)
        if number % 2:
            journaled.signal(f"order:{number}")
    journaled.purgatory.close()
    until(lambda: journaled.journal._writer_thread.settled)
    for _ in range(RECORDS - journaled.journal._run._encoder.seq - 1):  # the last is a sample
        journaled.signal("Tür")
    records = journaled.close()
    (path,) = directory.glob("*.jsonl")
    data = path.read_bytes()
    assert len(records) == RECORDS
    assert {type(record) for record in records} == {Submit, Signal, Outcome, Stats}
    return data, records


def read(data):
    found = list(read_lines(data[: whole_length(data)]))
    return [each for each in found if not isinstance(each, Damage)], [
        each for each in found if isinstance(each, Damage)
    ]


def test_a_file_cut_in_its_last_records_keeps_the_whole_ones(written):
    data, records = written
    begin = data[: whole_length(data) - 1].rfind(b"\n")
    for _ in range(2):
        begin = data.rfind(b"\n", 0, begin)
    assert data.count(b"\n", begin + 1) == 3
    for length in range(begin + 1, len(data) + 1):
        found, damage = read(data[:length])
        assert (found, damage) == (records[: data[:length].count(b"\n")], []), length


def test_a_cut_file_is_readable_through_its_directory(written, tmp_path):
    data, records = written
    path = tmp_path / "run.n1.000001.jsonl"
    for cut in (1, 2, 100, len(data) - 1):
        path.write_bytes(data[:-cut])
        assert list(read_journal(tmp_path)) == records[: data[:-cut].count(b"\n")]


@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_is_detected_or_harmless(written, bit):
    data, records = written
    lines = data.splitlines(keepends=True)
    begin = 0
    for number, line in enumerate(lines):
        # What comes after is read alike; the line itself and its neighbour are what can be hurt.
        piece = bytearray(line + (lines[number + 1] if number + 1 < len(lines) else b""))
        neighbours = records[number : number + 2]
        for place in range(len(line)):
            piece[place] ^= 1 << bit
            found, damage = read(bytes(piece))
            piece[place] ^= 1 << bit
            assert all(record in neighbours for record in found), (begin + place, found)
            # A last line without its newline is torn, which is no damage; every other loss has a reason.
            torn = len(neighbours) == 1 and place == len(line) - 1
            assert len(found) == len(neighbours) or damage or torn, begin + place
        begin += len(line)


@pytest.mark.slow
def test_a_flipped_byte_costs_at_most_two_records(written):
    data, records = written
    flipped = bytearray(data)
    for place in range(len(data)):
        flipped[place] ^= 1 << place % 8
        found, damage = read(bytes(flipped))
        flipped[place] ^= 1 << place % 8
        assert found == [record for record in records if record in found], place
        assert len(found) >= RECORDS - 2, place
        assert len(found) == RECORDS or damage or place == len(data) - 1, place


def test_a_page_of_zeroes_costs_the_records_in_it(written):
    data, records = written
    hurt = bytearray(data)
    hurt[4096:8192] = bytes(4096)
    found, damage = read(bytes(hurt))
    assert damage
    assert found == [record for record in records if record in found]
    assert 0 < len(found) < RECORDS
    assert len(missing(found)) + len(found) == RECORDS


def test_a_duplicated_block_gives_duplicate_records(written):
    # Who counts records goes by their numbers.
    data, records = written
    found, damage = read(data + data)
    assert (found, damage) == ([*records, *records], [])


def test_only_a_wrong_checksum_is_damage_not_a_missing_one():
    signal = Signal(schema_version=1, run_id="r", node="n", seq=1, wall_ns=0, mono_ns=0, key="door", n=1)
    buffer = bytearray()
    encode_record(signal, buffer)
    line = bytes(buffer)
    assert read(line) == ([signal], [])
    assert read(line.replace(b'"n":1', b'"n":2'))[0] == []
    stripped = line[: line.index(b',"crc"')] + b"}\n"
    assert read(stripped) == ([signal], [])


@pytest.mark.parametrize(
    "hurt",
    [
        b'"0a1b2c3"',
        b'"0a1b"',
        b'""',
        b'"0a1b2c3d0"',
        b'"0A1B2C3D"',
        b"null",
        b"7",
        b'"0a1b2c3d" ',
        b'"0a1b2c3d","n":2',
    ],
)
def test_a_line_whose_checksum_is_cut_short_is_damage(hurt):
    signal = Signal(schema_version=1, run_id="r", node="n", seq=1, wall_ns=0, mono_ns=0, key="door", n=1)
    buffer = bytearray()
    encode_record(signal, buffer)
    body, crc = bytes(buffer).removesuffix(b"}\n").split(b',"crc":')
    written = crc.strip(b'"')
    hurt = (
        hurt.replace(b"0a1b2c3d", written)
        .replace(b"0A1B2C3D", b"x" + written[1:])
        .replace(b"0a1b", written[:4])
    )
    records, (damage,) = read(body + b',"crc":' + hurt + b"}\n")
    assert records == []
    assert damage.reason.startswith(f'its checksum must be "{written.decode()}", got ')
    assert len(damage.reason) < 100


def test_a_key_that_looks_like_a_checksum_is_a_key():
    for key in ("crc", ',"crc":"0"}', '","crc":"0', '"crc":'):
        signal = Signal(schema_version=1, run_id="r", node="n", seq=1, wall_ns=0, mono_ns=0, key=key, n=1)
        buffer = bytearray()
        encode_record(signal, buffer)
        line = bytes(buffer)
        assert read(line) == ([signal], [])
        assert read(line[: line.rindex(b',"crc":')] + b"}\n") == ([signal], [])


def test_damage_has_a_place_and_a_reason_and_the_reader_goes_on(written, tmp_path):
    data, _ = written
    lines = data.splitlines(keepends=True)
    lines[3] = b"not json\n"
    lines[5] = b"\xff\xfe\n"
    lines[7] = b"\n"
    lines[9] = b"[" * 100_000 + b"\n"
    (tmp_path / "run.n1.000001.jsonl").write_bytes(b"".join(lines))
    damage = [found for found in everything(tmp_path) if isinstance(found, Damage)]
    assert [found.offset for found in damage] == [len(b"".join(lines[:n])) for n in (3, 5, 7, 9)]
    assert "not UTF-8: invalid start byte at byte 0" in damage[1].reason
    assert damage[2].reason == "an empty line"
    assert all(found.reason for found in damage)
    assert missing(read_journal(tmp_path)) == [4, 6, 8, 10]
