"""Fault rules as JSON: parsing and checks. Does not import torch.

A rule is an object. ``call`` and ``action`` are required; see docs/guide/finding_bugs.md::

    {"call": "orMalloc", "nth": 3, "action": "out_of_memory"}
    {"call": "orMemcpy*", "device": 0, "probability": 0.1, "seed": 7, "action": "corrupt_copy"}
"""

import difflib
import fnmatch
import json
import multiprocessing
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

MOST = 2**64 - 1
MOST_SECONDS = 1e9


class Action(NamedTuple):
    code: int  # orFaultAction
    parameters: tuple[str, ...] = ()  # keys that only rules with this action have
    required: tuple[str, ...] = ()


ACTIONS = {
    "count": Action(0),
    "error": Action(1, ("code", "message"), ("code",)),
    "out_of_memory": Action(1, ("message",)),
    "delay": Action(2, ("seconds",), ("seconds",)),
    "hang": Action(3),
    "kernel_failure": Action(4, ("message",)),
    "corrupt_copy": Action(5, ("bit",)),
    "lose_device": Action(6),
}
OUT_OF_MEMORY = "orErrorOutOfMemory"

# Keys of all rules, with their types.
SELECTORS: dict[str, tuple[type, ...]] = {
    "call": (str,),
    "device": (int,),
    "stream": (int,),
    "kernel": (str,),
    "min_size": (int,),
    "max_size": (int,),
    "nth": (int,),
    "every": (int,),
    "times": (int,),
    "probability": (int, float),
    "seed": (int,),
    "process": (str,),
    "action": (str,),
}
PARAMETERS: dict[str, tuple[type, ...]] = {
    "code": (str,),
    "message": (str,),
    "seconds": (int, float),
    "bit": (int,),
}

# In the order of the fields of orFaultRule after struct_size.
Fields = tuple[
    int, int, str, str | None, int, int, int, int, int, float, int, int, str, int, str | None, int
]  # fmt: skip


def read(setting: str) -> list[dict[str, Any]]:
    """The rules of a setting: JSON, or the path of a file with JSON. Raises a ValueError."""
    text = setting.strip()
    if not text.startswith(("[", "{")):
        try:
            with open(text, encoding="utf-8") as file:
                text = file.read()
        except OSError as error:
            raise ValueError(
                f"{text!r} is neither JSON nor a file that can be read ({error.strerror})"
            ) from None
    try:
        rules = json.loads(text)
    except ValueError as error:
        raise ValueError(f"this is not JSON ({error})") from None
    rules = [rules] if isinstance(rules, dict) else rules
    try:
        check_list(rules)
    except TypeError as error:
        raise ValueError(str(error)) from None
    return rules


def check_list(rules: object) -> None:
    """Raises a TypeError unless the rules are a sequence of objects."""
    if (
        not isinstance(rules, Sequence)
        or isinstance(rules, str)
        or not all(isinstance(rule, Mapping) for rule in rules)
    ):
        raise TypeError(
            "expected a list of objects, such as [{'call': 'orMalloc', 'action': 'out_of_memory'}]"
        )


def as_fields(rules: Iterable[Mapping[str, Any]]) -> list[Fields]:
    """Checks the rules and converts those of this process. Raises a ValueError or TypeError with the index of the rule."""
    fields = []
    for index, rule in enumerate(rules):
        try:
            converted = _convert(rule)
        except (TypeError, ValueError) as error:
            raise type(error)(f"fault rule {index}: {error}") from None
        if _is_of_this_process(rule):
            fields.append(converted)
    return fields


def _convert(rule: Mapping[str, Any]) -> Fields:
    name = rule.get("action")
    if name is None:
        raise ValueError(f"'action' is missing: one of {', '.join(ACTIONS)}")
    if name not in ACTIONS:
        raise ValueError(f"unknown action {name!r}: expected one of {', '.join(ACTIONS)}")
    action = ACTIONS[name]
    _check_keys(rule, name, action)
    unsigned = {key: rule.get(key, 0) for key in ("min_size", "nth", "every", "times", "seed")}
    for key, value in unsigned.items():
        if not 0 <= value <= MOST:
            raise ValueError(f"{key!r} is {value}: expected 0 to 2**64 - 1")
    for key in ("nth", "every"):
        if rule.get(key) == 0:
            raise ValueError(f"{key!r} is 0: calls are counted from 1")
    for key in ("device", "stream", "bit", "seconds", "max_size"):
        if rule.get(key, 0) < 0:
            raise ValueError(f"{key!r} is {rule[key]}: expected a number that is not negative")
    if not rule.get("seconds", 0) <= MOST_SECONDS:
        raise ValueError(
            f"'seconds' is {rule['seconds']}: expected 0 to {MOST_SECONDS:g}; to wait for ever: hang"
        )
    code = OUT_OF_MEMORY if name == "out_of_memory" else rule.get("code", "")
    return (
        rule.get("device", -1),
        rule.get("stream", -1),
        rule["call"],
        rule.get("kernel"),
        unsigned["min_size"],
        rule.get("max_size", MOST),
        unsigned["nth"],
        unsigned["every"],
        unsigned["times"],
        float(rule.get("probability", 1.0)),
        unsigned["seed"],
        action.code,
        code,
        round(rule.get("seconds", 0) * 1e9),
        rule.get("message"),
        rule.get("bit", -1),
    )


def _check_keys(rule: Mapping[str, Any], name: str, action: Action) -> None:
    if "call" not in rule:
        raise ValueError(
            "'call' is missing: the name of a function of the runtime, or a pattern such as 'orMemcpy*'"
        )
    for key, value in rule.items():
        types = SELECTORS.get(key) or PARAMETERS.get(key)
        if types is None:
            close = difflib.get_close_matches(str(key), [*SELECTORS, *PARAMETERS], 1)
            raise ValueError(f"unknown key {key!r}" + (f": did you mean {close[0]!r}?" if close else ""))
        if key in PARAMETERS and key not in action.parameters:
            raise ValueError(f"{key!r} is not a key of the action {name!r}")
        if not isinstance(value, types) or isinstance(value, bool):
            raise TypeError(f"{key!r} is {value!r}: expected {' or '.join(one.__name__ for one in types)}")
    for key in action.required:
        if key not in rule:
            raise ValueError(f"the action {name!r} needs {key!r}")


def _is_of_this_process(rule: Mapping[str, Any]) -> bool:
    return fnmatch.fnmatchcase(multiprocessing.current_process().name, rule.get("process", "*"))


def of_environment(variable: str) -> list[dict[str, Any]]:
    """The rules of an environment variable; a ValueError names it."""
    setting = os.environ.get(variable, "")
    if not setting.strip():
        return []
    try:
        return read(setting)
    except ValueError as error:
        raise ValueError(f"{variable}: {error}") from None
