"""Measures the first training step of a new process, on the CPU and on the device: `make bench`.

The step does not import `torch.optim`, and the device must not import the modules behind it either: the first
step on the device may take at most LIMIT seconds more than on the CPU.
"""

import subprocess
import sys

LIMIT = 0.3
ROUNDS = 3

STEP = """
import sys, time
import torch
torch.set_num_threads(1)
torch.manual_seed(0)
device = sys.argv[1]
layer = torch.nn.TransformerEncoderLayer(128, 4, 256, batch_first=True).to(device)
stem = torch.nn.Sequential(
    torch.nn.Conv2d(1, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2)
).to(device)
words, head = torch.nn.Embedding(100, 128).to(device), torch.nn.Linear(128, 100).to(device)
tokens = torch.randint(0, 100, (8, 32)).to(device)
images = torch.randn(8, 1, 28, 28).to(device)
begin = time.perf_counter()
logits = head(layer(words(tokens))) + stem(images).mean()
loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
loss.backward()
with torch.no_grad():
    for module in (layer, stem, words, head):
        for parameter in module.parameters():
            parameter.sub_(parameter.grad, alpha=0.1)
loss.item()
print(time.perf_counter() - begin)
"""


def first_step(device: str) -> float:
    """Seconds of the fastest of ROUNDS processes."""
    command = [sys.executable, "-c", STEP, device]
    return min(
        float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for _ in range(ROUNDS)
    )


def main() -> None:
    cpu, device = first_step("cpu"), first_step("openreg")
    print(
        f"first training step of a process: CPU {cpu:.3f} s, openreg {device:.3f} s, at most {LIMIT} s more"
    )
    if "--check" in sys.argv and device - cpu > LIMIT:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
