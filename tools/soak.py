"""Soak test: threads, streams, allocations, copies, graphs and training at the same time, with checks.

At the same time, other processes share tensors and are killed at random.

    python tools/soak.py --minutes 30

Each actor is a function that does a bounded amount of work on the streams of its thread and raises if a result
is wrong. Threads call random actors, from a seed, until the time is over. At the end, no more memory may be in
use than at the start, reserved memory and the process may not have grown since the first tenth of the time, and
no thread may remain. To add an actor, write a function and add it to ACTORS.
"""

import argparse
import contextlib
import gc
import random
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch

DEVICE = torch.accelerator.current_accelerator()
MODULE = torch.get_device_module(DEVICE)
SHARING = Path(__file__).resolve().parent.parent / "tests" / "support" / "soak_process.py"


@dataclass
class Thread:
    """State of one thread for the actors: random numbers from a seed, streams, tensors that are kept between calls."""

    seed: int
    numbers: random.Random = field(init=False)
    streams: list[torch.Stream] = field(init=False)
    kept: list[tuple[torch.Tensor, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.numbers = random.Random(self.seed)
        self.streams = [
            MODULE.Stream(device=index, priority=-self.numbers.randrange(4))
            for index in range(MODULE.device_count())
            for _ in range(3)
        ]

    def stream(self) -> torch.Stream:
        return self.numbers.choice(self.streams)

    @contextlib.contextmanager
    def on_a_stream(self) -> Iterator[torch.Stream]:
        stream = self.stream()
        with MODULE.stream(stream):
            yield stream


def expect(found: float, expected: float, what: str) -> None:
    if found != expected:
        raise AssertionError(f"{what}: found {found}, expected {expected}")


# ---- Actors


def allocations(thread: Thread) -> None:
    """Blocks of many sizes are kept for a while and must keep their contents."""
    for _ in range(20):
        with thread.on_a_stream() as stream:
            size = int(10 ** thread.numbers.uniform(0, 6))
            number = float(thread.numbers.randrange(100))
            block = torch.full((size,), number, device=stream.device)
        stream.synchronize()
        thread.kept.append((block, number))
        while len(thread.kept) > 20:
            block, number = thread.kept.pop(thread.numbers.randrange(len(thread.kept)))
            with MODULE.stream(thread.stream()):
                expect(block.min().item(), number, "smallest value of a block")
                expect(block.max().item(), number, "largest value of a block")


def cross_stream_use(thread: Thread) -> None:
    """One stream writes, another reads, and the tensor is freed before the read completes."""
    first, second = (thread.numbers.choice(thread.streams) for _ in range(2))
    with MODULE.stream(first):
        made = torch.arange(10_000, device=first.device, dtype=torch.float64)
        for _ in range(3):
            made = made + 1
    second.wait_event(first.record_event())
    with MODULE.stream(second):
        made.record_stream(second)
        read = made.to(second.device) if first.device != second.device else made * 1
        total = read.sum()
        del made, read
    with MODULE.stream(first):
        # Overwrites the tensor if its memory is reused too early.
        torch.full((10_000,), -1.0, device=first.device, dtype=torch.float64)
    with MODULE.stream(second):
        expect(total.item(), 10_000 * 9_999 / 2 + 30_000, "sum computed on another stream")


def pinned_copies(thread: Thread) -> None:
    """Non-blocking copies to the device and back; the pinned source is freed right after the call."""
    results = []
    for _ in range(5):
        with thread.on_a_stream() as stream:
            number, size = float(thread.numbers.randrange(50)), thread.numbers.randrange(1, 50_000)
            source = torch.full((size,), number).pin_memory()
            there = source.to(stream.device, non_blocking=True)
            del source
            back = torch.empty(size, dtype=torch.float64, pin_memory=True)
            back.copy_(there + 1, non_blocking=True)
            results.append((stream.record_event(), back, number + 1))
    for event, back, number in results:
        event.synchronize()
        expect(back.min().item(), number, "value copied to the device and back")
        expect(back.max().item(), number, "value copied to the device and back")


def training(thread: Thread) -> None:
    """Two training steps with the same seed have the same result."""
    losses = []
    seed = thread.numbers.randrange(1 << 30)
    stream = thread.stream()
    for _ in range(2):
        with MODULE.stream(stream):
            generator = torch.Generator(stream.device).manual_seed(seed)
            weight = torch.randn(16, 16, device=stream.device, generator=generator, requires_grad=True)
            data = torch.randn(8, 16, device=stream.device, generator=generator)
            loss = (data @ weight).tanh().square().mean()
            loss.backward()
            losses.append((loss - 0.1 * weight.grad.square().sum()).item())
    expect(losses[0], losses[1], "result of a repeated step")


def synchronizations(thread: Thread) -> None:
    """Operators that synchronize: outputs with data-dependent sizes, and `item()`."""
    with thread.on_a_stream() as stream:
        size = thread.numbers.randrange(1, 5_000)
        mask = torch.arange(size, device=stream.device) % 3 == 0
        expect(mask.nonzero().numel(), (size + 2) // 3, "number of selected elements")
        expect(mask.sum().item(), (size + 2) // 3, "number of selected elements")


# Held by captures and by calls that synchronize a device, which fail while any stream of it is captured.
device_lock = threading.Lock()


def graphs(thread: Thread) -> None:
    """Captures work once and replays it with new inputs; another stream reads the result."""
    if thread.numbers.random() > 0.3:
        return
    stream, other = thread.stream(), thread.stream()
    with MODULE.stream(stream):
        data = torch.zeros(1000, device=stream.device)
        (data * 2 + 1).cumsum(0)  # first call of the operators, outside of the capture
        stream.synchronize()
        graph = torch.accelerator.Graph(capture_error_mode="thread_local")
        with device_lock:
            graph.capture_begin()
            result = (data * 2 + 1).cumsum(0)
            graph.capture_end()
        for number in range(3):
            data.fill_(number)
            graph.replay()
        if other.device == stream.device:
            other.wait_event(stream.record_event())
            stream = other
    with MODULE.stream(stream):
        expect(result[-1].item(), 5000, "result of a graph")
    graph.reset()


def empty_caches(thread: Thread) -> None:
    """Empties the caches while other threads use them. Rare, because it synchronizes all streams."""
    if thread.numbers.random() < 0.1:
        with device_lock:
            MODULE.empty_cache()
            MODULE.empty_host_cache()


def out_of_memory(thread: Thread) -> None:
    """An allocation that is too large raises OutOfMemoryError and does not affect other threads."""
    if thread.numbers.random() < 0.05:
        try:
            with device_lock:
                torch.empty(1 << 50, dtype=torch.uint8, device=thread.stream().device)
        except torch.OutOfMemoryError:
            return
        raise AssertionError("an allocation of 1 PiB succeeded")


ACTORS: list[Callable[[Thread], None]] = [
    allocations,
    cross_stream_use,
    pinned_copies,
    training,
    synchronizations,
    graphs,
    empty_caches,
    out_of_memory,
]

# ---- The run


def in_use() -> int:
    return sum(MODULE.memory_allocated(index) for index in range(MODULE.device_count()))


def peak_reserved() -> int:
    peaks = [MODULE.max_memory_reserved(index) for index in range(MODULE.device_count())]
    for index in range(MODULE.device_count()):
        MODULE.reset_peak_memory_stats(index)
    return sum(peaks)


def resident() -> int:
    """Private dirty bytes of this process. Includes device memory that no other process maps."""
    with open("/proc/self/smaps_rollup") as file:
        rows = dict(line.split(":", 1) for line in file if ":" in line)
    return int(rows["Private_Dirty"].split()[0]) * 1024


def settle() -> None:
    """Frees unreferenced memory, and synchronizes."""
    gc.collect()
    for index in range(MODULE.device_count()):
        MODULE.synchronize(index)
    MODULE.empty_cache()


class Soak:
    def __init__(self, seconds: float, threads: int, seed: int) -> None:
        self.end = 0.0
        self.seconds, self.seed = seconds, seed
        self.counts: Counter[str] = Counter()
        self.failure = ""
        self.lock = threading.Lock()  # guards counts and failure
        self.threads = [threading.Thread(target=self.work, args=(number,)) for number in range(threads)]

    def work(self, number: int) -> None:
        thread = Thread(self.seed * 1000 + number)
        counts: Counter[str] = Counter()
        try:
            while time.monotonic() < self.end and not self.failure:
                actor = thread.numbers.choice(ACTORS)
                actor(thread)
                counts[actor.__name__] += 1
        except BaseException:
            with self.lock:
                self.failure = (
                    self.failure or f"in {actor.__name__}, thread {number}:\n{traceback.format_exc()}"
                )
        with self.lock:
            self.counts += counts

    def run(self) -> str:
        """Returns an empty string, or a description of the failure."""
        for actor in ACTORS:  # warm-up: the memory of first calls is not counted
            try:
                actor(Thread(self.seed))
            except Exception:
                return f"in {actor.__name__}, on a single thread:\n{traceback.format_exc()}"
        settle()
        before, threads = in_use(), threading.active_count()
        peak_reserved()
        self.end = time.monotonic() + self.seconds
        for thread in self.threads:
            thread.start()
        time.sleep(self.seconds / 10)
        early, early_resident = peak_reserved(), resident()
        for thread in self.threads:
            thread.join()
        late, late_resident = peak_reserved(), resident()
        if self.failure:
            return self.failure
        settle()
        print(f"reserved at most {early >> 20} MiB early, {late >> 20} MiB later; ", end="")
        print(f"the process had {early_resident >> 20} MiB early, {late_resident >> 20} MiB at the end")
        if in_use() != before:
            return f"{in_use() - before} bytes of device memory were lost"
        if late > 2 * early + (64 << 20):
            return f"reserved memory grew from {early} to {late} bytes"
        if late_resident > 1.5 * early_resident + (256 << 20):
            return f"the process grew from {early_resident} to {late_resident} bytes"
        if threading.active_count() != threads:
            return "threads are still running"
        idle = [actor.__name__ for actor in ACTORS if not self.counts[actor.__name__]]
        return f"actors that never ran, because the time was too short: {', '.join(idle)}" if idle else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--threads", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    sharing = subprocess.Popen(
        [sys.executable, str(SHARING), str(arguments.minutes * 60), str(arguments.seed)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    soak = Soak(arguments.minutes * 60, arguments.threads, arguments.seed)
    failure = soak.run()
    shared = sharing.communicate()[0].strip()
    print(f"between processes: {shared.splitlines()[-1] if shared else 'no output'}")
    if sharing.returncode != 0:
        failure = f"{failure}\nbetween processes:\n{shared}"
    print(", ".join(f"{name} {count}" for name, count in sorted(soak.counts.items())))
    print(failure or "passed")
    return 1 if failure else 0


if __name__ == "__main__":
    sys.exit(main())
