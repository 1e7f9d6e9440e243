"""``python -m torch_openreg ops``: support status of each operator, compared with operator statistics."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from interpreter import python

ROOT = Path(__file__).resolve().parent.parent


def ops(*arguments, **options):
    return python("-m", "torch_openreg", "ops", *arguments, **options)


@pytest.fixture(scope="module")
def op_support():
    return json.loads(ops("--json").stdout)


def test_every_operator_is_listed(op_support):
    names = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
    assert {operator["name"] for operator in op_support["operators"]} == set(names)
    assert sum(op_support["counts"].values()) == len(names)


EXPECTED_SUPPORT = {
    "aten::view": "device",
    "aten::_copy_from": "device",
    "aten::tril": "cpu",
    "aten::fmod.Tensor": "cpu",
    "aten::nonzero": "cpu_sync",
    "aten::_local_scalar_dense": "cpu_sync",
    "aten::unfold": "device",
    "aten::transpose.int": "view",
    "aten::linear": "composite",
    "aten::reshape": "composite",
    "aten::_cudnn_init_dropout_state": "missing",
}


def test_support_of_known_operators(op_support):
    found = {operator["name"]: operator["support"] for operator in op_support["operators"]}
    assert {name: found[name] for name in EXPECTED_SUPPORT} == EXPECTED_SUPPORT


def test_support_agrees_with_operator_statistics(op_support):
    support = {operator["name"]: operator["support"] for operator in op_support["operators"]}
    torch.openreg.reset_operator_stats()
    with torch.openreg.record_operator_stats():
        a = torch.ones(4, 4, device="openreg")
        a.fmod(a).tril().cumsum(1).nonzero()
        a.unfold(0, 2, 2).masked_select(a.view(2, 4, 2) > 0).unique().max().item()
    stats = torch.openreg.operator_stats()
    assert {support[name] for name in stats} >= {"cpu", "cpu_sync"}
    for name, record in stats.items():
        assert record.waits == (record.calls if support[name] == "cpu_sync" else 0), name
        assert record.launches == (record.calls if support[name] == "cpu" else 0), name


def test_text_output_is_aligned_and_filtered():
    lines = ops("aten::fmod.").stdout.splitlines()
    assert lines[0] == "operator               support"
    assert "aten::fmod.Tensor      cpu" in lines
    assert "aten::fmod.Scalar      composite" in lines
    assert not [line for line in lines if line.startswith("aten::") and "aten::fmod." not in line]


def test_published_table_is_current():
    page = (ROOT / "docs" / "operators.md").read_text()
    minor = torch.__version__.rsplit(".", 1)[0]
    if f"torch {minor} " not in page:
        pytest.skip(f"docs/operators.md is not about torch {minor}")
    assert len(page) < 200_000
    assert page == ops("--markdown").stdout, "python -m torch_openreg ops --markdown > docs/operators.md"


MODEL = """
import torch

def train():
    model = torch.nn.Linear(2, 1).to("openreg")
    for _ in range(3):
        model(torch.ones(4, 2).to("openreg")).tril().sum().backward()

def fails():
    torch.ones(3, device="openreg").nonzero()
    raise KeyError("on purpose")

nothing = 3
"""


@pytest.mark.parametrize("schedule", ["async", "blocking"])
def test_operators_of_a_model(tmp_path, schedule):
    (tmp_path / "model.py").write_text(MODEL)
    output = ops("--model", "model.py:train", cwd=tmp_path, OPENREG_SCHEDULE=schedule).stdout
    rows = {line.split()[0]: line.split() for line in output.splitlines()}
    assert rows["operator"][:6] == ["operator", "support", "calls", "launches", "hits", "misses"]
    assert rows["aten::tril"][1:4] == ["cpu", "6", "6"]
    records = json.loads(ops("--json", "--model", "model.py:train", cwd=tmp_path).stdout)
    assert records["aten::tril"]["calls"] == 6 and records["aten::_copy_from"]["support"] == "device"


def test_model_that_raises_lists_the_operators_before_the_error(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    done = ops("--model", "model.py:fails", cwd=tmp_path, code=1)
    assert "aten::nonzero" in done.stdout and "on purpose" in done.stderr
    for where in ("model.py:nothing", "model.py:absent", "model.py", "absent.py:train"):
        assert where.partition(":")[0] in ops("--model", where, cwd=tmp_path, code=1).stderr


def test_dispatch_of_an_operator():
    output = ops("--dispatch", "aten::fmod.Tensor").stdout
    lines = {line.split()[0]: line for line in output.splitlines() if line}
    assert "the host engine" in lines["PrivateUse1"]
    assert "autograd" in lines["AutogradPrivateUse1"]
    assert "a kernel for this key" in lines["CPU"]
    assert "CompositeExplicitAutogradNonFunctional" in lines and "CompositeImplicitAutograd" not in lines
    own = ops("--dispatch", "aten::view").stdout
    assert "PrivateUse1          a kernel for this key" in own and "factory_and_view_ops.cpp" in own
    assert "aten::fmod.Tensor" in ops("--dispatch", "aten::fmod", code=1).stderr


def test_a_reader_that_stops_early():
    """As `| head`."""
    command = f"{sys.executable} -m torch_openreg ops | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.returncode == 141 and not done.stderr and len(done.stdout.splitlines()) == 1
