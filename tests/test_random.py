"""Random numbers: reproducible from a seed, determined by launch order alone, correctly distributed."""

import contextlib
import pickle
import threading

import numpy as np
import pytest
import random_operators
import torch
from blocked_stream import held
from interpreter import execute
from scipy import stats

import torch_openreg._C as C

SCHEDULES = ["async", "blocking", "adversarial"]


# ---- Philox

# The lines for philox4x32 with ten rounds, from the file kat_vectors of Random123.
KNOWN_ANSWERS = """
00000000 00000000 00000000 00000000 00000000 00000000   6627e8d5 e169c58d bc57ac4c 9b00dbd8
ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff   408f276d 41c83b0e a20bc7c6 6d5451fd
243f6a88 85a308d3 13198a2e 03707344 a4093822 299f31d0   d16cfe09 94fdcceb 5001e420 24126ea1
"""


@pytest.mark.parametrize("line", KNOWN_ANSWERS.strip().splitlines())
def test_philox_known_answers(line):
    words = [int(word, 16) for word in line.split()]
    assert C.philox(words[:4], words[4:6]) == words[6:]


# ---- Seeds and states


def draw(**kwargs):
    return [
        torch.randn(50, device="openreg", **kwargs),
        torch.rand(50, device="openreg", **kwargs),
        torch.randperm(50, device="openreg", **kwargs),
        torch.randint(100, (50,), device="openreg", **kwargs),
        torch.empty(50, device="openreg").exponential_(**kwargs),
        torch.bernoulli(torch.full((50,), 0.5, device="openreg"), **kwargs),
        torch.multinomial(torch.ones(50, device="openreg"), 20, **kwargs),
    ]


def equal(a, b) -> bool:
    return all(torch.equal(x.cpu(), y.cpu()) for x, y in zip(a, b, strict=True))


def test_same_seed_gives_same_numbers(each_schedule):
    torch.manual_seed(5)
    first = draw()
    torch.manual_seed(5)
    assert equal(first, draw())
    assert not torch.equal(first[0], draw()[0])


def test_state_is_sixteen_bytes_and_can_be_restored(each_schedule):
    torch.openreg.manual_seed(11)
    torch.randn(3, device="openreg")
    state = torch.openreg.get_rng_state()
    assert state.numel() == 16 and state.device.type == "cpu" and state.dtype == torch.uint8
    assert np.frombuffer(state.numpy().tobytes(), "<u8").tolist() == [11, 4]
    a = torch.randn(10, device="openreg")
    torch.openreg.set_rng_state(state)
    assert torch.equal(a, torch.randn(10, device="openreg"))
    assert torch.openreg.initial_seed() == 11


def test_invalid_states_raise():
    before = torch.openreg.get_rng_state()
    with pytest.raises(RuntimeError, match="16 bytes"):
        torch.openreg.set_rng_state(torch.zeros(5, dtype=torch.uint8))
    with pytest.raises(RuntimeError, match="offset must be a multiple of 4, got 1"):
        torch.openreg.set_rng_state(torch.tensor([9, *[0] * 7, 1, *[0] * 7], dtype=torch.uint8))
    with pytest.raises((RuntimeError, TypeError), match="ByteTensor"):
        torch.openreg.set_rng_state(torch.zeros(16))
    with pytest.raises(RuntimeError, match="multiple of 4"):
        torch.Generator(device="openreg").set_offset(2)
    assert torch.equal(before, torch.openreg.get_rng_state())


def test_offset_of_the_default_generator():
    torch.openreg.manual_seed(5)
    torch.rand(3, device="openreg")
    assert torch.openreg._get_rng_state_offset() == 4
    following = torch.rand(3, device="openreg")
    torch.openreg._set_rng_state_offset(4)
    assert torch.equal(torch.rand(3, device="openreg"), following)
    torch.openreg._set_rng_state_offset(100, "openreg:1")
    assert torch.openreg._get_rng_state_offset(1) == 100


