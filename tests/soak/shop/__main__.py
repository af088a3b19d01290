"""Customers in the shop of ``examples/shop`` while one of its workers ends each second.

Eight customers at once place orders, pay them by the shop or by bank, and have them paid back; above the limit two
persons decide, and one of them is too late. A request that gets no answer is sent again. Meanwhile the oldest worker
ends each second, by SIGTERM or, the third time, by SIGKILL, and uvicorn starts another one; each 2 s a mailer does, the
third time by SIGKILL; each 4 s the cashier is killed. At the end all that was answered is compared with the shop's
table and its mails.

Lost: a payment, a decision or a mail is missing. Doubled: two persons have decided, two mails of one end, or a mail
that went out again although its mailer lived. Different: any other answer. One of these and the exit code is 1.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from contextlib import closing, contextmanager
from pathlib import Path
from signal import SIGKILL, SIGTERM

from bench.measure.command import positive
from tests.cluster.servers import Postgres
from tests.shop.running import SQLITE, Shop
from tests.soak.shop.customers import Books, rush
from tests.soak.shop.judge import faults
from tests.soak.shop.restarts import Crew

AT_ONCE = 8
TAIL_S = 90.0  # the lease of what a killed mailer had, and some
COLUMNS = (
    "store, seconds", "orders", "decided by persons", "workers, mailers replaced", "workers, mailers, cashiers killed",
    "requests sent again", "mails sent again", "lost", "doubled", "different",
)  # fmt: skip
FAULTS = ("lost", "doubled", "different")


def main():
    """Print one row of counts, and the first faults; 1 if there were any."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak.shop",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--store", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--seconds", type=positive, default=10)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        store_named(options.store) as store,
        Shop(Path(folder), store) as shop,
    ):
        books, crew, found, again = asyncio.run(keep_open(shop, options.seconds, options.seed))
    kinds = [kind for kind, _ in found]
    ended = (
        ", ".join(f"{crew.counts[kind, by]:,}" for kind in ended_so)
        for by, ended_so in (
            (SIGTERM, ("workers", "mailers")),
            (SIGKILL, ("workers", "mailers", "cashiers")),
        )
    )
    figures = (
        f"{options.store}, {options.seconds}", f"{len(books.paid):,}", f"{len(books.decided):,}", *ended,
        f"{books.counts.total():,}", f"{again:,}", *(kinds.count(kind) for kind in FAULTS),
    )  # fmt: skip
    for row in (COLUMNS, ["---"] * len(COLUMNS), figures):
        print(f"| {' | '.join(map(str, row))} |")
    print("sent again:", *(f"{count} {kind}," for kind, count in sorted(books.counts.items())))
    print(*(f"{kind}: {words}" for kind, words in found[:20]), sep="\n")
    return int(bool(found))


async def keep_open(shop, seconds, seed):
    """Let customers in and replace workers meanwhile; return what came of it, once the last mail is out."""
    books, crew = Books(), Crew(shop)
    with closing(crew):
        restarting = asyncio.create_task(crew.restart(books))
        rushing = asyncio.create_task(
            rush(shop.address, books, crew.transfer, seconds=seconds, at_once=AT_ONCE, seed=seed)
        )
        await asyncio.wait({restarting, rushing}, return_when=asyncio.FIRST_COMPLETED)
        restarting.cancel()
        if restarting.done():
            rushing.cancel()
            await restarting
        await rushing
        over = time.monotonic() + TAIL_S
        while True:
            outputs = {each: each.read_text(encoding="utf-8") for each in crew.outputs}
            rows = shop.rows("SELECT id, price, paid, refunded FROM orders")
            table = {order: tuple(rest) for order, *rest in rows}
            found, again = faults(books, table, outputs, crew.killed_mailers)
            if not any(kind == "lost" for kind, _ in found) or time.monotonic() > over:
                return books, crew, found, again
            await asyncio.sleep(1)


@contextmanager
def store_named(name):
    """Start an empty store."""
    if name == "sqlite":
        yield SQLITE
    else:
        with closing(Postgres()) as server:
            server.start()
            yield server.url


if __name__ == "__main__":
    sys.exit(main())
