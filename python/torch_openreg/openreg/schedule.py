"""The three schedules; the setting is process-wide.

``async``, the default: operators return before they have run. ``blocking``: an operator is complete when its call
returns, so an error has the right traceback. ``adversarial``: streams are delayed and interleaved at random within the
ordering rules, to expose missing synchronization in the program; the seed makes it reproducible.

The defaults are the environment variables ``OPENREG_SCHEDULE`` (one of these names) and ``OPENREG_SEED`` (an integer).
"""

from typing import NamedTuple

from torch_openreg import _C

SCHEDULES = ("async", "blocking", "adversarial")  # in the order of the runtime's codes


class Schedule(NamedTuple):
    name: str
    seed: int


def get_schedule() -> Schedule:
    """The current schedule and its seed."""
    code, seed = _C.get_schedule()
    return Schedule(SCHEDULES[code], seed)


def set_schedule(name: str, seed: int = 0) -> None:
    """Sets the schedule for work that any thread submits from now on."""
    if name not in SCHEDULES:
        raise ValueError(f"invalid schedule {name!r}: expected one of {', '.join(map(repr, SCHEDULES))}")
    if not 0 <= seed < 1 << 64:
        raise ValueError(f"invalid seed {seed}: expected an integer from 0 to 2**64 - 1")
    _C.set_schedule(SCHEDULES.index(name), seed)


class schedule:
    """Sets the schedule for a ``with`` block and restores the previous one afterwards. Blocks may nest."""

    def __init__(self, name: str, seed: int = 0) -> None:
        self._inside = Schedule(name, seed)

    def __enter__(self) -> None:
        self._before = get_schedule()
        set_schedule(*self._inside)

    def __exit__(self, *exception: object) -> None:
        set_schedule(*self._before)
