"""A second process for a test: calls functions on request, one at a time, and keeps objects between calls.

Starting one imports torch, so tests share one where possible.
"""

import os
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.multiprocessing as mp


class Peer:
    def __init__(self, method: str = "spawn") -> None:
        self.context = mp.get_context(method)
        self.connection, there = self.context.Pipe()
        self.process = self.context.Process(target=_serve, args=(there,), daemon=True)
        self.process.start()
        there.close()

    def begin(self, function: Any, *arguments: Any) -> None:
        """Starts ``function(kept, *arguments)`` in the other process; ``kept`` is a dict of that process."""
        self.connection.send((function, arguments))

    def end(self) -> Any:
        """Returns the function's result. Its exception is raised here as a RuntimeError with the name of its type."""
        assert self.connection.poll(60), "timeout: no result from the other process"
        worked, value = self.connection.recv()
        if not worked:
            raise RuntimeError(value)
        return value

    def ask(self, function: Any, *arguments: Any) -> Any:
        self.begin(function, *arguments)
        return self.end()

    def kill(self) -> None:
        self.process.kill()
        self.process.join()

    def close(self) -> None:
        """Closes the file descriptors of an ended process."""
        self.connection.close()
        self.process.close()

    def stop(self) -> None:
        if self.process.is_alive():
            self.connection.send(None)
            self.process.join(60)
        assert self.process.exitcode is not None


def _serve(connection: Connection) -> None:
    kept: dict[str, Any] = {}
    while True:
        try:
            request = connection.recv()
        except EOFError:
            os._exit(3)  # the test process has ended
        except Exception as error:  # the request could not be unpickled
            connection.send((False, f"{type(error).__name__}: {error}"))
            continue
        if request is None:
            return
        function, arguments = request
        try:
            answer = True, function(kept, *arguments)
        except Exception as error:
            answer = False, f"{type(error).__name__}: {error}"
        del request, arguments
        try:
            connection.send(answer)
        except Exception as error:  # the result could not be pickled
            connection.send((False, f"{type(error).__name__}: {error}"))
        del answer


# ---- Functions to call in the other process


def keep(kept: dict, value: Any) -> None:
    kept["value"] = value


def drop(kept: dict) -> None:
    kept.clear()
    torch.openreg.synchronize()


def add(kept: dict, tensor: torch.Tensor, number: float) -> None:
    tensor.add_(number)
    torch.openreg.synchronize(tensor.device)


def read(kept: dict) -> list:
    return kept["value"].tolist()


def make(kept: dict, *size: int, device: str = "openreg") -> torch.Tensor:
    kept["made"] = torch.full(size, 3.0, device=device)
    return kept["made"]


def made(kept: dict) -> list:
    return kept["made"].tolist()


def make_and_forget(kept: dict, *size: int) -> torch.Tensor:
    return torch.full(size, 4.0, device="openreg")


def describe(kept: dict, tensors: list[torch.Tensor]) -> list[tuple]:
    """Storage, data offset and properties of each tensor."""
    return [
        (
            t.untyped_storage()._cdata,
            t.data_ptr() - t.untyped_storage().data_ptr(),
            type(t).__name__,
            t.requires_grad,
            str(t.device),
            str(t.dtype),
            t.tolist() if t.layout == torch.strided else t.to_dense().tolist(),
        )
        for t in tensors
    ]


def weight(kept: dict) -> list:
    return kept["value"].weight.tolist()


def same_storage_as_kept(kept: dict, tensor: torch.Tensor) -> bool:
    return tensor.untyped_storage()._cdata == kept["value"].untyped_storage()._cdata


def call(kept: dict, name: str) -> Any:
    """Calls a method of the kept object."""
    return getattr(kept["value"], name)()


def send_back(kept: dict) -> torch.Tensor:
    return kept["value"]


def send_back_clone(kept: dict) -> torch.Tensor:
    return kept["value"].clone()


def begin_sum(kept: dict, tensor: torch.Tensor) -> bool:
    """Launches work on the received tensor. Returns whether it is already complete."""
    with torch.openreg.schedule("async"):
        kept["value"] = tensor.sum()
        return torch.openreg.current_stream().query()


def wait_and_read_later(kept: dict, event: torch.Event) -> bool:
    """Launches work that waits for the event. Returns whether it is already complete."""
    with torch.openreg.schedule("async"):
        event.wait()
        kept["value"] = torch.ones(3, device="openreg") * 2
        return torch.openreg.current_stream().query()


def is_done(kept: dict) -> bool:
    torch.openreg.synchronize()
    return kept["value"].tolist() == [2, 2, 2]


def query_made_event(kept: dict) -> bool:
    return kept["event"].query()


def double_what_comes(there: Any, back: Any) -> None:
    """Overwrites each received tensor, then sends back its value multiplied by two."""
    for tensor in iter(there.get, None):
        doubled = tensor * 2
        tensor.fill_(-1)
        torch.openreg.synchronize()  # the parent reads the tensor when it has the answer
        back.put(doubled)
        del tensor, doubled
    back.close()
    back.join_thread()


def rebuild(kept: dict, device: int, nbytes: int, handle: bytes, events: list) -> int:
    from torch_openreg.openreg.process import rebuild_storage

    return rebuild_storage(device, nbytes, handle, events).nbytes()


def add_faults(kept: dict, rules: list[dict]) -> None:
    kept["faults"] = torch.openreg.faults(rules)
    kept["faults"].__enter__()


def remove_faults(kept: dict) -> None:
    kept.pop("faults").__exit__(None, None, None)


def memory(kept: dict) -> tuple[int, int]:
    return torch.accelerator.memory_allocated(), torch.accelerator.get_memory_info()[0]


def record_busy(kept: dict, event: torch.Event) -> None:
    """Records an event after work that never completes."""
    from blocked_stream import block_forever

    torch.openreg.set_schedule("async")
    block_forever(torch.openreg.current_stream())
    event.record()
    kept["event"] = event


def make_event(kept: dict) -> torch.Event:
    kept["event"] = torch.openreg.Event(interprocess=True)
    return kept["event"]
