"""Random numbers: seeds repeat, launch order alone decides, and the numbers have the right distribution."""

import pytest
import torch

SCHEDULES = {"async": 0, "blocking": 1, "adversarial": 2}


@pytest.fixture(params=SCHEDULES)
def schedule(request):
    import torch_openreg._C as C

    before = C.get_schedule()
    C.set_schedule(SCHEDULES[request.param], 7)
    yield request.param
    torch.openreg.synchronize()
    C.set_schedule(*before)


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


def test_seeds_repeat(schedule):
    torch.manual_seed(5)
    first = draw()
    torch.manual_seed(5)
    assert all(torch.equal(a, b) for a, b in zip(first, draw(), strict=True))
    assert not torch.equal(first[0], draw()[0])


def test_every_schedule_gives_the_same_numbers():
    import torch_openreg._C as C

    seen = []
    before = C.get_schedule()
    for code in SCHEDULES.values():
        C.set_schedule(code, 3)
        torch.manual_seed(1)
        streams = [torch.openreg.Stream() for _ in range(3)]
        made = []
        for i in range(12):
            with torch.openreg.stream(streams[i % 3]):
                made.append(torch.randn(10, device="openreg"))
        torch.openreg.synchronize()
        seen.append(torch.stack([m.cpu() for m in made]))
    C.set_schedule(*before)
    assert torch.equal(seen[0], seen[1]) and torch.equal(seen[0], seen[2])


def test_generators():
    generator = torch.Generator(device="openreg")
    generator.manual_seed(9)
    copy = generator.clone_state()
    first = draw(generator=generator)
    assert all(torch.equal(a, b) for a, b in zip(first, draw(generator=copy), strict=True))
    assert generator.initial_seed() == 9 and generator.device.type == "openreg"


def test_the_state_is_sixteen_bytes_and_restores():
    torch.openreg.manual_seed(11)
    torch.randn(3, device="openreg")
    state = torch.openreg.get_rng_state()
    assert state.numel() == 16 and state.device.type == "cpu"
    a = torch.randn(10, device="openreg")
    torch.openreg.set_rng_state(state)
    assert torch.equal(a, torch.randn(10, device="openreg"))
    assert torch.openreg.initial_seed() == 11
    with pytest.raises(RuntimeError, match="16 bytes"):
        torch.openreg.set_rng_state(torch.zeros(5, dtype=torch.uint8))


def test_each_device_has_a_generator_of_its_own():
    torch.manual_seed(2)
    a, b = torch.randn(5, device="openreg:0"), torch.randn(5, device="openreg:1")
    assert torch.equal(a.cpu(), b.cpu())
    torch.openreg.manual_seed(3)
    assert torch.openreg.default_generators[0].initial_seed() == 3
    assert torch.openreg.default_generators[1].initial_seed() == 2
    states = torch.openreg.get_rng_state_all()
    torch.openreg.seed_all()
    torch.openreg.set_rng_state_all(states)
    assert torch.openreg.initial_seed() == 3


def test_a_cpu_generator_is_refused():
    with pytest.raises(RuntimeError, match="Expected a 'openreg' device type for generator but found 'cpu'"):
        torch.randn(3, device="openreg").normal_(generator=torch.Generator())
    assert torch.ones(2, device="openreg").sum().item() == 2


def test_fork_rng():
    torch.manual_seed(4)
    with torch.random.fork_rng(devices=[0, 1], device_type="openreg"):
        torch.randn(100, device="openreg")
    a = torch.randn(4, device="openreg")
    torch.manual_seed(4)
    assert torch.equal(a, torch.randn(4, device="openreg"))


def test_the_host_generator_is_another():
    torch.manual_seed(6)
    host = torch.randn(5)
    torch.manual_seed(6)
    torch.randn(1000, device="openreg")
    assert torch.equal(host, torch.randn(5))


def test_distributions():
    torch.manual_seed(0)
    n = 200_000
    normal = torch.randn(n, device="openreg")
    assert abs(normal.mean().item()) < 0.01 and abs(normal.std().item() - 1) < 0.01
    uniform = torch.rand(n, device="openreg").cpu()
    counts = torch.histc(uniform, 20, 0, 1)
    chi2 = ((counts - n / 20) ** 2 / (n / 20)).sum().item()
    assert chi2 < 50  # 19 degrees of freedom: one in ten thousand
    # Many small launches are as independent as one large one.
    small = torch.cat([torch.rand(4, device="openreg") for _ in range(5000)]).cpu()
    assert abs(small.mean().item() - 0.5) < 0.01
    pairs = small[::4] - 0.5
    assert abs((pairs[1:] * pairs[:-1]).mean().item()) < 0.01
    assert small.unique().numel() > 19_900


def test_dropout():
    torch.manual_seed(0)
    x = torch.ones(10_000, device="openreg", requires_grad=True)
    for dropped in (torch.nn.functional.dropout(x, 0.3), torch.native_dropout(x, 0.3, True)[0]):
        kept = (dropped != 0).float().mean().item()
        assert abs(kept - 0.7) < 0.03
        dropped.sum().backward()
        assert torch.equal(x.grad, dropped.detach())
        x.grad = None


def test_seeds_that_nobody_knows_and_seeds_for_all():
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
