"""What `Durable` imports: a store in SQLite needs the extra `durable` alone."""

import pytest

from tests.layers import EXTRAS
from tests.processes import ended, python

pytestmark = pytest.mark.slow

# A module that is None in sys.modules cannot be imported.
PROGRAM = """
import asyncio, sys
sys.modules |= dict.fromkeys({blocked!r})
from purgatory_async.durable import Durable

async def main():
    async with Durable("sqlite:///" + sys.argv[1]) as durable:
        await durable.attach("deploy-7", ask={{"title": "Deploy?", "choices": ["yes"]}})
        print((await durable.answer("deploy-7", "yes")).choice)

asyncio.run(main())
"""


def test_a_store_in_sqlite_needs_msgspec_alone(tmp_path):
    program = PROGRAM.format(blocked={*EXTRAS} - {"msgspec"})
    code, output, errors = ended("-c", program, tmp_path / "log", start=python)
    assert (code, output, errors) == (0, "yes\n", "")
