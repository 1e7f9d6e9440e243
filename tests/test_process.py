"""A process may end at any point with work pending: no crash, no hang, no message from a thread."""

import subprocess
import sys

import pytest

PENDING = """
import sys, torch
a = torch.randn(500, 500, device="openreg")
for _ in range(20):
    b = a @ a
"""

ENDS = {
    "falls off the end": ("", 0),
    "sys.exit": ("sys.exit(3)", 3),
    "os._exit": ("import os; os._exit(4)", 4),
    "raises": ("raise KeyError('mine')", 1),
    "a failed kernel nobody asked about": (
        "i = torch.tensor([9], device='openreg'); torch.ones(2, device='openreg')[i]",
        0,
    ),
    "another stream": ("torch.openreg.set_stream(torch.openreg.Stream()); b = a @ a", 0),
    "a thread": ("import threading; t = threading.Thread(target=lambda: a @ a); t.start(); t.join()", 0),
}


def run(program: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("how", ENDS)
def test_ends_with_work_pending(how):
    statement, code = ENDS[how]
    done = run(PENDING + statement)
    assert done.returncode == code, done.stderr
    assert done.stderr == "" or "KeyError: 'mine'" in done.stderr


def test_ends_right_after_backward():
    program = (
        "import torch; torch.nn.Linear(4, 4).openreg()(torch.ones(2, 4, device='openreg')).sum().backward()"
    )
    for _ in range(8):
        done = run(program)
        assert done.returncode == 0, done.stderr


def test_a_forked_child_is_refused_in_words_and_the_parent_goes_on():
    program = PENDING + (
        "import os\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    try:\n"
        "        torch.ones(1, device='openreg')\n"
        "    except RuntimeError as error:\n"
        "        os._exit(7 if 'spawn' in str(error) else 8)\n"
        "    os._exit(9)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7\n"
        "assert b.shape == (500, 500) and (b == b).all().item()\n"
    )
    done = run(program)
    assert done.returncode == 0, done.stderr
