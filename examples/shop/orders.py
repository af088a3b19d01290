"""The shop's own table, in the database of the store: a change of a row and its signal are one transaction."""

import os
import sqlite3
from contextlib import closing
from functools import partial
from typing import Any

from purgatory_async.durable import signal

SHOP = os.environ["SHOP"]
if SQLITE := SHOP.startswith("sqlite:///"):
    connect: Any = partial(sqlite3.connect, SHOP.removeprefix("sqlite:///"))
else:
    from psycopg import connect


def run(sql: str, *values: object, key: str | None = None) -> list[Any]:
    """Run a statement, and signal a key if it returns a row: both count with the commit, or neither does."""
    with closing(connect() if SQLITE else connect(SHOP)) as connection, connection:
        cursor = connection.execute(sql if SQLITE else sql.replace("?", "%s"), values)
        rows = cursor.fetchall() if cursor.description else []
        if rows and key is not None:
            signal(connection, key)  # on Postgres: SELECT purgatory_signal(...)
    return rows


def pay(order: str, amount: int) -> bool:
    """Take the payment for an order, as often as it is reported; whether that is its price."""
    paid = "UPDATE orders SET paid = price WHERE id = ? AND price = ? RETURNING id"
    return bool(run(paid, order, amount, key=f"paid-{order}"))


if __name__ == "__main__":
    run("CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY, price int NOT NULL, paid int, refunded int)")
