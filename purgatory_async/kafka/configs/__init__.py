"""What topics are configured with: names, types, bounds and defaults as in Kafka 3.9, and what has an effect here.

    Definition      one config: its type, bounds and default, and what it does
    checked         the values that a client gives
    rules_of        what these say about the records of a topic
    topic_entries   how a client sees them; broker_entries: what the broker was started with

What a topic is given itself is called its overrides. They are strings, as clients send them, in the form in which
Kafka would return them.
"""
