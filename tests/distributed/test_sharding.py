"""Parameters, sequences and layers that ranks share: FSDP, offload, meshes with two dimensions, context parallel."""

import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.nn import functional
from training import DEVICE, batches, make_model, mine, same, train_alone


def train(model, rank, world):
    sgd = torch.optim.SGD(model.parameters(), 0.1)
    for batch in batches(world):
        sgd.zero_grad()
        model(mine(batch, rank, world)).square().mean().backward()
        sgd.step()


# ---- FSDP of torch 1


def fsdp1(rank, world, strategy, offload):
    from torch.distributed.fsdp import CPUOffload, FullyShardedDataParallel, ShardingStrategy

    model = make_model() if offload else make_model().to(DEVICE)
    model = FullyShardedDataParallel(
        model,
        sharding_strategy=ShardingStrategy[strategy],
        cpu_offload=CPUOffload(offload),
        device_id=torch.openreg.current_device(),
    )
    train(model, rank, world)
    with FullyShardedDataParallel.summon_full_params(model):
        same(model.parameters(), train_alone(world))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("strategy", ["FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD"])
def test_fsdp1(two, strategy):
    two.run(fsdp1, strategy, False)


@pytest.mark.filterwarnings("ignore")
def test_fsdp1_with_offload(two):
    two.run(fsdp1, "FULL_SHARD", True)


# ---- FSDP2


def fsdp2_offload(rank, world):
    from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard

    model = make_model()
    fully_shard(model, mesh=init_device_mesh(DEVICE, (world,)), offload_policy=CPUOffloadPolicy())
    train(model, rank, world)
    assert all(parameter.device.type == "cpu" for parameter in model.parameters())
    full = [parameter.to_local().to(DEVICE) for parameter in model.parameters()]
    expected = train_alone(world)
    for local, whole in zip(full, expected, strict=True):
        rows = -(-whole.shape[0] // world)
        torch.testing.assert_close(local.cpu(), whole.detach()[rank * rows : (rank + 1) * rows])


def test_fsdp2_with_offload(two):
    two.run(fsdp2_offload)


def hybrid(rank, world):
    """Parameters are sharded in two ranks, and replicated twice."""
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(DEVICE, (2, world // 2), mesh_dim_names=("replicate", "shard"))
    model = make_model().to(DEVICE)
    fully_shard(model, mesh=mesh)
    train(model, rank, world)
    same([parameter.full_tensor() for parameter in model.parameters()], train_alone(world))


def test_hybrid_sharding(four):
    four.run(hybrid)


def tensor_parallel_and_fsdp2(rank, world):
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh(DEVICE, (2, world // 2), mesh_dim_names=("data", "tensor"))
    model = make_model().to(DEVICE)
    parallelize_module(model, mesh["tensor"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(model, mesh=mesh["data"])
    train(model, mesh["data"].get_local_rank(), 2)
    same([parameter.full_tensor() for parameter in model.parameters()], train_alone(2))


def test_tensor_parallel_with_fsdp2(four):
    four.run(tensor_parallel_and_fsdp2)


def state_dicts(rank, world):
    from torch.distributed.checkpoint.state_dict import (
        StateDictOptions,
        get_model_state_dict,
        set_model_state_dict,
    )
    from torch.distributed.fsdp import fully_shard

    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    model = make_model().to(DEVICE)
    fully_shard(model)
    full = get_model_state_dict(model, options=options)
    if rank == 0:
        same(full.values(), make_model().parameters())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    set_model_state_dict(
        model, full, options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    )
    same([parameter.full_tensor() for parameter in model.parameters()], make_model().parameters())


def test_full_state_dicts(two):
    two.run(state_dicts)


# ---- Sequences


def sequence_parallel(rank, world):
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        SequenceParallel,
        parallelize_module,
    )
    from torch.distributed.tensor.placement_types import Shard

    def make():
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.LayerNorm(8), torch.nn.Linear(8, 16), torch.nn.Linear(16, 8))

    mesh = init_device_mesh(DEVICE, (world,))
    model = make().to(DEVICE)
    parallelize_module(
        model,
        mesh,
        {
            "0": SequenceParallel(),
            "1": ColwiseParallel(input_layouts=Shard(1)),
            "2": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
        },
    )
    torch.manual_seed(1)
    x = torch.randn(2, 8, 8)
    output = model(x.to(DEVICE).chunk(world, 1)[rank]).full_tensor()
    torch.testing.assert_close(output.cpu(), make()(x), rtol=1e-5, atol=1e-5)


def test_sequence_parallel(two):
    two.run(sequence_parallel)


def ring_attention(rank, world, causal):
    from torch.distributed.tensor.experimental import context_parallel
    from torch.distributed.tensor.experimental._attention import _cp_options, context_parallel_unshard
    from torch.nn.attention import SDPBackend, sdpa_kernel

    _cp_options.enable_load_balance = False  # keeps the order of the sequence
    torch.manual_seed(2)
    whole = [torch.randn(2, 2, 32 * world, 16, requires_grad=True) for _ in range(3)]
    expected = functional.scaled_dot_product_attention(*whole, is_causal=causal)
    expected.square().sum().backward()
    mesh = init_device_mesh(DEVICE, (world,))
    parts = [x.detach().to(DEVICE) for x in whole]
    with (
        sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION),
        context_parallel(mesh, buffers=parts, buffer_seq_dims=[2] * 3),
    ):
        leaves = [part.clone().requires_grad_() for part in parts]
        output = functional.scaled_dot_product_attention(*leaves, is_causal=causal)
        output.square().sum().backward()
        gradients = [leaf.grad for leaf in leaves]
        found = context_parallel_unshard(mesh, [output.detach(), *gradients], [2] * 4)
    for a, b in zip(found, [expected.detach(), *(x.grad for x in whole)], strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_context_parallel(two, causal):
    two.run(ring_attention, causal)


def attention_of_heads(rank, world):
    """Each rank has some of the heads."""
    from torch.distributed.tensor import Shard, distribute_tensor

    torch.manual_seed(2)
    whole = [torch.randn(2, 4, 6, 16) for _ in range(3)]
    mesh = init_device_mesh(DEVICE, (world,))
    parts = [distribute_tensor(x.to(DEVICE), mesh, [Shard(1)]) for x in whole]
    output = functional.scaled_dot_product_attention(*parts)
    assert output.placements == (Shard(1),), output.placements
    expected = functional.scaled_dot_product_attention(*whole)
    torch.testing.assert_close(output.full_tensor().cpu(), expected, rtol=1e-4, atol=1e-5)


def test_attention_of_distributed_tensors(two):
    two.run(attention_of_heads)
