"""Autoload: `import torch` loads the device, in any order of imports. A GPU stays the accelerator.

Most tests run in a separate interpreter. tests/test_autoload_failures.py tests failures. See docs/guide/autoload.md.
"""

import json
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from broken_installs import other_torch
from interpreter import WORKS, backend, copy_of_installed, doctor, execute, python
from vendor import minimal_driver, vendor_package

from torch_openreg import _gpu

ROOT = Path(__file__).parent.parent
IMPORT_LIMIT = 0.025  # seconds that autoload may add to `import torch`


# A backend that torch loads before ours. Simulates a torch with CUDA, and a machine with CUDA's driver.
GPU = """
import os
import torch

def autoload():
    exists = os.path.exists
    os.path.exists = lambda path: path == "/dev/nvidiactl" or exists(path)
    torch.version.cuda = "12.8"
    torch.cuda._device_count_nvml = lambda: int(os.environ["GPUS"])
"""
# Checks that `import torch` did not load the device, and did not warn.
UNCHANGED = """
import sys, warnings
warnings.simplefilter("error")
import torch
assert not [name for name in sys.modules if name.partition(".")[0] == "torch_openreg"]
assert not hasattr(torch, "openreg") and not hasattr(torch.Tensor, "openreg")
assert torch._C._get_privateuse1_backend_name() == "privateuseone"
assert str(torch.accelerator.current_accelerator()) in ("None", "cuda")  # a torch with CUDA returns CUDA
"""


# ---- Import


@pytest.mark.parametrize(
    "first",
    [
        "import torch",
        "import torch_openreg",
        "import torch_openreg.openreg",
        "import torch_openreg.doctor",
        "import torch.openreg",
        "from torch_openreg import _C",
    ],
)
def test_any_import_may_come_first(first: str) -> None:
    execute(f"import warnings; warnings.simplefilter('error')\n{first}\n{WORKS}")


def test_import_torch_alone_provides_the_device() -> None:
    execute(
        WORKS
        + """
import importlib
importlib.reload(torch_openreg)
assert torch_openreg._autoload() is torch_openreg._autoload() is torch.openreg
assert torch.get_device_module("openreg") is torch.get_device_module() is torch.openreg
assert torch_openreg.__version__ == torch_openreg._build.VERSION

tensor = torch.ones(2)
assert not tensor.is_openreg and tensor.openreg().is_openreg
assert next(torch.nn.Linear(1, 1).openreg().parameters()).is_openreg
assert tensor.untyped_storage().openreg().is_openreg
packed = torch.nn.utils.rnn.pack_sequence([tensor])
assert not packed.is_openreg and packed.openreg().is_openreg
"""
    )


def test_import_in_threads() -> None:
    execute(
        f"""
        import threading
        failures = []
        def body():
            try:
                exec({WORKS!r}, {{}})
            except BaseException as error:
                failures.append(error)
        threads = [threading.Thread(target=body) for _ in range(2)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert not failures, failures
        """
    )


def test_concurrent_imports_of_torch_and_of_the_package(tmp_path: Path) -> None:
    """During the import of torch, another thread imports the package: each holds an import lock that the other needs."""
    backend(
        tmp_path,
        "importer",
        """
        import threading
        def other():
            import torch_openreg
        def autoload():
            thread = threading.Thread(target=other)
            thread.start()
            thread.join(0.5)  # it ends, or waits for this import of torch; both are valid
        """,
    )
    execute(
        "import torch, importer, threading\nassert 'torch_openreg' in __import__('sys').modules\n" + WORKS,
        path=[tmp_path],
    )


def test_python_m_and_a_spawned_child(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        f"""
import multiprocessing
import torch

def work(queue):
    exec({WORKS!r}, {{}})
    queue.put(torch.openreg.device_count())

if __name__ == "__main__":
    exec({WORKS!r}, {{}})
    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    child = context.Process(target=work, args=(queue,))
    child.start()
    child.join()
    assert child.exitcode == 0 and queue.get() == torch.openreg.device_count()
"""
    )
    python("-m", "program", cwd=tmp_path)


def test_without_autoload_torch_is_unchanged_until_the_package_is_imported() -> None:
    execute(
        """
        import sys, torch
        assert not hasattr(torch, "openreg") and not hasattr(torch.Tensor, "openreg")
        assert not [name for name in sys.modules if "openreg" in name]
        assert torch._C._get_privateuse1_backend_name() == "privateuseone"
        """
        + WORKS.replace("\n", "\n        "),
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )


# ---- Cost


