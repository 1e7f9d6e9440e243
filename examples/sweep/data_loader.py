"""A DataLoader with workers and pinned memory. A program for ``python -m torch_openreg sweep``."""

import recovery
import torch
from torch.utils.data import DataLoader, TensorDataset

DEVICE = torch.accelerator.current_accelerator()


def load() -> str:
    data = TensorDataset(torch.arange(64.0).view(16, 4), torch.arange(16))
    loader = DataLoader(
        data, batch_size=4, num_workers=2, pin_memory=True, multiprocessing_context="forkserver", timeout=60
    )
    results = []
    for batch, index in loader:
        x = batch.to(DEVICE, non_blocking=True)
        weight = index.to(DEVICE, non_blocking=True).unsqueeze(1)
        results.append((x * weight).sum(1))
    return recovery.digest(results)


if __name__ == "__main__":
    torch.set_num_threads(1)
    recovery.run(load)
