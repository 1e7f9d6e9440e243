"""TorchScript, and operators called from other threads."""

import concurrent.futures
import threading

import pytest
import torch

DEVICE = "openreg"

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")


@torch.jit.script
def clip(x):
    x = x.clone()
    x[x < 50] = 1.0
    return x


@torch.jit.script
def pick(x, mask, rows):
    return x[mask], x[rows], x[:, None, rows], x[rows, rows]


@torch.jit.script
def clip_aside(x):
    below = torch.jit.fork(clip, x)
    above = torch.jit.fork(clip, x + 50)
    return torch.jit.wait(below) + torch.jit.wait(above)


class Clip(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        y = self.linear(x)
        y[y < 0] = 0.0
        return y[:, y.sum(0) > 0]


@pytest.fixture
def numbers():
    return torch.arange(0.0, 100.0, 10.0)


def test_mask_assignment(numbers, each_schedule):
    for _ in range(3):  # the interpreter specializes on its second run
        assert torch.equal(clip(numbers.to(DEVICE)).cpu(), clip(numbers))


def test_indexing(each_schedule):
    x = torch.arange(16.0).reshape(4, 4)
    arguments = (x, x > 5, torch.tensor([3, 0]))
    for _ in range(3):
        for mine, theirs in zip(pick(*(a.to(DEVICE) for a in arguments)), pick(*arguments), strict=True):
            assert torch.equal(mine.cpu(), theirs)


def test_gradients(numbers):
    leaves = [numbers.clone().requires_grad_(), numbers.to(DEVICE).requires_grad_()]
    for _ in range(3):
        for leaf in leaves:
            (clip(leaf) * leaf.detach()).sum().backward()
    assert torch.equal(leaves[1].grad.cpu(), leaves[0].grad)


def test_fork_and_wait(numbers, each_schedule):
    for _ in range(3):
        assert torch.equal(clip_aside(numbers.to(DEVICE)).cpu(), clip_aside(numbers))


def test_modules_scripted_traced_and_frozen(each_schedule):
    torch.manual_seed(0)
    module, x = Clip().eval(), torch.randn(3, 4)
    expected = module(x)
    there = Clip().eval().to(DEVICE)
    there.load_state_dict(module.state_dict())
    scripted = torch.jit.script(there)
    for made in (scripted, torch.jit.freeze(scripted), torch.jit.trace(there, x.to(DEVICE))):
        for _ in range(3):
            torch.testing.assert_close(made(x.to(DEVICE)).cpu(), expected)


def test_thread_pool(numbers, each_schedule):
    expected = clip(numbers)
    ready = threading.Barrier(4)

    def work(number):
        ready.wait(60)
        x = numbers.to(DEVICE)
        with torch.openreg.stream(torch.openreg.Stream()):
            return [torch.equal(clip(x).cpu(), expected) for _ in range(20)]

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert all(map(all, pool.map(work, range(4))))


def test_futures_and_hooks(numbers):
    expected = clip(numbers)
    future = torch.futures.Future()
    done = future.then(lambda made: clip(made.value()))
    future.set_result(numbers.to(DEVICE))
    assert torch.equal(done.wait().cpu(), expected)

    leaf = numbers.to(DEVICE).requires_grad_()
    seen = []
    leaf.register_hook(lambda gradient: seen.append(clip(gradient).tolist()))
    (leaf * leaf).sum().backward()
    assert seen == [clip(2 * numbers).tolist()]


@pytest.mark.parametrize(
    "name", ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]
)
def test_traced_convolutions(name):
    """The trace has the convolution, and not its result for the example."""
    dimensions = int(name[-2])
    layer = getattr(torch.nn, name)(2, 3, 3).to(DEVICE)
    example, x = (torch.randn(2, 2, *[5] * dimensions, device=DEVICE) for _ in range(2))
    traced = torch.jit.trace(layer, example)
    assert "aten::_convolution" in str(traced.inlined_graph)
    assert torch.equal(traced(x), layer(x))
    gradients = [torch.autograd.grad(run(x).square().sum(), layer.weight)[0] for run in (traced, layer)]
    torch.testing.assert_close(*gradients)
