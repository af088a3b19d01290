"""An export of a log has what the journal of a service would have."""

from collections import Counter

import pytest
from msgspec import UNSET

from purgatory_async.journal import read_journal, segments
from purgatory_async.journal.schema import Outcome, Stats
from tests.durable.checkpoints.test_export import SCRIPT, Exported, by_the_log, comparable

pytestmark = pytest.mark.asyncio


async def by_the_service(client):
    for verb, *given in SCRIPT:
        if verb == "submit":
            await client.submit(
                *given[1]["keys"], id=given[0], **{k: v for k, v in given[1].items() if k != "keys"}
            )
        elif verb == "signal":
            await client.signal(given[0], amount=given[1])
        elif verb == "end" and given[1] == "cancelled":
            await client.request("DELETE", f"/v1/operations/{given[0]}")
        elif verb == "fail":
            await client.request("POST", f"/v1/operations/{given[0]}/fail", {"error": 1, "by": given[1]})
        elif verb == "reschedule":
            path = f"/v1/operations/{given[0]}/reschedule"
            await client.request("POST", path, {"timeout": given[1]})
        elif verb == "end":
            await client.request("POST", f"/v1/operations/{given[0]}/complete", {})
        else:
            await client.advance(given[0])


async def test_the_records_are_those_of_the_services_journal(make_client, tmp_path, monkeypatch):
    exported = Exported(tmp_path / "journal")
    monkeypatch.setattr(segments.Sealer, "add", lambda sealer, segment: None)
    client = make_client(journal=tmp_path / "service")
    await by_the_service(client)
    client.service.close()
    *own, last = read_journal(tmp_path / "service")
    assert isinstance(last, Stats)  # of its end, which an export does not have
    await by_the_log(exported)
    found = await exported.export()
    assert comparable(found) == comparable(own)
    assert Counter(record.outcome for record in found if isinstance(record, Outcome)) == {
        "completed": 4,
        "expired": 1,
        "cancelled": 1,
        "failed": 1,
    }
    answers = [(record.how, record.by) for record in found if isinstance(record, Outcome) and record.how]
    assert answers == [("complete", UNSET), ("fail", "ann")]