def test_import_allocates_no_resources() -> None:
    """No thread, file descriptor or device memory, and none of torch's large modules."""
    look = """
        import json, os, sys, torch
        heavy = [name for name in ("torch._dynamo", "torch._inductor") if name in sys.modules]
        files = len(os.listdir("/proc/self/fd"))
        threads = len(os.listdir("/proc/self/task"))
        memory = "memfd:" in open("/proc/self/maps").read()
        assert not hasattr(torch, "openreg") or not torch.openreg.is_initialized()
        print(json.dumps([heavy, files, threads, memory]))
    """
    heavy, files, threads, memory = json.loads(execute(look))
    _, files_without, threads_without, _ = json.loads(execute(look, TORCH_DEVICE_BACKEND_AUTOLOAD="0"))
    assert (heavy, files, threads, memory) == ([], files_without, threads_without, False)


@pytest.mark.timing
def test_import_time(tmp_path: Path) -> None:
    """The time of the last step of `import torch`, with and without our entry point: the minimum of alternating runs.

    Only this step is timed, since the time of `import torch` varies by several times the limit. The previous test
    shows that autoload does not change the rest of the import. On a busy machine there are more runs: the minimum
    of all runs counts. On a slow machine, on which `import torch` takes more than a second, the limit is relative.
    """
    backend(tmp_path, "torch_openreg", "")
    (entry_points,) = tmp_path.glob("*/entry_points.txt")
    entry_points.unlink()
    (tmp_path / "torch_openreg.py").unlink()
    source = """
        import time
        start = time.perf_counter()
        import torch
        imported = time.perf_counter()
        torch._import_device_backends()
        print(imported - start, time.perf_counter() - imported, hasattr(torch, "openreg"))
    """
    imports: list[float] = []
    times: dict[str, list[float]] = {"True": [], "False": []}
    for _ in range(15):
        for path in [], [tmp_path]:
            whole, seconds, with_device = execute(
                source, path=path, TORCH_DEVICE_BACKEND_AUTOLOAD="0"
            ).split()
            imports.append(float(whole))
            times[with_device].append(float(seconds))
        added = min(times["True"]) - min(times["False"])
        limit = IMPORT_LIMIT * max(1.0, min(imports))
        if len(times["True"]) >= 3 and added <= limit:
            break
    print(f"{added * 1e3:.1f} ms: {sorted(times['True'])} with the device, {sorted(times['False'])} without")
    assert added <= limit


# ---- On a machine with a GPU


@pytest.mark.parametrize("count", ["1", "-1"])
def test_a_gpu_stays_the_accelerator_after_import_torch(count: str, tmp_path: Path) -> None:
    """Also with a driver that cannot count its GPUs. A program loads the device by importing the package."""
    backend(tmp_path, "agpu", GPU)
    execute(UNCHANGED + "import torch_openreg\n" + WORKS, path=[tmp_path], GPUS=count, OPENREG_AUTOLOAD="")


@pytest.mark.parametrize(
    "first", ["import torch_openreg", "import torch_openreg.openreg", "import torch.openreg"]
)
def test_importing_the_package_first_loads_the_device(first: str, tmp_path: Path) -> None:
    backend(tmp_path, "agpu", GPU)
    if first == "import torch.openreg":
        first = f"import torch_openreg\n{first}"
    execute(f"{first}\n{WORKS}", path=[tmp_path], GPUS="1", OPENREG_AUTOLOAD="")


def test_openreg_autoload_overrides_the_search_for_a_gpu(tmp_path: Path) -> None:
    backend(tmp_path, "agpu", GPU)
    execute(WORKS, path=[tmp_path], GPUS="1", OPENREG_AUTOLOAD="1")
    execute(UNCHANGED + "import torch_openreg\n" + WORKS, OPENREG_AUTOLOAD="0")


def test_a_vendors_device_is_loaded_beside_a_gpu(tmp_path: Path) -> None:
    """A vendor's package is installed to be used; the simulated device only if there is nothing else."""
    backend(tmp_path / "gpu", "agpu", GPU)
    path = [tmp_path / "gpu", vendor_package(tmp_path / "vendor", "foo", minimal_driver(tmp_path))]
    program = "import torch\nassert (torch.ones(3, device='foo') + 1).tolist() == [2.0] * 3"
    execute(program, path=path, GPUS="1", FOO_AUTOLOAD="")


@pytest.mark.parametrize("count", ["0", "unknown"])
def test_the_device_is_loaded_without_a_usable_gpu(count: str, tmp_path: Path) -> None:
    """CUDA_VISIBLE_DEVICES may hide all GPUs. An error during the search does not break `import torch`."""
    backend(tmp_path, "agpu", GPU)
    execute(WORKS, path=[tmp_path], GPUS=count, OPENREG_AUTOLOAD="")


