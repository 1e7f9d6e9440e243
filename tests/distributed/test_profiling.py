"""Collectives in traces of the profiler."""

import json

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile

DEVICE = "openreg"
ACTIVITIES = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]


def traced(body, path):
    torch.openreg.synchronize()
    with profile(activities=ACTIVITIES) as profiler:
        body()
        torch.openreg.synchronize()
    profiler.export_chrome_trace(str(path))
    return json.loads(path.read_text())["traceEvents"]


def kernels(events, prefix=""):
    return [e for e in events if e.get("cat") == "kernel" and e["name"].startswith(prefix)]


def trace_collectives(rank, world, folder):
    group = dist.new_group([0, 1])
    ones = torch.ones(1000, device=DEVICE)
    gathered = torch.empty(2000, device=DEVICE)

    def body():
        dist.all_reduce(ones)
        dist.all_gather_into_tensor(gathered, ones, group=group)
        dist.barrier(group=group, device_ids=[torch.openreg.current_device()])

    events = traced(body, folder / f"collectives-{rank}.json")
    return group.group_name, {e["name"]: e["args"] for e in kernels(events, "occl:")}


def test_collectives_have_bytes_and_group(two, tmp_path):
    for rank, (name, found) in enumerate(two.run(trace_collectives, tmp_path)):
        assert {"occl:all_reduce", "occl:all_gather_into_tensor"} <= set(found)
        reduced, gathered = found["occl:all_reduce"], found["occl:all_gather_into_tensor"]
        assert reduced["Collective name"] == "all_reduce" and reduced["bytes"] == 4000
        assert reduced["dtype"] == "Float" and reduced["Group size"] == 2 and reduced["Rank"] == rank
        assert gathered["Process Group Name"] == name != reduced["Process Group Name"]
        assert gathered["Seq"] == 1


def trace_calls(rank, world, folder):
    ones = torch.ones(1000, device=DEVICE)
    gathered = torch.empty(2000, device=DEVICE)

    def body():
        dist.all_reduce(ones)
        dist.all_gather_into_tensor(gathered, ones)

    events = traced(body, folder / f"calls-{rank}.json")
    return [e for e in events if e.get("cat") == "cpu_op"], [e["name"] for e in events]


def test_calls_are_recorded_as_those_of_nccl(two, tmp_path):
    for operators, names in two.run(trace_calls, tmp_path):
        calls = [e["args"] for e in operators if e["name"] == "record_param_comms"]
        assert [call["Collective name"] for call in calls] == ["all_reduce", "all_gather_into_tensor"]
        assert [call["Out msg nelems"] for call in calls] == [1000, 2000]
        assert all(call["In msg nelems"] == 1000 and call["Group size"] == 2 for call in calls)
        # An event of the call, and the kernel.
        assert names.count("occl:all_reduce") >= 2


def trace_training(rank, world, folder):
    model = DistributedDataParallel(
        torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(8)]).to(DEVICE), bucket_cap_mb=0.5
    )
    batch = torch.ones(2048, 256, device=DEVICE)

    def step():
        model.zero_grad()
        model(batch).sum().backward()

    step()  # the second step rebuilds the buckets
    step()
    return kernels(traced(step, folder / f"training-{rank}.json"))


def test_communication_overlaps_with_backward(two, tmp_path):
    for events in two.run(trace_training, tmp_path):
        reductions = [e for e in events if e["name"] == "occl:all_reduce"]
        others = [e for e in events if not e["name"].startswith("occl:")]
        assert len(reductions) > 2
        assert len({e["tid"] for e in reductions}) == 1
        assert all(e["tid"] != reductions[0]["tid"] for e in others)
        # The first bucket is reduced while the backward pass goes on.
        assert min(e["ts"] for e in reductions) < max(e["ts"] for e in others)