def test_each_device_has_its_own_generator():
    torch.manual_seed(2)
    a, b = torch.randn(5, device="openreg:0"), torch.randn(5, device="openreg:1")
    assert torch.equal(a.cpu(), b.cpu())
    torch.openreg.manual_seed(3)
    assert [g.initial_seed() for g in torch.openreg.default_generators] == [3, 2]
    assert [g.device.index for g in torch.openreg.default_generators] == [0, 1]
    with torch.openreg.device(1):
        assert torch.openreg.initial_seed() == 2
        torch.openreg.manual_seed(8)
    assert [g.initial_seed() for g in torch.openreg.default_generators] == [3, 8]
    torch.openreg.manual_seed_all(4)
    assert [g.initial_seed() for g in torch.openreg.default_generators] == [4, 4]


def test_generator_of_an_invalid_device_raises():
    with pytest.raises(torch.AcceleratorError, match="device index 9 is out of range"):
        torch.Generator("openreg:9")


def test_states_of_all_devices():
    torch.manual_seed(21)
    states = torch.openreg.get_rng_state_all()
    first = [torch.rand(4, device=f"openreg:{i}") for i in range(2)]
    torch.openreg.seed_all()
    seeds = [g.initial_seed() for g in torch.openreg.default_generators]
    assert seeds[0] == seeds[1] != 21
    torch.openreg.seed()
    assert torch.openreg.initial_seed() != seeds[1]
    torch.openreg.set_rng_state_all(states)
    assert equal(first, [torch.rand(4, device=f"openreg:{i}") for i in range(2)])
    assert torch.equal(torch.openreg.get_rng_state("openreg:1"), torch.openreg.get_rng_state(1))


def test_cpu_generator_is_independent():
    torch.manual_seed(6)
    host = torch.randn(5)
    torch.manual_seed(6)
    torch.randn(1000, device="openreg")
    assert torch.equal(host, torch.randn(5))


def test_fork_rng(each_schedule):
    torch.manual_seed(4)
    with torch.random.fork_rng(devices=[0, 1], device_type="openreg"):
        torch.manual_seed(99)
        torch.randn(100, device="openreg"), torch.randn(100, device="openreg:1"), torch.randn(100)
    after = torch.randn(4, device="openreg"), torch.randn(4, device="openreg:1"), torch.randn(4)
    torch.manual_seed(4)
    assert equal(after, [torch.randn(4, device=d) for d in ("openreg", "openreg:1", "cpu")])


# ---- Generators


def test_generator_objects(each_schedule):
    generator = torch.Generator(device="openreg").manual_seed(9)
    copy = generator.clone_state()
    first = draw(generator=generator)
    assert equal(first, draw(generator=copy))
    assert generator.initial_seed() == 9 and generator.device == torch.device("openreg", 0)
    assert torch.Generator(device="openreg:1").device == torch.device("openreg", 1)
    restored = pickle.loads(pickle.dumps(generator))
    assert equal(draw(generator=generator), draw(generator=restored))
    other = torch.Generator(device="openreg")
    other.set_state(generator.get_state())
    assert other.get_offset() == generator.get_offset() > 0
    assert equal(draw(generator=generator), draw(generator=other))


def test_generators_can_share_their_state(each_schedule):
    first = torch.Generator(device="openreg").manual_seed(13)
    second = torch.Generator(device="openreg")
    second.graphsafe_set_state(first.graphsafe_get_state())
    alternating = [torch.rand(3, device="openreg", generator=g) for g in (first, second, first)]
    alone = torch.Generator(device="openreg").manual_seed(13)
    assert equal(alternating, [torch.rand(3, device="openreg", generator=alone) for _ in range(3)])
    second.manual_seed(1)
    assert first.initial_seed() == 1
    copy = first.clone_state()
    torch.rand(3, device="openreg", generator=first)
    assert copy.get_offset() == 0 and second.get_offset() == 4
    with pytest.raises(RuntimeError, match="Expected a openreg Generator"):
        first.graphsafe_set_state(torch.Generator())


has_philox_state = pytest.mark.skipif(
    not hasattr(torch.Generator, "philox_state"), reason="torch 2.14 added Generator.philox_state"
)


