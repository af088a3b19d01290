"""Kafka's delayed operation: a task of its timer that completes once, by an event or by running."""

from bench.designs.kafka_wheel import KafkaTask

__all__ = ["KafkaOperation"]


class KafkaOperation(KafkaTask):
    """Leaves the timer when it completes; a purge must remove it from its watch lists."""

    __slots__ = ("__weakref__", "completed", "timeout_ms")

    def __init__(self, timeout_ms: int) -> None:
        super().__init__(timeout_ms)
        self.timeout_ms = timeout_ms
        self.completed = False

    @property
    def ended(self) -> bool:
        """Whether it completed or expired."""
        return self.completed

    def try_complete(self) -> bool:
        """To override; not yet."""
        return False

    def force_complete(self) -> bool:
        """Complete it: mark it, leave the timer, then tell."""
        if self.completed:
            return False
        self.completed = True
        self.cancel()
        self.on_complete()
        return True

    def run(self) -> None:
        """What the timer does when its time is up."""
        if self.force_complete():
            self.on_expiration()

    def on_complete(self) -> None:
        """To override."""

    def on_expiration(self) -> None:
        """To override."""
