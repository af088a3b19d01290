"""What the system says about processes is read from its files, children included."""

import os
import subprocess
import sys

from bench.service.processes import children, cpu_s, family, memory_of

ALLOCATE = "import sys; held = bytearray(b'x' * 50_000_000); print(flush=True); sys.stdin.read()"


def test_memory_and_time_are_those_of_the_whole_family():
    before, began_s = memory_of(os.getpid()), cpu_s(os.getpid())
    pipe = subprocess.PIPE
    child = subprocess.Popen([sys.executable, "-c", ALLOCATE], stdin=pipe, stdout=pipe)
    try:
        child.stdout.readline()
        assert children(os.getpid())[-1] == child.pid == family(os.getpid())[-1]
        after = memory_of(os.getpid())
        assert after.resident_bytes - before.resident_bytes > 50_000_000
        assert after.proportional_bytes - before.proportional_bytes > 50_000_000
        assert cpu_s(os.getpid()) >= began_s
    finally:
        child.kill()
        child.communicate()
