"""Compares collectives of device tensors with Gloo on CPU tensors, 2 ranks: `make bench-distributed`.

Both are measured in alternating rounds of the same processes, and the ratio is that of the best rounds.
"""

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

MEGABYTE = 1 << 20
LIMITS = {
    "all_reduce, 4 bytes": 1.5,
    "all_reduce, 64 MB": 1.05,
    "all_gather, 64 MB": 0.5,
    "reduce_scatter, 64 MB": 0.5,
    "DDP step of an MLP": 1.0,
}
HOST_LIMIT = 50e-6  # seconds of an asynchronous call

Body = Callable[[], object]


def collective(name: str, device: str, size: int) -> Body:
    numbers = size // 4
    world = dist.get_world_size()
    whole = torch.ones(numbers, device=device)
    part = torch.ones(max(numbers // world, 1), device=device)
    calls = {
        "all_reduce": lambda: dist.all_reduce(whole),
        "all_gather": lambda: dist.all_gather_into_tensor(whole, part),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole),
        "broadcast": lambda: dist.broadcast(whole, 0),
        "all_to_all": lambda: dist.all_to_all_single(whole, whole.clone()),
    }
    return calls[name]


def ddp_step(device: str) -> Body:
    torch.manual_seed(0)
    layers = [torch.nn.Linear(512, 512), torch.nn.ReLU()] * 4
    model = DistributedDataParallel(torch.nn.Sequential(*layers).to(device))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    batch = torch.randn(64, 512, device=device)

    def step() -> None:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    return step


def one_round(body: Body, count: int) -> float:
    dist.barrier()
    start = time.perf_counter()
    for _ in range(count):
        body()
        torch.openreg.synchronize()
    return (time.perf_counter() - start) / count


def compare(make: Callable[[str], Body], count: int, rounds: int) -> tuple[float, float]:
    """Best seconds of a call with CPU tensors and with device tensors."""
    bodies = [make("cpu"), make("openreg")]
    best = [float("inf"), float("inf")]
    for number in range(rounds + 1):
        for side, body in enumerate(bodies):
            seconds = one_round(body, count)
            if number > 0:  # the first round is a warm-up
                best[side] = min(best[side], seconds)
    return best[0], best[1]


def host_time(count: int) -> float:
    """Best seconds of an asynchronous call, without its execution."""
    tensor = torch.ones(1024, device="openreg")
    best = float("inf")
    for _ in range(count):
        dist.barrier()
        start = time.perf_counter()
        work = dist.all_reduce(tensor, async_op=True)
        best = min(best, time.perf_counter() - start)
        work.wait()
        torch.openreg.synchronize()
    return best


def measure(rank: int, store: str, rounds: int, pipe: object) -> None:
    torch.set_num_threads(1)
    torch.openreg.set_device(rank)
    dist.init_process_group("cpu:gloo,openreg:occl", init_method=f"file://{store}", rank=rank, world_size=2)
    rows = {}
    for name, size, count in (
        ("all_reduce", 4, 30),
        ("all_reduce", 64 * MEGABYTE, 2),
        ("all_gather", 64 * MEGABYTE, 2),
        ("reduce_scatter", 64 * MEGABYTE, 2),
        ("broadcast", 64 * MEGABYTE, 2),
        ("all_to_all", 64 * MEGABYTE, 2),
    ):
        label = f"{name}, {size} bytes" if size < MEGABYTE else f"{name}, {size // MEGABYTE} MB"
        rows[label] = compare(
            lambda device, name=name, size=size: collective(name, device, size),
            count,
            rounds * (6 if size < MEGABYTE else 1),
        )
    rows["DDP step of an MLP"] = compare(ddp_step, 20, rounds)
    host = host_time(200)
    dist.destroy_process_group()
    if rank == 0:
        pipe.send((rows, host))  # type: ignore[attr-defined]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--check", action="store_true", help="exit with 1 if a row is above its limit")
    parser.add_argument("--json", action="store_true", help="print the seconds as JSON")
    options = parser.parse_args()
    os.environ.setdefault("OPENREG_AUTOLOAD", "1")
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "store")
        processes = [
            context.Process(target=measure, args=(rank, store, options.rounds, theirs)) for rank in range(2)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
    if not mine.poll():
        return 1
    rows, host = mine.recv()
    if options.json:
        print(json.dumps({"rows": rows, "host": host}))
        return 0
    late = []
    print(
        "| 2 ranks | Gloo, CPU tensors | occl, device tensors | ratio | limit |\n| --- | ---: | ---: | ---: | ---: |"
    )
    for label, (cpu, device) in rows.items():
        limit = LIMITS.get(label)
        if limit is not None and device / cpu > limit:
            late.append(label)
        print(
            f"| {label} | {cpu * 1e3:.3f} ms | {device * 1e3:.3f} ms | {device / cpu:.2f} | {limit or ''} |"
        )
    print(
        f"| host time of an asynchronous all_reduce | | {host * 1e6:.0f} us | | {HOST_LIMIT * 1e6:.0f} us |"
    )
    if host > HOST_LIMIT:
        late.append("host time")
    if late:
        print("above the limit: " + ", ".join(late))
    return 1 if late and options.check else 0


if __name__ == "__main__":
    raise SystemExit(main())
