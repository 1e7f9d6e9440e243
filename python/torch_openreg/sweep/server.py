"""Forks a process for each run, from one that has imported torch: ``sweep --preload``.

A request is a line of JSON on the standard input: the command, its environment, a folder and a time limit. The answer is
a line with the exit code, or null at the time limit. The output of the run is in files of the folder.
"""

import builtins
import contextlib
import json
import os
import signal
import sys
import time
from types import CodeType
from typing import Any

OUTPUT, ERRORS = "output", "errors"
DUMP_SECONDS = 2.0  # for the stacks of a process that hangs


def main() -> None:
    import torch_openreg  # noqa: F401  (also imports torch)

    for line in sys.stdin:
        request = json.loads(line)
        process = os.fork()
        if process == 0:
            code = _become_program(request)
            exec(code, vars(sys.modules["__main__"]))
            return
        ended = _wait(process, request["timeout"])
        if not ended:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGUSR1)  # faulthandler prints the stacks
            time.sleep(DUMP_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)  # also children that have not ended
        status = os.waitpid(process, 0)[1]
        print(json.dumps(os.waitstatus_to_exitcode(status) if ended else None), flush=True)


def _wait(process: int, timeout: float) -> bool:
    """Whether the process ends within the time limit. It is not reaped, so its number stays its own."""
    limit = time.monotonic() + timeout
    while time.monotonic() < limit:
        if os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None:
            return True
        time.sleep(0.01)
    return False


def _become_program(request: dict[str, Any]) -> CodeType:
    """Makes this process that of the script, and returns its code."""
    os.setsid()
    for name, number in ((OUTPUT, 1), (ERRORS, 2)):
        file = os.open(os.path.join(request["folder"], name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(file, number)
        os.close(file)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.environ.update(request["environment"])
    from torch_openreg.openreg import fault_injection

    fault_injection.apply_environment()
    script, *_ = sys.argv = request["command"]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    program = vars(sys.modules["__main__"])
    program.clear()
    program.update(__name__="__main__", __file__=script, __spec__=None, __builtins__=builtins)
    with open(script, "rb") as source:
        return compile(source.read(), script, "exec")
