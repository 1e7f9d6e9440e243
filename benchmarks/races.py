"""The cost of the race check: the cases of `make bench` on the device, without and with the check.

Rounds alternate, and the best round of each counts.
"""

import argparse
import contextlib

import torch
from bench import accelerator, one_round
from cases import CASES

LIMIT = 3.0  # maximum ratio of the time with the check to the time without


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--check", action="store_true", help="exit with status 1 if a row exceeds the limit")
    options = parser.parse_args()
    torch.set_num_threads(1)
    device = accelerator()
    print(f"{'race check':34} {'off':>12} {'on':>12} {'ratio':>6}")
    worst = 0.0
    for case in CASES:
        body = case.make(device)
        one_round(body, torch.accelerator.synchronize, max(3, case.count // 10))
        best = [float("inf"), float("inf")]
        for _ in range(options.rounds):
            for side, block in enumerate((contextlib.nullcontext(), torch.openreg.check_races())):
                with block:
                    once = one_round(body, torch.accelerator.synchronize, case.count)
                best[side] = min(best[side], once)
        ratio = best[1] / best[0]
        worst = max(worst, ratio)
        print(f"{case.name:34} {best[0] * 1e6:9.2f} us {best[1] * 1e6:9.2f} us {ratio:6.2f}")
    print(f"worst ratio {worst:.2f}; limit {LIMIT}")
    if options.check and worst > LIMIT:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