@has_philox_state
def test_philox_state():
    generator = torch.Generator(device="openreg").manual_seed(2**63 + 5)
    torch.rand(3, device="openreg", generator=generator)
    state = generator.philox_state(6)
    assert all(x.device.type == "cpu" and x.dtype == torch.int64 and x.shape == (1,) for x in state)
    assert [x.item() for x in state] == [2**63 + 5 - 2**64, 4, 0]
    assert generator.get_offset() == 4 + 8


@has_philox_state
def test_philox_state_in_a_graph(each_schedule):
    generator = torch.Generator(device="openreg").manual_seed(3)
    drawn = torch.zeros(2, dtype=torch.int64, device="openreg")
    graph = torch.accelerator.Graph()
    with torch.openreg.stream(torch.openreg.Stream()), graph:
        torch.rand(3, device="openreg", generator=generator)
        seed, offset, position = generator.philox_state(6)
        drawn.copy_(torch.cat([seed, offset]))
    assert seed.device.type == offset.device.type == "openreg" and position.device.type == "cpu"
    assert position.item() == 4
    for start in (0, 12):
        graph.replay()
        assert drawn.tolist() == [3, start]
    generator.set_offset(40)
    graph.replay()
    assert drawn.tolist() == [3, 40] and generator.get_offset() == 52


@pytest.mark.host_engine
@pytest.mark.parametrize("name", [*random_operators.operators()])
def test_every_random_operator_takes_a_generator(name):
    generator = torch.Generator(device="openreg").manual_seed(3)
    default = torch.openreg.get_rng_state()
    first = random_operators.call(name, generator, "openreg")
    assert generator.get_offset() == 4, "one launch advances the offset by 4"
    second = random_operators.call(name, generator, "openreg")
    assert not equal(first, second)
    generator.manual_seed(3)
    assert equal(first, random_operators.call(name, generator, "openreg"))
    assert all(tensor.is_openreg for tensor in first)
    assert torch.equal(torch.openreg.get_rng_state(), default), "the default generator is not used"
    # With a tensor of standard deviations, normal checks them on the host, as on CUDA.
    synchronizes = name.startswith("aten::normal.") and "_Tensor" in name
    with contextlib.nullcontext() if synchronizes else torch.openreg.assert_no_sync():
        random_operators.call(name, generator, "openreg")
    torch.openreg.manual_seed(3)
    assert equal(first, random_operators.call(name, None, "openreg"))
    with pytest.raises(RuntimeError, match="Expected a 'openreg' device type for generator but found 'cpu'"):
        random_operators.call(name, torch.Generator(), "openreg")


def test_every_random_operator_is_found():
    found = set(random_operators.operators())
    assert len(found) > 70 and {"aten::normal_", "aten::randperm.generator", "aten::poisson"} <= found


@pytest.mark.host_engine  # it installs the check of CPU operators
def test_device_generator_raises_for_cpu_tensors():
    generator = torch.Generator(device="openreg")
    message = "Expected a 'cpu' device type for generator but found 'openreg'"
    for draws in (
        lambda: torch.randn(3, generator=generator),
        lambda: torch.randn((), generator=generator),
        lambda: torch.randperm(3, generator=generator),
        lambda: torch.zeros(3).normal_(generator=generator),
        lambda: torch.zeros(()).uniform_(generator=generator),
        lambda: torch.bernoulli(torch.ones(3), generator=generator),
    ):
        with pytest.raises(RuntimeError, match=message):
            draws()
    assert generator.get_offset() == 0


# ---- Only launch order determines the numbers


def test_numbers_do_not_depend_on_schedule_or_streams():
    seen = []
    for name in SCHEDULES:
        for count in (1, 2, 5):
            with torch.openreg.schedule(name, seed=count):
                torch.manual_seed(1)
                streams = [torch.openreg.Stream() for _ in range(count)]
                made = []
                for i in range(15):
                    with torch.openreg.stream(streams[i % count]):
                        made.append(torch.randn(10, device="openreg"))
                torch.openreg.synchronize()
                seen.append(torch.stack([m.cpu() for m in made]))
    assert all(torch.equal(seen[0], other) for other in seen)


