"""torchmetrics: metrics with their state on the device give the CPU's values."""

import pytest
import torch
from missing_libraries import library

tm = library("torchmetrics")

pytestmark = pytest.mark.filterwarnings("ignore")

CLASSES = {"task": "multiclass", "num_classes": 4}
CLASSIFICATION = {
    "accuracy": lambda: tm.Accuracy(**CLASSES),
    "f1": lambda: tm.F1Score(**CLASSES, average="macro"),
    "auroc": lambda: tm.AUROC(**CLASSES),
    "auroc in bins": lambda: tm.AUROC(**CLASSES, thresholds=20),
    "average precision": lambda: tm.AveragePrecision(**CLASSES),
    "confusion": lambda: tm.ConfusionMatrix(**CLASSES),
    "calibration": lambda: tm.CalibrationError(**CLASSES),
    "kappa": lambda: tm.CohenKappa(**CLASSES),
}
REGRESSION = {
    "mse": tm.MeanSquaredError,
    "mae": tm.MeanAbsoluteError,
    "r2": tm.R2Score,
    "pearson": tm.PearsonCorrCoef,
    "spearman": tm.SpearmanCorrCoef,
    "explained": tm.ExplainedVariance,
}


def compare(make, batches) -> None:
    ours, theirs = make().to("openreg"), make()
    for batch in batches:
        ours.update(*(tensor.to("openreg") for tensor in batch))
        theirs.update(*batch)
    value = ours.compute()
    assert value.is_openreg
    torch.testing.assert_close(value.cpu(), theirs.compute(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", CLASSIFICATION)
def test_classification(name):
    torch.manual_seed(0)
    batches = [(torch.randn(50, 4).softmax(1), torch.randint(4, (50,))) for _ in range(3)]
    compare(CLASSIFICATION[name], batches)


@pytest.mark.parametrize("name", REGRESSION)
def test_regression(name):
    torch.manual_seed(0)
    batches = [(x, x * 0.5 + torch.randn(40) * 0.3) for x in (torch.randn(40), torch.randn(40))]
    compare(REGRESSION[name], batches)


def test_collections_are_reset_and_moved():
    metrics = tm.MetricCollection({"mean": tm.MeanMetric(), "sum": tm.SumMetric()}).to("openreg")
    metrics.update(torch.tensor([1.0, 2.0], device="openreg"))
    assert {name: value.item() for name, value in metrics.compute().items()} == {"mean": 1.5, "sum": 3}
    metrics.reset()
    metrics.to("cpu").update(torch.tensor([4.0]))
    assert metrics.compute()["sum"].item() == 4 and metrics.compute()["sum"].device.type == "cpu"


def test_metric_on_the_cpu_raises_for_device_tensors():
    metric = tm.Accuracy(**CLASSES)
    with pytest.raises(RuntimeError, match="same device"):
        metric.update(torch.randn(5, 4, device="openreg"), torch.randint(4, (5,), device="openreg"))
