"""Payments that are confirmed elsewhere: one coroutine asks and waits, another hears the answer.

What is usually a dict of futures with `wait_for` around it, without its leaks: a payment that is confirmed, one
that is refused, one that nobody answers, and a customer who walks away.
"""

import asyncio

from purgatory_async import OperationExpired, Purgatory


async def pay(payments: Purgatory, number: int) -> str:
    """Wait for the bank's word, but not for ever."""
    try:
        return f"payment {number}: {await payments.wait(number, timeout=0.2)}"
    except OperationExpired:
        return f"payment {number}: the bank did not answer"
    except PermissionError as refusal:
        return f"payment {number}: {refusal}"


async def bank(payments: Purgatory) -> None:
    """Whatever brings the answers: a webhook, a queue, a socket."""
    await asyncio.sleep(0.05)
    payments.complete_for_key(1, "confirmed")
    payments.fail_for_key(2, PermissionError("the card was refused"))


async def main() -> None:
    async with Purgatory("payments") as payments, asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(pay(payments, number)) for number in (1, 2, 3, 4)]
        tasks.create_task(bank(payments))
        await asyncio.sleep(0.01)
        print(f"waiting: {payments.pending}")
        waiting[3].cancel()
        for answer in await asyncio.gather(*waiting, return_exceptions=True):
            print(answer if isinstance(answer, str) else "payment 4: the customer walked away")
        print(f"left behind: {payments.pending} operations, {payments.keys} keys")


if __name__ == "__main__":
    asyncio.run(main())
