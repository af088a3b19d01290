"""`KafkaContainer` stands for the one of testcontainers, which needs Docker: a broker in a process, for all tests."""

import subprocess
import sys


class KafkaContainer:
    """A broker in a process, from `start` to `stop`; a context manager, as the container."""

    def __enter__(self):
        command = [sys.executable, "-m", "purgatory_async", "kafka", "--port", "0", "--rebalance-delay", "0"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._address = self._process.stdout.readline().split()[-1]
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.communicate()

    def get_bootstrap_server(self):
        """The address for clients."""
        return self._address
