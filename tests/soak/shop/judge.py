"""Compares what customers and persons were answered with the shop's table and its mails."""

from collections import Counter, defaultdict

LIMIT = 100  # of the example


def faults(books, rows, outputs, killed):
    """Count what is lost, doubled or different, with words about each.

    Args:
        books: What was answered.
        rows: The table: by order, its price, what was paid, and what was paid back.
        outputs: What each mailer printed, by name.
        killed: The names of those that were killed.

    Returns:
        The faults as pairs of kind and words, and how many mails went out again after a kill.
    """
    found = [("different", words) for words in books.wrong]
    for order, price in books.paid.items():
        refund, decided = books.refunds.get(order), books.decided.get(order, [])
        if rows.get(order, (price, None, None))[1] != price:
            found.append(("lost", f"{order} was paid, and is not in the table: {rows.get(order)}"))
        if price <= LIMIT:
            decided = [{"state": "completed", "choice": "yes", "by": "the shop"}]
        if len(decided) != 1:
            found.append(("doubled" if decided else "lost", f"{order} was decided so: {decided}"))
        elif decided[0] != refund:
            found.append(("different", f"{order} was decided so: {decided[0]}, and heard so: {refund}"))
        else:
            back = price if refund["choice"] == "yes" else None
            if rows[order][2] != back:
                found.append(("lost", f"{order} must have back {back}, has {rows[order]}"))
    sent, again = mails(outputs, killed, found)
    wanted = {f"payment-{order}": "completed" for order in books.paid}
    wanted |= {f"refund-{order}": answer["choice"] for order, answer in books.refunds.items()}
    for operation, told in wanted.items():
        items = {item for item, _ in sent.get(operation, ())}
        if len(items) != 1:
            found.append(("doubled" if items else "lost", f"{operation} ended, and has the items {items}"))
        elif {heard for _, heard in sent[operation]} != {told}:
            found.append(("different", f"{operation} ended {told}, was mailed so: {sent[operation]}"))
    return found, again


def mails(outputs, killed, found):
    """Return the mails by operation, and how many went out again; one that does must have been of a killed mailer."""
    sent, senders = defaultdict(list), defaultdict(list)
    for name, text in outputs.items():
        for line in text.splitlines():
            item, operation, told = line.split()
            sent[operation].append((item, told))
            senders[item].append(name)
    for item, names in senders.items():
        alive = Counter(name for name in names if name not in killed)
        if alive.total() > 1 or any(names.count(name) > 1 for name in names):
            found.append(("doubled", f"item {item} was handled by {names}"))
    return sent, sum(len(names) - 1 for names in senders.values())
