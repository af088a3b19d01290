"""A figure is printed with the class of machine it was taken on."""

import platform

from bench.measure.machine import describe_machine


def test_a_machine_is_described_by_processor_cores_and_python():
    machine = describe_machine()
    assert machine.cpu
    assert machine.cores >= 1
    assert platform.python_version() in machine.python
    assert machine.uvloop


def test_a_machine_is_not_described_by_its_name():
    assert platform.node() not in repr(describe_machine()).split("'")
