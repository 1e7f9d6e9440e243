"""Faults on command: calls of the runtime that fail, hang, come late or lose the device. See docs/guide/finding_bugs.md.

Rules apply to the process. ``OPENREG_FAULTS``, JSON or the path of a JSON file, has rules for the whole process.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from typing_extensions import Self

from torch_openreg import _C, _fault_rules
from torch_openreg._name import setting

from ._lazy import at_end_of_main_thread
from .device import DeviceLike, index_of

FAULTS = setting("FAULTS")
SWEEP = setting("SWEEP")  # folder of a run of ``python -m torch_openreg sweep``


class FaultCounts(NamedTuple):
    """Counts of one rule."""

    matched: int  #: calls that the rule selects
    fired: int  #: calls on which it acted


class faults:
    """Applies fault rules in a ``with`` block. Blocks may nest; the rules of outer blocks still apply.

    ``rules`` is a list of dictionaries, as in ``OPENREG_FAULTS``; ``"stream"`` may be a ``torch.Stream``. The end of the
    block releases what hangs. A device that was lost stays lost until ``reset``.
    """

    def __init__(self, rules: Sequence[Mapping[str, Any]]) -> None:
        _fault_rules.check_list(rules)
        self._rules = [_with_stream_number(rule) for rule in rules]
        self._set: int | None = None
        self._counts: list[FaultCounts] = []

    def __enter__(self) -> Self:
        if self._set is not None:
            raise RuntimeError("this faults block is already active; make another one")
        self._set = _add(self._rules)
        return self

    def __exit__(self, *exception: object) -> None:
        self._counts = self.counts()
        added, self._set = self._set, None
        if added is not None:
            _C.remove_faults(added)

    def counts(self) -> list[FaultCounts]:
        """The counts of each rule; after the block, those at its end. A rule of another process has none."""
        if self._set is None:
            return self._counts
        return [FaultCounts(*counts) for counts in _C.fault_counts(self._set)]

    def release(self) -> None:
        """Continues everything that hangs by rules that have fired so far, in this block and in others."""
        _C.release_faults(False)


def release_hangs() -> None:
    """Continues everything that hangs by fault rules that have fired so far. For rules of ``OPENREG_FAULTS``."""
    _C.release_faults(False)


def reset(device: DeviceLike = None) -> None:
    """Ends the loss of a device by a fault rule. Its memory and streams are as before the loss."""
    _C.restore_device(index_of(device))


def apply_environment() -> None:
    """Applies the rules of the environment variable, at the load of the device. Raises a ValueError."""
    rules = _fault_rules.of_environment(FAULTS)
    added = None
    if rules:
        try:
            added = _add(rules)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"{FAULTS}: {error}") from error
    if os.environ.get(SWEEP):
        from torch_openreg.sweep import child

        child.start(os.environ[SWEEP], added, [rule["call"] for rule in rules])


_registered = False


def _add(rules: list[dict[str, Any]]) -> int:
    """Adds the rules and returns the number of their set."""
    global _registered
    added = _C.add_faults(_fault_rules.as_fields(rules))
    if not _registered:
        _registered = True
        at_end_of_main_thread(_C.release_faults, True)
    return added


def _with_stream_number(rule: Mapping[str, Any]) -> dict[str, Any]:
    stream = rule.get("stream")
    if not isinstance(stream, torch.Stream):
        return dict(rule)
    return {
        **rule,
        "stream": _C.stream_number(stream.stream_id, stream.device_index),
        "device": stream.device_index,
    }
