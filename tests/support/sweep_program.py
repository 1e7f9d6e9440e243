"""A program that ends in every way, depending on which call fails; for tests/test_sweep.py."""

import contextlib
import os
import signal
import threading

import torch

keeper = torch  # a module that outlives the program's variables
x = torch.ones(4, device="openreg")
result = 1
first, second = (torch.openreg.Event(enable_timing=True) for _ in range(2))
first.record()
with contextlib.suppress(RuntimeError):
    torch.openreg.synchronize()  # handled
try:
    second.record()
except RuntimeError:
    raise ValueError("something is wrong") from None  # unclear
second.synchronize()
try:
    torch.openreg.current_stream().query()
except RuntimeError:
    os.kill(os.getpid(), signal.SIGSEGV)
try:
    first.elapsed_time(second)
except RuntimeError:
    keeper.kept_by_the_sweep_program = x  # a leak
try:
    first.query()
except RuntimeError:
    threading.Event().wait()  # a hang
try:
    torch.ones(3).pin_memory()
except RuntimeError:
    result = 2  # wrong
torch.openreg.current_stream().wait_event(first)  # its error ends the program
print("digest:", result)
