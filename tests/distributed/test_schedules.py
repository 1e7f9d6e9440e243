"""Three groups, two streams and interleaved collectives: the same results under every seed of the adversarial schedule.

OPENREG_TEST_SEEDS sets the number of seeds.
"""

import os

import torch
import torch.distributed as dist

DEVICE = "openreg"
SEEDS = int(os.environ.get("OPENREG_TEST_SEEDS", "50"))


def interleaved(rank, world, groups):
    """Collectives of three groups on two streams. Each stream waits for results of the other."""
    side = torch.openreg.Stream()
    main = torch.openreg.current_stream()
    a = torch.full((3000,), float(rank + 1), device=DEVICE)
    b = torch.full((50_000,), float(rank + 2), device=DEVICE)
    gathered = torch.zeros(world * 3000, device=DEVICE)
    works = []
    for step in range(3):
        works.append(dist.all_reduce(a, group=groups[0], async_op=True))
        side.wait_stream(main)
        with torch.openreg.stream(side):
            b.mul_(2)
            works.append(dist.all_reduce(b, group=groups[1], async_op=True))
            received = torch.zeros(2000, device=DEVICE)
            works[-1].wait()
            peer = (rank + 1) % world
            works += [
                dist.isend(b[:2000] * 1, peer, group=groups[2], tag=step),
                dist.irecv(received, (rank - 1) % world, group=groups[2], tag=step),
            ]
            works[-1].wait()
            b[:2000] += received
        works[-4].wait()
        works.append(dist.all_gather_into_tensor(gathered, a, group=groups[2], async_op=True))
        main.wait_stream(side)
        works[-1].wait()
        a.add_(gathered[:3000]).div_(world)
        b.div_(world)
    for work in works:
        work.wait()
    return a.cpu().sum().item(), b.cpu().sum().item(), gathered.cpu().sum().item()


def all_seeds(rank, world, seeds):
    groups = [dist.new_group(list(range(world))) for _ in range(3)]
    expected = interleaved(rank, world, groups)
    for seed in range(seeds):
        torch.openreg.set_schedule("adversarial", seed)
        try:
            assert interleaved(rank, world, groups) == expected, seed
        finally:
            torch.openreg.synchronize()
            torch.openreg.set_schedule("async")
    for group in groups:
        dist.destroy_process_group(group)
    return expected


def test_seeds_of_the_adversarial_schedule(two):
    first, second = two.run(all_seeds, SEEDS)
    assert first[0] == second[0] and first[2] == second[2]


def test_seeds_with_four_ranks(four):
    four.run(all_seeds, max(SEEDS // 5, 2))
