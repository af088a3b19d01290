"""The broker beside others that serve Kafka's clients without Kafka: what works, and how fast."""
