"""Decompositions raise LinAlgError at the call, as on CUDA; variants that return a status do not synchronize."""

import pytest
import torch
from blocked_stream import held
from captures import capture
from interpreter import execute

DEVICE = "openreg"


def singular(device: str) -> torch.Tensor:
    return torch.zeros(3, 3, device=device)


def batch(device: str) -> torch.Tensor:
    return torch.stack([torch.eye(3, device=device), torch.zeros(3, 3, device=device)])


def not_finite(device: str) -> torch.Tensor:
    return torch.full((3, 3), torch.nan, device=device)


def low_rank(device: str) -> torch.Tensor:
    return torch.tensor([[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]], device=device)


def ones_like_column(a: torch.Tensor) -> torch.Tensor:
    return torch.ones(*a.shape[:-1], 1, device=a.device)


linalg = torch.linalg
FAILS = {
    "inv": (linalg.inv, singular),
    "inv of a batch": (linalg.inv, batch),
    "inv, out": (lambda a: linalg.inv(a, out=torch.empty_like(a)), singular),
    "inverse": (torch.inverse, singular),
    "inv_ex, checked": (lambda a: linalg.inv_ex(a, check_errors=True), singular),
    "tensorinv": (lambda a: linalg.tensorinv(a, ind=1), singular),
    "cholesky": (linalg.cholesky, singular),
    "cholesky of a batch": (linalg.cholesky, batch),
    "cholesky_ex, checked": (lambda a: linalg.cholesky_ex(a, check_errors=True), singular),
    "torch.cholesky": (getattr(torch, "cholesky", linalg.cholesky), singular),  # removed in later versions
    "cholesky_inverse": (torch.cholesky_inverse, singular),
    "solve": (lambda a: linalg.solve(a, ones_like_column(a)), singular),
    "solve_ex, checked": (lambda a: linalg.solve_ex(a, ones_like_column(a), check_errors=True), singular),
    "lu_factor": (linalg.lu_factor, singular),
    "lu_factor_ex, checked": (lambda a: linalg.lu_factor_ex(a, check_errors=True), batch),
    "ldl_factor": (linalg.ldl_factor, singular),
    "eigh": (linalg.eigh, not_finite),
    "eigvalsh": (linalg.eigvalsh, not_finite),
    "eig": (linalg.eig, not_finite),
    "svd": (linalg.svd, not_finite),
    "svdvals": (linalg.svdvals, not_finite),
    "lstsq": (lambda a: linalg.lstsq(a, ones_like_column(a), driver="gels"), low_rank),
    "matrix_power": (lambda a: linalg.matrix_power(a, -1), singular),
    "pinv": (linalg.pinv, not_finite),
    "cond": (lambda a: linalg.cond(a, 2), not_finite),
    "matrix_rank": (linalg.matrix_rank, not_finite),
}


def outcome(call, matrix, device: str) -> tuple[type, str] | None:
    try:
        call(matrix(device))
    except RuntimeError as error:
        return type(error), str(error).splitlines()[0]
    return None


@pytest.mark.parametrize("name", FAILS)
def test_data_dependent_errors_are_raised_at_the_call(name, each_schedule):
    call, matrix = FAILS[name]
    expected = outcome(call, matrix, "cpu")
    for _ in range(2):  # with an empty launch cache, and with a full one
        assert outcome(call, matrix, DEVICE) == expected
    torch.openreg.synchronize()  # raises nothing


STATUS = {
    "inv_ex": linalg.inv_ex,
    "cholesky_ex": linalg.cholesky_ex,
    "solve_ex": lambda a: linalg.solve_ex(a, ones_like_column(a)),
    "lu_factor_ex": linalg.lu_factor_ex,
    "ldl_factor_ex": linalg.ldl_factor_ex,
}


@pytest.mark.parametrize("name", STATUS)
def test_a_status_is_returned_without_synchronization(name):
    a = singular(DEVICE)
    STATUS[name](a)
    with held(torch.openreg.current_stream()), torch.openreg.assert_no_sync():
        info = STATUS[name](a)[-1]
    assert info.item() == STATUS[name](singular("cpu"))[-1].item()


@pytest.mark.parametrize("name", ["eigh", "svd", "inv", "inv_ex, checked"])
def test_error_checks_are_reported_as_synchronization(name):
    call, _ = FAILS[name]
    with pytest.raises(AssertionError, match="synchronizing"), torch.openreg.assert_no_sync():
        call(torch.eye(3, device=DEVICE))


@pytest.mark.parametrize("name", ["eigh", "svd", "inv", "cholesky", "lstsq", "inv_ex, checked"])
def test_error_checks_are_rejected_in_a_capture(name, each_schedule):
    call, _ = FAILS[name]
    a = torch.eye(3, device=DEVICE)
    with pytest.raises(RuntimeError, match=r"is invalid: .*the operator 'aten::"):
        capture(lambda: call(a))
    assert capture(lambda: linalg.inv_ex(a))[1][1].item() == 0


LARGE_BATCH = """
import torch
assert torch.get_num_threads() > 1
x = (torch.eye(616) * 2 + torch.ones(616, 616) / 616).repeat(8, 1, 1)
expected = torch.linalg.lu_factor_ex(x[:1]).pivots.expand(8, 616)
for _ in range(5):
    assert torch.equal(torch.linalg.lu_factor_ex(x.to("openreg")).pivots.cpu(), expected)
"""


@pytest.mark.skipif(torch.get_num_threads() < 2, reason="MKL is wrong only with several threads")
def test_large_batches_with_several_threads():
    """at::set_num_threads breaks MKL's LU; the device does not call it."""
    execute(LARGE_BATCH)


def test_gradient_of_the_infinity_norm_of_complex_numbers():
    """The formula selects elements whose abs equals the norm, so both must round alike; else it divides zero by zero."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(500):
        x = torch.randn(25, dtype=torch.complex128, generator=generator).to("openreg").requires_grad_()
        torch.linalg.vector_norm(x, float("inf")).backward()
        assert not x.grad.isnan().any()
