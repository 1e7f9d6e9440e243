"""examples/drivers/cuda: it builds without CUDA, says what is missing, and trains on an NVIDIA GPU without the CPU."""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from interpreter import execute, installed

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "examples/drivers/cuda"
# Each source of kernels/, and each kind of dtype; all functions take minutes.
KERNELS = (
    "add.float32",
    "add.bool",
    "abs.int8",
    "erf.bfloat16",
    "select.float16",
    "copy.float16",
    "copy.bytes",
)
MORE_KERNELS = (
    "reduce.max",
    "reduce.sum.int32",
    "index.scatter_add",
    "gather.bool",
    "gemm",
    "fill.value.uint8",
)


def compile_cpp(*arguments: object) -> None:
    flags = [
        "-std=c++20",
        "-O1",
        "-fPIC",
        "-fvisibility=hidden",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-I",
        ROOT / "include",
    ]
    subprocess.run(["c++", *flags, *arguments], check=True)


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the object files of the driver, built with a C++ compiler and the headers alone."""
    folder = tmp_path_factory.mktemp("objects")
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        jobs = [
            threads.submit(compile_cpp, "-c", source, "-o", folder / f"{source.stem}.o")
            for source in SOURCES.glob("*.cpp")
        ]
        for job in jobs:
            job.result()
    return folder


@pytest.fixture(scope="module")
def driver(objects: Path) -> Path:
    library = objects / "libnv.so"
    compile_cpp("-shared", *parts_of_the_driver(objects), "-o", library, "-lpthread", "-ldl")
    return library


def parts_of_the_driver(objects: Path) -> list[Path]:
    return [part for part in objects.glob("*.o") if not part.stem.startswith("check_")]


def link_check(objects: Path, name: str) -> Path:
    compile_cpp(
        *parts_of_the_driver(objects), objects / f"{name}.o", "-o", objects / name, "-lpthread", "-ldl"
    )
    return objects / name


def has_gpu() -> bool:
    program = "import ctypes, sys; sys.exit(ctypes.CDLL('libcuda.so.1').cuInit(0))"
    return subprocess.run([sys.executable, "-c", program], capture_output=True).returncode == 0


def has_cuda_driver() -> bool:
    program = "import ctypes; ctypes.CDLL('libcuda.so.1')"
    return subprocess.run([sys.executable, "-c", program], capture_output=True).returncode == 0


needs_gpu = pytest.mark.skipif(not has_gpu(), reason="no NVIDIA GPU")


@pytest.mark.skipif(has_cuda_driver(), reason="this machine has an NVIDIA driver")
def test_without_an_nvidia_driver_the_first_use_says_what_is_missing(driver: Path) -> None:
    message = execute(
        """
        import torch
        assert torch.ones(2).sum() == 2
        try:
            torch.ones(2, device="openreg")
        except RuntimeError as error:
            print(error)
        assert torch.ones(2).sum() == 2
        """,
        OPENREG_DRIVER=str(driver),
    )
    assert "failed in init" in message and str(driver) in message
    assert "cannot load libcuda.so.1" in message and "no NVIDIA driver" in message


@pytest.fixture(scope="module")
def cuda_without_gpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a libcuda.so.1 with one GPU, all of whose functions succeed and do nothing."""
    folder = tmp_path_factory.mktemp("cuda")
    symbols = re.findall(r'"(cu[A-Z]\w+)"', (SOURCES / "cuda_api.h").read_text())
    functions = [f"int {name}(void) {{ return 0; }}" for name in symbols if name != "cuDeviceGetCount"]
    functions.append("int cuDeviceGetCount(int* count) { *count = 1; return 0; }")
    (folder / "cuda.c").write_text("\n".join(functions))
    subprocess.run(
        ["cc", "-w", "-shared", "-fPIC", folder / "cuda.c", "-o", folder / "libcuda.so.1"], check=True
    )
    return folder


COUNT = """
import torch
try:
    print(torch.openreg.device_count())
    torch.ones(2, device="openreg")
except RuntimeError as error:
    print(error)
"""


@pytest.mark.skipif(has_cuda_driver(), reason="this machine has an NVIDIA driver")
@pytest.mark.parametrize("times", ["0", "-1", "2x", "9", "abc"])
def test_a_wrong_number_of_repetitions_is_an_error(driver: Path, cuda_without_gpus: Path, times: str) -> None:
    settings = {"OPENREG_DRIVER": str(driver), "TORCH_NV_LIBRARY_PATH": str(cuda_without_gpus)}
    assert execute(COUNT, **settings, TORCH_NV_REPEAT="3").splitlines()[0] == "3"
    message = execute(COUNT, **settings, TORCH_NV_REPEAT=times)
    assert f"TORCH_NV_REPEAT={times}: expected an integer from 1 to 8" in message


