"""Soak test of tensors shared between processes: ``ipc(seconds, seed)``.

Sends tensors of random sizes to another process and receives others, with checksums. Both processes keep some
tensors for a while, and sometimes the other process is killed. At the end no memory or file may be leaked.
"""

import gc
import os
import random
import time
from typing import Any

import peer
import torch


def check(kept: dict, tensor: torch.Tensor, number: int, keep_as: int | None) -> tuple[float, torch.Tensor]:
    """Returns the sum of the received tensor, and a new tensor. Modifies the received tensor."""
    total = tensor.double().sum().item()
    tensor.add_(1)
    if keep_as is not None:
        kept[keep_as] = tensor
    answer = torch.full((tensor.numel() // 2 + 1,), float(number), device="openreg")
    torch.openreg.synchronize()
    return total, answer


def sum_of_kept(kept: dict) -> float:
    total = sum(t.double().sum().item() for t in kept.values())
    kept.clear()
    torch.openreg.synchronize()
    return total


def ipc(seconds: float, seed: int, alone: bool = True) -> dict[str, Any]:
    """Runs for that time and returns counters. Raises on wrong data or a leak.

    ``alone``: nothing else uses the device or opens files meanwhile, so leaks can be detected.
    """
    chance = random.Random(seed)
    other = peer.Peer()  # what the first process opens once is not a leak
    other.ask(check, torch.ones(4, device="openreg"), 0, None)
    gc.collect()
    torch.openreg.ipc_collect()
    torch.openreg.synchronize()
    before = torch.accelerator.memory_allocated()
    files = len(os.listdir("/proc/self/fd"))
    done = {"tensors": 0, "bytes": 0, "kills": 0}
    end = time.monotonic() + seconds
    expected, here = 0.0, []
    while time.monotonic() < end:
        size = int(2 ** chance.uniform(0, 18))
        value = chance.randrange(100)
        tensor = torch.full((size,), float(value), device="openreg")
        keep_as = done["tensors"] if chance.random() < 0.3 else None
        total, answer = other.ask(check, tensor, value, keep_as)
        assert total == size * value, (total, size, value)
        assert tensor.sum(dtype=torch.float64).item() == size * (value + 1)
        assert answer.sum(dtype=torch.float64).item() == value * (size // 2 + 1)
        if keep_as is not None:
            expected += size * (value + 1)
        if chance.random() < 0.2:
            here.append((answer, value))
        del tensor, answer
        done["tensors"] += 2
        done["bytes"] += 6 * size
        action = chance.random()
        if action < 0.05:
            assert other.ask(sum_of_kept) == expected
            expected = 0.0
        elif action < 0.08:
            for kept, number in here:
                assert bool((kept == number).all())
            here.clear()
        elif action < 0.085:
            other.kill()
            other.close()
            done["kills"] += 1
            for kept, number in here:  # tensors of a killed process stay valid here
                assert bool((kept == number).all())
            other, expected = peer.Peer(), 0.0
    assert other.ask(sum_of_kept) == expected
    kept = here = None
    gc.collect()
    torch.openreg.synchronize()
    other.stop()
    other.close()
    torch.openreg.ipc_collect()
    torch.openreg.synchronize()
    if not alone:
        return done
    left = torch.accelerator.memory_allocated() - before
    assert left == 0, f"{left} bytes of device memory are leaked"
    more = len(os.listdir("/proc/self/fd")) - files
    assert more <= 0, f"{more} file descriptors are leaked"
    return done


if __name__ == "__main__":
    import sys

    print(ipc(float(sys.argv[1]), int(sys.argv[2])))