def test_numbers_do_not_depend_on_execution_order():
    torch.manual_seed(1)
    expected = [torch.rand(8, device="openreg").cpu() for _ in range(2)]
    slow, fast = torch.openreg.Stream(), torch.openreg.Stream()
    torch.manual_seed(1)
    with torch.openreg.schedule("async"), held(slow):
        with torch.openreg.stream(slow):
            first = torch.rand(8, device="openreg")
        with torch.openreg.stream(fast):
            second = torch.rand(8, device="openreg")
        fast.synchronize()  # the second kernel has run, the first has not
        assert torch.equal(second.cpu(), expected[1])
    assert torch.equal(first.cpu(), expected[0])


def test_threads_draw_different_numbers():
    drawn = []

    def body():
        mine = [torch.rand(2, device="openreg", dtype=torch.float64) for _ in range(100)]
        torch.openreg.synchronize()
        drawn.append(torch.cat([m.cpu() for m in mine]))

    torch.manual_seed(3)
    threads = [threading.Thread(target=body) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    everything = torch.cat(drawn)
    assert everything.numel() == everything.unique().numel() == 800
    torch.manual_seed(3)
    alone = torch.cat([torch.rand(2, device="openreg", dtype=torch.float64).cpu() for _ in range(400)])
    assert torch.equal(everything.sort().values, alone.sort().values)


# ---- Distributions: the seed is fixed, so the result is too. One seed in ten thousand would fail.

MIN_P_VALUE = 1e-4
N = 100_000


def empty(n: int = N) -> torch.Tensor:
    return torch.empty(n, device="openreg", dtype=torch.float64)


def full(value: float, n: int = N) -> torch.Tensor:
    return torch.full((n,), value, device="openreg", dtype=torch.float64)


CONTINUOUS = {
    "rand": (lambda: torch.rand(N, device="openreg", dtype=torch.float64), stats.uniform()),
    "uniform_": (lambda: empty().uniform_(-2, 5), stats.uniform(-2, 7)),
    "randn": (lambda: torch.randn(N, device="openreg"), stats.norm()),
    "normal_": (lambda: empty().normal_(3, 0.5), stats.norm(3, 0.5)),
    "normal": (lambda: torch.normal(full(1.0), full(2.0)), stats.norm(1, 2)),
    "exponential_": (lambda: empty().exponential_(3), stats.expon(scale=1 / 3)),
    "cauchy_": (lambda: empty().cauchy_(1, 2), stats.cauchy(1, 2)),
    "log_normal_": (lambda: empty().log_normal_(1, 0.25), stats.lognorm(0.25, scale=np.e)),
    "gamma": (lambda: torch._standard_gamma(full(2.5)), stats.gamma(2.5)),
    "dirichlet": (
        lambda: torch._sample_dirichlet(full(2.0, 2 * N).reshape(N, 2))[:, 0],
        stats.beta(2, 2),
    ),
    "many small launches": (
        lambda: torch.cat([torch.rand(4, device="openreg", dtype=torch.float64) for _ in range(5000)]),
        stats.uniform(),
    ),
    "first of many launches": (
        lambda: torch.cat([torch.randn(1, device="openreg") for _ in range(5000)]),
        stats.norm(),
    ),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_distributions(name):
    make, expected = CONTINUOUS[name]
    torch.manual_seed(0)
    assert stats.kstest(make().cpu().numpy(), expected.cdf).pvalue > MIN_P_VALUE


DISCRETE = {
    "bernoulli": (lambda: torch.bernoulli(full(0.3)), stats.bernoulli(0.3)),
    "bernoulli_": (lambda: empty().bernoulli_(0.8), stats.bernoulli(0.8)),
    "geometric_": (lambda: empty().geometric_(0.25), stats.geom(0.25)),
    "poisson": (lambda: torch.poisson(full(4.0)), stats.poisson(4)),
    "binomial": (lambda: torch.binomial(full(12.0), full(0.4)), stats.binom(12, 0.4)),
    "randint": (lambda: torch.randint(5, 25, (N,), device="openreg"), stats.randint(5, 25)),
    "random_": (lambda: empty().random_(7), stats.randint(0, 7)),
    "multinomial": (
        lambda: torch.multinomial(torch.tensor([1.0, 2.0, 3.0, 4.0], device="openreg"), N, replacement=True),
        stats.rv_discrete(values=(range(4), (0.1, 0.2, 0.3, 0.4))),
    ),
    "randperm": (
        lambda: torch.stack([torch.randperm(6, device="openreg")[0] for _ in range(6000)]),
        stats.randint(0, 6),
    ),
    "dropout": (
        lambda: (torch.nn.functional.dropout(full(1.0), 0.3) != 0).long(),
        stats.bernoulli(0.7),
    ),
}


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_distributions(name):
    make, expected = DISCRETE[name]
    torch.manual_seed(0)
    values, counts = np.unique(make().cpu().numpy(), return_counts=True)
    n = counts.sum()
    wanted = expected.pmf(values) * n
    common = wanted >= 5
    observed = np.append(counts[common], counts[~common].sum())
    wanted = np.append(wanted[common], n - wanted[common].sum())
    kept = wanted > 1e-9 * n
    assert observed[~kept].sum() == 0
    assert stats.chisquare(observed[kept], wanted[kept]).pvalue > MIN_P_VALUE


def test_launches_are_independent_of_each_other():
    torch.manual_seed(0)
    rows = torch.stack([torch.rand(50, device="openreg", dtype=torch.float64) for _ in range(400)]).cpu()
    assert rows.unique().numel() == rows.numel()
    neighbors = stats.pearsonr(rows[:-1].flatten().numpy(), rows[1:].flatten().numpy())
    assert neighbors.pvalue > MIN_P_VALUE
    torch.manual_seed(1)  # adjacent seeds are independent too
    other = torch.stack([torch.rand(50, device="openreg", dtype=torch.float64) for _ in range(400)]).cpu()
    assert stats.pearsonr(rows.flatten().numpy(), other.flatten().numpy()).pvalue > MIN_P_VALUE


def test_dropout():
    torch.manual_seed(0)
    x = torch.ones(10_000, device="openreg", requires_grad=True)
    for dropped in (
        torch.nn.functional.dropout(x, 0.3),
        torch.native_dropout(x, 0.3, True)[0],
        torch._fused_dropout(x, 0.7)[0],
    ):
        kept = (dropped != 0).float().mean().item()
        assert abs(kept - 0.7) < 0.03
        dropped.sum().backward()
        torch.testing.assert_close(x.grad, dropped.detach())
        x.grad = None


def test_seed_and_seed_all():
    torch.openreg.manual_seed_all(5)
    assert torch.openreg.initial_seed() == torch.openreg.random.initial_seed() == 5
    with torch.openreg.device(1):
        assert torch.openreg.initial_seed() == 5
        torch.openreg.seed()
        assert torch.openreg.initial_seed() != 5
    assert torch.openreg.initial_seed() == 5
    torch.openreg.seed_all()
    first = torch.openreg.initial_seed()
    with torch.openreg.device(1):
        assert torch.openreg.initial_seed() == first != 5


def test_numbers_do_not_depend_on_the_thread_that_runs_kernels():
    """binomial synchronizes at its first call with a shape, and the host thread may then run pending kernels."""
    program = """
        import torch
        torch.manual_seed(0)
        x, n, p = (torch.full((300,), value, device="openreg") for value in (0.0, 10.0, 0.3))
        for _ in range(30):
            x.normal_()
        print(torch.binomial(n, p).sum().item(), x.sum().item())
    """
    schedules = ["async"] * 4 + ["blocking", "adversarial"]
    assert len({execute(program, OPENREG_SCHEDULE=schedule) for schedule in schedules}) == 1


def test_fused_dropout_that_keeps_nothing_or_all():
    x = torch.randn(10, device="openreg")
    result, mask = torch._fused_dropout(x, 0.0)
    assert result.isnan().all() and not mask.any()
    result, mask = torch._fused_dropout(x, 1.0)
    assert torch.equal(result, x) and mask.all()
