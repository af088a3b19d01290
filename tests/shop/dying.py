"""A program of the shop that kills itself at a step: a line of the example, or what comes before and after an answer.

As ``dying:app`` it is the application, and a request that has the header ``die-at`` says where; a worker that got to
the end of one writes the file ``survived``. As ``python dying.py PROGRAM FUNCTION STEP`` it is another program, of
which the steps in one function count. It runs in the example's folder.
"""

import os
import runpy
import signal
import sys
import threading
from pathlib import Path

FOLDER = os.fspath(Path(__file__).resolve().parent)
left = inside = None


def step():
    """Count a step; the last one kills."""
    global left  # noqa: PLW0603 - of the process, which has one such request
    if left is not None:
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)


def trace(frame, event, _):
    """Count the lines of the example's functions, and that they return."""
    code = frame.f_code
    if os.path.dirname(code.co_filename) != FOLDER or code.co_filename == __file__:  # noqa: PTH120 - for each call
        return None
    if inside in {None, code.co_name} and event in {"line", "return"}:
        step()
    return trace


async def app(scope, receive, send):
    """Serve a request, or die in it."""
    global left  # noqa: PLW0603 - of the process, too
    number = dict(scope.get("headers", ())).get(b"die-at")
    if number is None:
        await example(scope, receive, send)
        return

    async def counted(message):
        step()
        await send(message)
        step()

    left = int(number)
    await example(scope, receive, counted)
    step()
    left = None
    with open("survived", "w"):  # noqa: ASYNC230, PTH123 - at once
        pass


if __name__ == "__main__":
    _, program, inside, number = sys.argv
    left = int(number)
    sys.settrace(trace)
    runpy.run_path(f"{FOLDER}/{program}", run_name="__main__")
else:
    from app import app as example

    threading.settrace(trace)
    sys.settrace(trace)
