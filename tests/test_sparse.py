"""Sparse tensors, COO and compressed, compared with the CPU."""

import pytest
import torch

INDICES, VALUES = torch.tensor([[0, 1, 2, 0], [2, 0, 1, 2]]), torch.tensor([1.0, 2.0, 3.0, 4.0])
COMPRESSED = [torch.sparse_csr, torch.sparse_csc]


def both() -> tuple[torch.Tensor, torch.Tensor]:
    cpu = torch.sparse_coo_tensor(INDICES, VALUES, (3, 3))
    return cpu, torch.sparse_coo_tensor(INDICES.openreg(), VALUES.openreg(), (3, 3))


def same(mine: torch.Tensor, theirs: torch.Tensor) -> None:
    assert mine.device == torch.device("openreg:0") and mine.layout == theirs.layout
    torch.testing.assert_close(mine.to_dense().cpu(), theirs.to_dense())


@pytest.mark.parametrize(
    "operator",
    [
        lambda s, d: s.coalesce(),
        lambda s, d: s + s,
        lambda s, d: s * 2,
        lambda s, d: s.t(),
        lambda s, d: s.to_dense(),
        lambda s, d: torch.sparse.mm(s, d),
        lambda s, d: torch.sparse.sum(s),
        lambda s, d: d.to_sparse(),
        lambda s, d: s.clone().mul_(3),
        lambda s, d: s.coalesce().values() + 1,
    ],
)
def test_coo_operators(operator):
    cpu, there = both()
    dense = torch.arange(12.0).reshape(3, 4)
    same(operator(there, dense.openreg()), operator(cpu, dense))


def test_coo_properties():
    cpu, there = both()
    assert there._nnz() == 4 and not there.is_coalesced() and there.sparse_dim() == 2
    assert there.cpu().device.type == "cpu" and torch.equal(there.cpu().to_dense(), cpu.to_dense())
    assert "openreg:0" in repr(there)
    same(cpu.openreg(), cpu)


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("layout", COMPRESSED)
def test_compressed_operators(layout):
    dense = torch.tensor([[1.0, 0, 2], [0, 0, 3]])
    cpu, there = dense.to_sparse(layout=layout), dense.openreg().to_sparse(layout=layout)
    same(there, cpu)
    same(there * 2, cpu * 2)
    same(there @ torch.ones(3, 2, device="openreg"), cpu @ torch.ones(3, 2))


def test_sparse_gradients():
    embedding = torch.nn.Embedding(5, 3, sparse=True).openreg()
    embedding(torch.tensor([1, 2, 1], device="openreg")).sum().backward()
    gradient = embedding.weight.grad
    assert gradient.layout == torch.sparse_coo and gradient.is_openreg
    assert gradient.to_dense().sum(1).tolist() == [0, 6, 3, 0, 0]
    before = embedding.weight.detach().clone()
    torch.optim.SparseAdam(embedding.parameters()).step()
    assert not torch.equal(before, embedding.weight)


def test_sparse_tensors_on_a_device_that_is_not_current():
    cpu, first = both()
    second = first.to("openreg:1")
    for sparse in (second, second + second, second.to_dense().to_sparse(), second.coalesce(), second.clone()):
        assert (
            sparse.device == sparse._values().device == sparse._indices().device == torch.device("openreg:1")
        )
    torch.testing.assert_close(second.to_dense().cpu(), cpu.to_dense())
    torch.testing.assert_close((second + second).to_dense().cpu(), 2 * cpu.to_dense())
    torch.testing.assert_close(second.to_dense().to_sparse().to_dense().cpu(), cpu.to_dense())


def test_views_of_pending_tensors():
    """unsqueeze and permute compute new indices, in stream order."""
    indices = torch.tensor([[0, 0, 1], [0, 1, 2]]).to("openreg")
    values = torch.ones(3, device="openreg")
    for _ in range(20):
        torch.openreg._sleep(100_000)
        sparse = torch.sparse_coo_tensor(indices * 1, values * 1, (2, 3)).coalesce()
        sparse._indices().clone()  # its memory is free while the kernel is pending
        assert sparse.unsqueeze(0)._indices().cpu().tolist() == [[0, 0, 0], [0, 0, 1], [0, 1, 2]]
        assert sparse.permute(1, 0)._indices().cpu().tolist() == [[0, 1, 2], [0, 0, 1]]
