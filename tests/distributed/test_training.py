"""What rests on the collectives: DDP, FSDP2, DTensor and others, compared with one process."""

import copy

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from training import DEVICE, batches, make_model, mine, same, train_alone


@pytest.fixture(params=["two", "four"])
def ranks(request):
    return request.getfixturevalue(request.param)


def ddp(rank, world, options):
    model = DistributedDataParallel(make_model().to(DEVICE), **options)
    sgd = torch.optim.SGD(model.parameters(), 0.1)
    for batch in batches(world):
        sgd.zero_grad()
        model(mine(batch, rank, world)).square().mean().backward()
        sgd.step()
    same(model.parameters(), train_alone(world))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bucket_cap_mb": 0.0001},
        {"static_graph": True},
        {"find_unused_parameters": True},
        {"gradient_as_bucket_view": True},
        {"broadcast_buffers": False},
    ],
    ids=str,
)
def test_ddp(two, options):
    two.run(ddp, options)


def test_ddp_of_four_ranks(four):
    four.run(ddp, {})


def ddp_accumulates(rank, world):
    model = DistributedDataParallel(make_model().to(DEVICE))
    parts = batches(world)
    with model.no_sync():
        model(mine(parts[0], rank, world)).square().mean().backward()
    model(mine(parts[1], rank, world)).square().mean().backward()
    alone = make_model()
    for part in parts[:2]:
        alone(part).square().mean().backward()
    same([p.grad for p in model.parameters()], [p.grad for p in alone.parameters()])


def test_ddp_no_sync(ranks):
    ranks.run(ddp_accumulates)


def ddp_hook(rank, world):
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    for hook in (default_hooks.allreduce_hook, default_hooks.fp16_compress_hook):
        model = DistributedDataParallel(make_model().to(DEVICE))
        model.register_comm_hook(None, hook)
        batch = batches(world)[0]
        model(mine(batch, rank, world)).square().mean().backward()
        alone = make_model()
        alone(batch).square().mean().backward()
        for a, b in zip(model.parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(a.grad.cpu(), b.grad, rtol=1e-2, atol=1e-3)


def test_ddp_communication_hooks(ranks):
    ranks.run(ddp_hook)


def ddp_join(rank, world):
    model = DistributedDataParallel(make_model().to(DEVICE))
    count = 0
    with model.join():
        for _ in range(rank + 2):  # uneven inputs
            model(torch.ones(3, 8, device=DEVICE)).sum().backward()
            count += 1
    torch.openreg.synchronize()
    return count


def test_ddp_join(ranks):
    assert ranks.run(ddp_join) == [rank + 2 for rank in range(ranks.size)]


def fsdp2(rank, world, options):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(DEVICE, (world,))
    model = make_model().to(DEVICE)
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh, **options)
    fully_shard(model, mesh=mesh, **options)
    sgd = torch.optim.SGD(model.parameters(), 0.1)
    for batch in batches(world):
        sgd.zero_grad()
        model(mine(batch, rank, world)).square().mean().backward()
        sgd.step()
    same([parameter.full_tensor() for parameter in model.parameters()], train_alone(world))


@pytest.mark.parametrize("options", [{}, {"reshard_after_forward": False}], ids=str)
def test_fsdp2(ranks, options):
    ranks.run(fsdp2, options)


