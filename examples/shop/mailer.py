"""A queue worker: it mails how a payment or a refund ended, and pays what a person approved.

    python mailer.py  # in any number of processes

What a process that dies had taken comes again, so a mail may go out twice; its id is the same then.
"""

import asyncio
import signal
from contextlib import suppress

from orders import SHOP, run

from purgatory_async.client import Lease
from purgatory_async.durable import Durable

durable = Durable(SHOP)


async def mail(lease: Lease) -> None:
    ended = await durable.status(lease.item["operation"])
    if ended.choice == "yes":
        sql = "UPDATE orders SET refunded = ? WHERE id = ?"
        await asyncio.to_thread(run, sql, ended.data, ended.id.removeprefix("refund-"))
    print(lease.item_id, ended.id, ended.choice or ended.state, flush=True)


async def main() -> None:
    async with durable:
        working = asyncio.create_task(durable.work("mails", mail, concurrency=8))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, working.cancel)
        with suppress(asyncio.CancelledError):  # what it had taken is done or has gone back
            await working


asyncio.run(main())