def test_a_gpu_stays_the_accelerator_when_the_package_is_broken(tmp_path: Path) -> None:
    other_torch(copy_of_installed(tmp_path))
    backend(tmp_path, "agpu", GPU)
    execute(
        """
        import torch
        import agpu
        agpu.autoload()
        import torch_openreg
        assert torch._C._get_privateuse1_backend_name() == "privateuseone"
        assert str(torch.accelerator.current_accelerator()) in ("None", "cuda")
        assert not torch.openreg.is_available()
        """,
        path=[tmp_path],
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
        GPUS="1",
    )


def test_doctor_reports_the_accelerator(tmp_path: Path) -> None:
    backend(tmp_path, "agpu", GPU)
    text = doctor(0, path=[tmp_path], GPUS="1", OPENREG_AUTOLOAD="")
    assert "torch has a GPU ('cuda'): `import torch` does not load 'openreg'" in text
    assert "OPENREG_AUTOLOAD=1" in text and "a kernel ran" in text


def fake_torch(
    cuda: str | None = None, hip: str | None = None, xpu: str | None = None, count: int = 1
) -> Any:
    counted = []

    def count_gpus() -> int:
        counted.append(count)
        return count

    return SimpleNamespace(
        version=SimpleNamespace(cuda=cuda, hip=hip, xpu=xpu),
        cuda=SimpleNamespace(_device_count_nvml=count_gpus, _device_count_amdsmi=count_gpus),
        xpu=SimpleNamespace(device_count=count_gpus),
        counted=counted,
    )


@pytest.mark.parametrize(
    ("built", "files", "count", "found"),
    [
        ({}, ["/dev/nvidiactl", "/dev/kfd", "/dev/dri"], 1, None),
        ({"cuda": "12.8"}, [], 1, None),
        ({"cuda": "12.8"}, ["/dev/dri", "/dev/kfd"], 1, None),
        ({"cuda": "12.8"}, ["/dev/nvidiactl"], 0, None),
        ({"cuda": "12.8"}, ["/dev/nvidiactl"], 2, "cuda"),
        ({"cuda": "12.8"}, ["/proc/driver/nvidia/version"], -1, "cuda"),
        ({"cuda": "12.8"}, ["/dev/dxg"], 1, "cuda"),
        ({"hip": "6.4"}, ["/dev/kfd"], 1, "cuda"),
        ({"hip": "6.4"}, ["/dev/nvidiactl"], 1, None),
        ({"xpu": "2025"}, ["/dev/dri"], 1, "xpu"),
        ({"xpu": "2025"}, ["/dev/dri"], 0, None),
    ],
)
def test_search_for_a_gpu(built: dict, files: list, count: int, found: str | None, monkeypatch: Any) -> None:
    """Without a driver, GPUs are not counted: a torch with CUDA on a machine without a GPU only checks for files."""
    monkeypatch.setattr(os.path, "exists", lambda path: path in files)
    torch = fake_torch(**built, count=count)
    assert _gpu.find(torch) == found
    assert bool(torch.counted) == (found is not None or count == 0)


def test_functions_of_torch_for_the_search_exist() -> None:
    import torch

    assert torch.cuda._device_count_nvml() <= 0 or torch.version.cuda
    assert callable(torch.cuda._device_count_amdsmi) and hasattr(torch.version, "hip")


# ---- Guide


def test_quotes_in_the_guide_exist() -> None:
    """Each quote is contained, line by line, in the file that was named last before it."""
    guide = (ROOT / "docs/guide/autoload.md").read_text()
    before, *parts = re.split(r"^ *```", guide, flags=re.MULTILINE)
    quotations = 0
    for index, part in enumerate(parts):
        if index % 2 == 0:
            name = re.findall(r"`([\w./]+\.(?:py|toml))`", before)[-1]
            quoted, code = (
                "\n".join(map(str.strip, text.strip().splitlines()))
                for text in (part.partition("\n")[2], (ROOT / name).read_text())
            )
            assert quoted in code, (name, quoted)
            quotations += 1
        else:
            before += part
    assert quotations >= 5


def test_submodules_are_loaded_once() -> None:
    """Also those with the name of a function."""
    execute(
        """
import torch
before = torch.openreg.memory, torch.openreg.stream
import torch.openreg.memory, torch.openreg.stream
import torch_openreg.openreg.memory
assert (torch.openreg.memory, torch.openreg.stream) == before and callable(torch.openreg.stream)
assert torch.openreg.memory is torch_openreg.openreg.memory
"""
    )