def fsdp2_mixed(rank, world):
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    model = make_model().to(DEVICE)
    fully_shard(model, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32))
    loss = model(mine(batches(world)[0], rank, world)).float().square().mean()
    loss.backward()
    alone = make_model()
    alone(batches(world)[0]).square().mean().backward()
    for a, b in zip(model.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(a.grad.full_tensor().cpu(), b.grad, rtol=0.1, atol=0.02)


def test_fsdp2_in_mixed_precision(two):
    two.run(fsdp2_mixed)


def dtensor(rank, world):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh(DEVICE, (world,))
    torch.manual_seed(3)
    a, b = torch.randn(8, 6), torch.randn(6, 8)
    product = distribute_tensor(a.to(DEVICE), mesh, [Shard(0)]) @ distribute_tensor(
        b.to(DEVICE), mesh, [Replicate()]
    )
    torch.testing.assert_close(product.full_tensor().cpu(), a @ b)
    partial = distribute_tensor(a.to(DEVICE), mesh, [Shard(1)]).sum(1)
    torch.testing.assert_close(partial.full_tensor().cpu(), a.sum(1))
    moved = distribute_tensor(b.to(DEVICE), mesh, [Shard(0)]).redistribute(mesh, [Shard(1)])
    torch.testing.assert_close(moved.full_tensor().cpu(), b)


def test_dtensor(two):
    two.run(dtensor)


def tensor_parallel(rank, world):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh(DEVICE, (world,))
    model = make_model().to(DEVICE)
    parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    batch = batches(world)[0]
    output = model(batch.to(DEVICE))
    torch.testing.assert_close(output.cpu(), make_model()(batch), rtol=1e-5, atol=1e-5)
    output.square().mean().backward()
    alone = make_model()
    alone(batch).square().mean().backward()
    for a, b in zip(model.parameters(), alone.parameters(), strict=True):
        grad = a.grad.full_tensor() if hasattr(a.grad, "full_tensor") else a.grad
        torch.testing.assert_close(grad.cpu(), b.grad, rtol=1e-4, atol=1e-5)


def test_tensor_parallel(ranks):
    ranks.run(tensor_parallel)


def zero(rank, world):
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = DistributedDataParallel(make_model().to(DEVICE))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
    for batch in batches(world):
        optimizer.zero_grad()
        model(mine(batch, rank, world)).square().mean().backward()
        optimizer.step()
    same(model.parameters(), train_alone(world))


def test_zero_redundancy_optimizer(ranks):
    ranks.run(zero)


def sync_batch_norm(rank, world):
    torch.manual_seed(0)
    alone = torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.BatchNorm1d(6))
    model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(alone)).to(DEVICE)
    model = DistributedDataParallel(model)
    batch = batches(world)[0]
    model(mine(batch, rank, world)).square().mean().backward()
    alone(batch).square().mean().backward()
    same([p.grad for p in model.parameters()], [p.grad for p in alone.parameters()])
    same(
        [model.module[1].running_mean, model.module[1].running_var],
        [alone[1].running_mean, alone[1].running_var],
    )


def test_sync_batch_norm(ranks):
    ranks.run(sync_batch_norm)


def checkpoint(rank, world, folder):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
    from torch.distributed.fsdp import fully_shard

    model = make_model().to(DEVICE)
    fully_shard(model)
    state = get_model_state_dict(model)
    dcp.save(state, checkpoint_id=folder)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    state = get_model_state_dict(model)
    dcp.load(state, checkpoint_id=folder)
    set_model_state_dict(model, state)
    same([parameter.full_tensor() for parameter in model.parameters()], make_model().parameters())


def load_checkpoint(rank, world, folder):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(9)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).to(DEVICE)
    fully_shard(model)
    state = get_model_state_dict(model)
    dcp.load(state, checkpoint_id=folder)
    set_model_state_dict(model, state)
    same([parameter.full_tensor() for parameter in model.parameters()], make_model().parameters())


def test_checkpoints_between_world_sizes(run_without_gpu, tmp_path):
    # If there is a GPU, checkpoints copy only CUDA tensors to the CPU.
    run_without_gpu("two", checkpoint, str(tmp_path))
    run_without_gpu("four", load_checkpoint, str(tmp_path))


def pipeline(rank, world):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

    for schedule_class in (ScheduleGPipe, Schedule1F1B):
        layers = [torch.nn.Linear(8, 8) for _ in range(world)]
        for number, layer in enumerate(layers):
            torch.manual_seed(number)
            layer.reset_parameters()
        alone = torch.nn.Sequential(*copy.deepcopy(layers))
        device = torch.device(DEVICE, torch.openreg.current_device())
        stage = PipelineStage(layers[rank].to(device), rank, world, device)
        loss = torch.nn.MSELoss()
        schedule = schedule_class(stage, n_microbatches=4, loss_fn=loss)
        batch, target = torch.ones(8, 8), torch.zeros(8, 8)
        if rank == 0:
            schedule.step(batch.to(device))
        elif rank == world - 1:
            schedule.step(target=target.to(device))
        else:
            schedule.step()
        loss(alone(batch), target).backward()
        torch.testing.assert_close(
            layers[rank].weight.grad.cpu(), alone[rank].weight.grad, rtol=1e-4, atol=1e-6
        )


def test_pipelines(ranks):
    ranks.run(pipeline)


def default_backends(rank, world):
    group = dist.group.WORLD
    assert dist.get_backend_config(group) and group._get_backend(torch.device(DEVICE)).name() == "occl"
    cpu = torch.ones(3)
    dist.all_reduce(cpu)  # Gloo
    assert cpu.tolist() == [float(world)] * 3


def test_the_default_backends(two):
    two.run(default_backends)
