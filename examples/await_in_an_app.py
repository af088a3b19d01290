"""Payments that are confirmed elsewhere: one coroutine waits, another receives the answer.

It replaces a dict of futures under `wait_for`, without its leaks. One payment is confirmed, one is refused,
one gets no answer, and one customer walks away.
"""

import asyncio

from purgatory_async import OperationExpired, Purgatory


async def pay(payments: Purgatory, number: int) -> str:
    """Wait for the bank's answer, at most 0.2 s."""
    try:
        return f"payment {number}: {await payments.wait(number, timeout=0.2)}"
    except OperationExpired:
        return f"payment {number}: the bank did not answer"
    except PermissionError as refusal:
        return f"payment {number}: {refusal}"


async def bank(payments: Purgatory) -> None:
    """Deliver the answers, as a webhook, a queue or a socket would."""
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
