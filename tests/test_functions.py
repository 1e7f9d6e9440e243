"""docs/functions.md is complete and correct."""

import functions
import pytest
import torch


def test_every_public_name_is_present_and_tested_or_has_a_reason():
    assert functions.problems() == []


@pytest.mark.skipif(
    functions.PAGE.made_with_another_torch(), reason="the page was made with another version of torch"
)
def test_page_is_up_to_date():
    assert not functions.PAGE.is_old(), "run tools/functions.py"


def test_modules_and_names_are_found():
    rows = {row.name: row.state for _, rows in functions.sections() for row in rows}
    assert rows["synchronize"] == "present" and rows["memory_stats"] == "present"
    assert rows["current_blas_handle"] == "absent" and rows["CudaError"] == "elsewhere"
    assert rows["tunable.enable"] == "absent"
    assert len(rows) > 150


# ---- The checks detect errors


def test_a_new_function_of_cuda_is_detected(monkeypatch):
    monkeypatch.setattr(torch.cuda, "__all__", [*torch.cuda.__all__, "teleport"])
    assert (
        "torch.cuda has teleport, but torch.openreg has not, and no reason is listed" in functions.problems()
    )


def test_a_present_function_listed_as_absent_is_detected(monkeypatch):
    monkeypatch.setattr(torch.openreg, "temperature", lambda: 20, raising=False)
    assert "temperature is listed as not present, but torch.openreg has it" in functions.problems()


def test_a_function_without_a_test_is_detected(monkeypatch):
    monkeypatch.setattr(functions, "sources", dict)
    assert "synchronize is present, but no test uses it" in functions.problems()


@pytest.mark.parametrize("table", ["ABSENT", "ELSEWHERE"])
def test_a_name_that_cuda_does_not_have_is_detected(monkeypatch, table):
    monkeypatch.setitem(getattr(functions, table), "gone", "torch.gone")
    assert "gone is listed, but torch.cuda has no such name" in functions.problems()


def test_a_replacement_that_does_not_exist_is_detected(monkeypatch):
    monkeypatch.setitem(functions.ELSEWHERE, "CudaError", "torch.gone")
    assert "torch.gone is listed as the replacement of CudaError, but does not exist" in functions.problems()
