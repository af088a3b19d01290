"""A worker without an event loop, as a Celery task or a cron job is: it books the payments of a bank's statement.

    python cashier.py < statement  # lines of ORDER AMOUNT

It may be killed, and run again with the same statement. For a store that has no tables, `signal` takes its URL:
``signal("redis://localhost/0", key)``, after whatever it reports.
"""

import sys

from orders import pay

for line in sys.stdin:
    order, amount = line.split()
    print(order, "paid" if pay(order, int(amount)) else "refused", flush=True)
