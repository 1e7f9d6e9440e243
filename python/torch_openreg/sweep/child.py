"""The part of a sweep inside the program: writes counts of calls and memory at the end of the process.

The folder of the run is in the environment, so every process of the program writes its own file.
"""

import atexit
import contextlib
import faulthandler
import gc
import json
import multiprocessing
import os
import signal
import sys
from pathlib import Path
from typing import Any

FIRED = "fired.log"


def start(folder: str, rules: int | None, names: list[str]) -> None:
    """``rules``: the set of the fault rules of this process, for the calls ``names``."""
    from torch_openreg import _C

    _C.open_fault_log(os.path.join(folder, FIRED))
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    # Registered before the program's own functions, so it runs after them.
    atexit.register(_finish, Path(folder), os.getpid(), rules, names)


def _finish(folder: Path, process: int, rules: int | None, names: list[str]) -> None:
    if os.getpid() != process:  # a forked child
        return
    from torch_openreg import _C

    counts = [] if rules is None else [matched for matched, _ in _C.fault_counts(rules)]
    if rules is not None:
        _C.remove_faults(rules)
    report = {
        "process": multiprocessing.current_process().name,
        "counts": {name: count for name, count in zip(names, counts, strict=False) if count},
        **_allocated_memory(),
    }
    (folder / f"{process}.json").write_text(json.dumps(report))


def _allocated_memory() -> dict[str, Any]:
    """Bytes that are allocated although the program's variables and the last exception are gone."""
    import torch

    from torch_openreg import openreg

    for name in ("last_exc", "last_type", "last_value", "last_traceback"):
        if hasattr(sys, name):
            delattr(sys, name)
    if "__main__" in sys.modules:
        for name in [name for name in vars(sys.modules["__main__"]) if not name.startswith("__")]:
            del vars(sys.modules["__main__"])[name]
    gc.collect()
    if not openreg.is_initialized():
        return {"device": 0, "pinned": 0}
    for index in range(openreg.device_count()):
        openreg.reset(index)  # memory of a lost device returns after its reset
        with contextlib.suppress(torch.AcceleratorError):  # an error that the program has not waited for
            openreg.synchronize(index)
    openreg.empty_host_cache()  # freed pinned memory counts as active until its events are queried
    return {
        "device": sum(openreg.memory_allocated(index) for index in range(openreg.device_count())),
        "pinned": openreg.host_memory_stats().get("active_bytes.current", 0),
    }