@pytest.mark.skipif(has_cuda_driver(), reason="this machine has an NVIDIA driver")
def test_a_broken_library_of_cuda_is_named(driver: Path, tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").write_text("no library")
    message = execute(COUNT, OPENREG_DRIVER=str(driver), TORCH_NV_LIBRARY_PATH=str(tmp_path))
    assert f"cannot load libcuda.so.1: {tmp_path / 'libcuda.so.1'}" in message


def test_handles_between_processes(objects: Path) -> None:
    subprocess.run([link_check(objects, "check_handles")], check=True, timeout=60)


def test_kernels_compile_with_nvrtc(objects: Path) -> None:
    program = link_check(objects, "check_kernels")
    given = os.environ.get("TORCH_NV_LIBRARY_PATH", "")
    folders = [given, *(str(path.parent) for path in installed().glob("nvidia/**/libnvrtc.so.*"))]
    done = subprocess.run(
        [program, "90", *KERNELS, *MORE_KERNELS],
        capture_output=True,
        text=True,
        env={"TORCH_NV_LIBRARY_PATH": ":".join(folders)},
    )
    if done.returncode == 77:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    assert int(re.match(r"\d+", done.stdout)[0]) >= 40


def test_structs_of_kernels_agree_with_the_host() -> None:
    """Argument blocks are declared twice, in kernels/*.cu and in the C++ file beside it."""
    pairs = {
        "elementwise": ("FlatArgs", "StridedArgs"),
        "reduce": ("ReduceArgs",),
        "index": ("IndexArgs",),
        "matmul": ("MatmulArgs",),
    }
    for file, structs in pairs.items():
        for struct in structs:
            texts = ((SOURCES / "kernels" / f"{file}.cu").read_text(), (SOURCES / f"{file}.cpp").read_text())
            device, host = (members(text, struct) for text in texts)
            assert device == host, f"{struct} of {file}"


def members(text: str, struct: str) -> list[str]:
    """The names of the members of a struct, in order."""
    body = re.search(rf"struct {struct} \{{(.*?)\n\}};", text, re.DOTALL)[1]
    body = re.sub(r"//.*", "", body)
    return re.findall(r"[\s*](\w+)(?:\[\w+\])*(?=\s*[,;])", body)


@needs_gpu
def test_the_driver_conforms(driver: Path) -> None:
    (check,) = [
        path
        for path in (
            Path(sys.executable).parent / "openreg-driver-check",
            installed() / "bin/openreg-driver-check",
        )
        if path.exists()
    ][:1]
    done = subprocess.run([check, driver], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


# Trains on the CPU and on the device, from the same weights and data, and prints operators that ran on the CPU.
TRAINING = """
import copy, torch
from torch_openreg import _C
from torch import nn
import language_model, trainer

def train(model, device, batches, loss_of, step_count):
    model = copy.deepcopy(model).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for inputs, targets in batches[:step_count]:
        optimizer.zero_grad()
        loss = loss_of(model(inputs.to(device)), targets.to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).cpu()

torch.manual_seed(0)
if MODEL == "mlp":
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 8))
    batches = [(torch.randn(128, 64), torch.randn(128, 8)) for _ in range(20)]
    loss_of = lambda output, target: (output - target).square().mean()
else:
    task = language_model.Repetition(trainer.Options())
    model, batches = task.model, [task.batch(step, 0) for step in range(20)]
    loss_of = lambda output, target: nn.functional.cross_entropy(output.flatten(0, 1), target.flatten())

expected = train(model, "cpu", batches, loss_of, 20)
found = train(model, "openreg", batches, loss_of, 20)
torch.testing.assert_close(found, expected, rtol=2e-3, atol=2e-3)
assert expected[-1] < expected[0]
print(sorted(_C.cpu_fallbacks()))
"""


@needs_gpu
@pytest.mark.parametrize("model", ["mlp", "transformer"])
def test_training_gives_the_losses_of_the_cpu(model: str, driver: Path) -> None:
    fallbacks = execute(
        f"MODEL = {model!r}\n" + TRAINING, path=[ROOT / "examples"], OPENREG_DRIVER=str(driver), timeout=300
    )
    assert fallbacks.splitlines()[-1] == "[]"


# A bad index fails the function; the process and the device go on.
@needs_gpu
def test_an_index_out_of_range_is_an_error_at_the_next_synchronization(driver: Path) -> None:
    execute(
        """
        import torch
        table = torch.randn(10, 4, device="openreg")
        try:
            torch.nn.functional.embedding(torch.tensor([3, 11], device="openreg"), table)
            torch.openreg.synchronize()
        except RuntimeError as error:
            assert "11" in str(error), error
        else:
            raise SystemExit("no error")
        assert torch.equal((table + 1).cpu(), table.cpu() + 1)
        """,
        OPENREG_DRIVER=str(driver),
    )


@needs_gpu
def test_the_device_works_beside_torch_cuda(driver: Path) -> None:
    execute(
        """
        import torch
        if torch.cuda.is_available():
            ours, theirs = torch.ones(1000, device="openreg"), torch.ones(1000, device="cuda")
            for _ in range(10):
                ours, theirs = ours * 1.5 + 1, theirs * 1.5 + 1
            assert torch.equal(ours.cpu(), theirs.cpu())
        """,
        OPENREG_DRIVER=str(driver),
    )
