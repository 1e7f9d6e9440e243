"""Compares the device with the CPU, one compute thread each: `make bench`.

Absolute times depend mostly on the machine. So each row is measured in alternating rounds on the CPU and the
device, and the ratio is that of the best rounds. The last columns are counts per call: operators launched,
launch cache hits, synchronizations of the host.
"""

import argparse
import json
import time
from collections.abc import Callable

import torch
from cases import CASES, Case


def accelerator() -> torch.device:
    device = torch.accelerator.current_accelerator()
    if device is None:
        raise SystemExit("torch found no accelerator: run `python -m torch_openreg doctor`")
    return device


def one_round(body: Callable[[], object], wait: Callable[[], object], count: int) -> float:
    """Mean seconds per call of ``body``."""
    wait()
    start = time.perf_counter()
    for _ in range(count):
        body()
    wait()
    return (time.perf_counter() - start) / count


def measure(case: Case, device: str, rounds: int) -> tuple[float, float]:
    """Best seconds on the CPU and on the device."""
    sides = [
        (case.make(torch.device("cpu")), lambda: None),
        (case.make(torch.device(device)), torch.accelerator.synchronize),
    ]
    for body, wait in sides:
        one_round(body, wait, max(3, case.count // 10))
    best = [float("inf"), float("inf")]
    for _ in range(rounds):
        for side, (body, wait) in enumerate(sides):
            best[side] = min(best[side], one_round(body, wait, case.count))
    return best[0], best[1]


def counts_per_call(case: Case, device: str) -> dict[str, float]:
    """Operator counts of one call on the device, after the first calls."""
    body = case.make(torch.device(device))
    one_round(body, torch.accelerator.synchronize, 3)
    before = torch.openreg.operator_totals()
    one_round(body, torch.accelerator.synchronize, 10)
    after = torch.openreg.operator_totals()
    return {
        name: (getattr(after, name) - getattr(before, name)) / 10
        for name in ("launches", "cache_hits", "waits")
    }


def format_time(seconds: float) -> str:
    return f"{seconds * 1e6:9.2f} us" if seconds < 1e-3 else f"{seconds * 1e3:9.2f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", help="only rows whose name contains this text")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--check", action="store_true", help="exit with status 1 if a row exceeds its limit")
    options = parser.parse_args()

    torch.set_num_threads(1)
    device = accelerator()
    rows = []
    if not options.json:
        counted = f"{'launches':>9} {'hits':>6} {'waits':>6}"
        print(f"{'':34} {'CPU':>12} {device.type:>12} {'ratio':>7} {'limit':>7} {counted}")
    for case in CASES:
        if options.only and options.only not in case.name:
            continue
        cpu, ours = measure(case, device.type, options.rounds)
        counts = counts_per_call(case, device.type)
        row = {"name": case.name, "cpu": cpu, "device": ours, "ratio": ours / cpu, "limit": case.limit}
        rows.append(row | counts)
        if not options.json:
            limit = "" if case.limit is None else f"{case.limit:.2f}"
            times = f"{format_time(cpu)} {format_time(ours)} {ours / cpu:7.2f} {limit:>7}"
            counted = f"{counts['launches']:9g} {counts['cache_hits']:6g} {counts['waits']:6g}"
            print(f"{case.name:34} {times} {counted}", flush=True)
    if options.json:
        print(json.dumps(rows, indent=1))
    if options.check and any(row["limit"] is not None and row["ratio"] > row["limit"] for row in rows):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
