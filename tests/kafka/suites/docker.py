"""In place of the module ``docker``: aiokafka's tests start Kafka in a container, and get a broker of this project."""

import os
import shlex
import subprocess
from types import SimpleNamespace


class Container:
    def __init__(self, environment):
        options = ("--port", environment["ADVERTISED_PORT"], "--partitions", environment["NUM_PARTITIONS"])
        self._broker = subprocess.Popen([*shlex.split(os.environ["BROKER_COMMAND"]), *map(str, options)])

    def exec_run(self, command):
        return 1, b"the broker has no scripts"

    def stop(self):
        self._broker.terminate()
        self._broker.wait()


def run(environment, **_):
    return Container(environment)


def from_env():
    return SimpleNamespace(containers=SimpleNamespace(run=run), close=lambda: None)


models = SimpleNamespace(containers=SimpleNamespace(Container=Container))
