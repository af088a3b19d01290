"""Processes that save checkpoints, in threads of the test."""

import asyncio
import threading

from purgatory_async.durable.checkpoints.checkpointer import Checkpointer
from purgatory_async.durable.checkpoints.checkpointing import checkpoint


class Children:
    """Takes the place of the process; it saves a checkpoint through another log, unless it is to fail."""

    def __init__(self, store, monkeypatch):
        self.started = []
        self.killed = 0
        self.failing = False
        self.hanging = False
        self._store = store
        self._end = threading.Event()

        def start(checkpointer):
            self.started.append(checkpointer._newest)
            self.returncode = 0
            return self

        monkeypatch.setattr(Checkpointer, "_start", start)

    def communicate(self):
        if self.hanging:
            self._end.wait()
        if self.failing:
            self.returncode = 1
            return b"", b"a warning\nthe disk is full\n"
        done = asyncio.run(checkpoint(self._store))
        return b"null" if done is None else b'{"position":1,"entries":1,"size":1,"seconds":0.0}', b""

    def kill(self):
        self.killed += 1
        self._end.set()
