"""Which calls of a program fail, and how: one run for each."""

import fnmatch
import json
import random
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

FAILED = "orErrorSystem"  # of the class "operation failed"
OUT_OF_MEMORY = "orErrorOutOfMemory"
OUT_OF_HOST_MEMORY = "orErrorOutOfHostMemory"

# A plausible error of each function. Those with None do not reach the driver and have nothing that can fail.
CODES: dict[str, str | None] = {
    "orGetDeviceCount": None,
    "orGetDevice": None,
    "orSetDevice": None,
    "orGetDeviceProperties": None,
    "orDeviceIsOpen": None,
    "orDeviceSynchronize": FAILED,
    "orDeviceReset": FAILED,
    "orGetKernelViewOffset": None,
    "orMalloc": OUT_OF_MEMORY,
    "orFree": FAILED,
    "orMallocHost": OUT_OF_HOST_MEMORY,
    "orFreeHost": FAILED,
    "orHostRegister": OUT_OF_HOST_MEMORY,
    "orHostUnregister": FAILED,
    "orMemGetInfo": FAILED,
    "orPointerGetAttributes": None,
    "orMemcpy": FAILED,
    "orMemcpyAsync": FAILED,
    "orMemcpyPeer": FAILED,
    "orMemcpyPeerAsync": FAILED,
    "orMemset": FAILED,
    "orMemsetAsync": FAILED,
    "orStreamGetDefault": FAILED,
    "orStreamCreate": OUT_OF_HOST_MEMORY,
    "orStreamCreateWithPriority": OUT_OF_HOST_MEMORY,
    "orStreamDestroy": None,
    "orStreamQuery": FAILED,
    "orStreamGetPending": FAILED,
    "orStreamSynchronize": FAILED,
    "orStreamWaitEvent": FAILED,
    "orLaunchHostFunc": FAILED,
    "orLaunchKernel": FAILED,
    "orRunKernel": FAILED,
    "orKernelDefer": FAILED,
    "orKernelFinish": None,
    "orStreamGetDevice": None,
    "orStreamGetPriority": None,
    "orStreamGetId": None,
    "orSetSchedule": None,
    "orGetSchedule": None,
    "orEventCreate": OUT_OF_HOST_MEMORY,
    "orEventCreateWithFlags": OUT_OF_HOST_MEMORY,
    "orEventDestroy": None,
    "orEventRecord": FAILED,
    "orEventGetDevice": None,
    "orEventQuery": FAILED,
    "orEventSynchronize": FAILED,
    "orEventElapsedTime": FAILED,
    "orStreamBeginCapture": FAILED,
    "orStreamEndCapture": "orErrorCaptureInvalidated",
    "orStreamIsCapturing": None,
    "orStreamFollowsEvent": None,
    "orStreamCheckUncaptured": None,
    "orDeviceCheckUncaptured": None,
    "orGraphLaunch": FAILED,
    "orGraphDestroy": None,
    "orGraphGetNodeCount": None,
    "orGraphGetNode": None,
    "orIpcGetMemHandle": FAILED,
    "orIpcRetireMemHandle": FAILED,
    "orIpcOpenMemHandle": FAILED,
    "orIpcCloseMemHandle": FAILED,
    "orIpcCloseMemHandleAsync": FAILED,
    "orIpcGetEventHandle": FAILED,
    "orIpcOpenEventHandle": FAILED,
    "orTraceSubscribe": None,
    "orTraceUnsubscribe": None,
    "orModuleLoad": FAILED,
    "orModuleUnload": None,
    "orModuleGetFunction": FAILED,
    "orLaunchFunction": FAILED,
    "orStreamGetNativeHandle": None,
    "orDeviceGetNativeHandle": None,
}
# Functions that run work, which can fail later.
WORK = ("orMemcpy*", "orMemset*", "orLaunch*", "orRunKernel", "orGraphLaunch")
# Functions that work also if the device is lost.
WITHOUT_DEVICE = {
    *("orDeviceReset", "orMallocHost", "orFreeHost", "orHostRegister", "orHostUnregister", "orKernelDefer"),
    *("orIpcRetireMemHandle", "orIpcOpenMemHandle", "orIpcOpenEventHandle"),
}
ACTIONS = ("plausible", "kernel_failure", "lose_device")


class Case(NamedTuple):
    """One run: the ``nth`` call of a function in a process fails."""

    process: str | None  # None: the program has one process
    call: str
    nth: int
    action: str

    def rules(self) -> list[dict[str, Any]]:
        rule: dict[str, Any] = {"call": self.call, "nth": self.nth}
        if self.process is not None:
            rule["process"] = self.process
        if self.action == "plausible":
            return [{**rule, "action": "error", "code": CODES[self.call]}]
        return [{**rule, "action": self.action}]

    def setting(self) -> str:
        """The value of OPENREG_FAULTS that repeats it."""
        return json.dumps(self.rules(), separators=(",", ":"))


def counting_rules() -> list[dict[str, Any]]:
    return [{"call": call, "action": "count"} for call in CODES]


def cases(
    counts: Mapping[str, Mapping[str, int]], action: str, sample: int, seed: int, pattern: str = "*"
) -> list[Case]:
    """The runs for the counted calls (process, then function). ``sample``: at most so many of each function; 0: all."""
    one_process = len(counts) == 1
    found = []
    for process, calls in counts.items():
        for call, count in calls.items():
            if not can_fail(call, action) or not fnmatch.fnmatchcase(call, pattern):
                continue
            for nth in _sampled(count, sample, random.Random(f"{seed} {process} {call}")):
                found.append(Case(None if one_process else process, call, nth, action))
    return found


def can_fail(call: str, action: str) -> bool:
    if action == "kernel_failure":
        return any(fnmatch.fnmatchcase(call, name) for name in WORK)
    return CODES[call] is not None and not (action == "lose_device" and call in WITHOUT_DEVICE)


def _sampled(count: int, sample: int, draws: random.Random) -> Iterable[int]:
    """The first, the last, and random calls between them."""
    if not 0 < sample < count:
        return range(1, count + 1)
    if sample == 1:
        return [draws.randint(1, count)]
    between = draws.sample(range(2, count), sample - 2)
    return sorted([1, *between, count])
