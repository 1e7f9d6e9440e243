"""Errors of kernels without a later synchronization are reported at process exit, with the location of the launch."""

import textwrap

import pytest
from interpreter import python
from vendor import minimal_driver

SCHEDULES = ("async", "adversarial")
SAYS = "kernel failure not reported before exit"


def run(folder, source, **options):
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "program.py"
    script.write_text(textwrap.dedent(source))
    return script, python(str(script), **options)


FAILS = """\
import torch
x = torch.arange(4.0).to("openreg")
index = torch.tensor([9]).to("openreg")
x[index]
"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_failed_kernel_is_reported_at_exit(tmp_path, schedule):
    script, done = run(tmp_path, FAILS, OPENREG_SCHEDULE=schedule)
    assert done.stderr.count(SAYS) == 1
    for text in ("aten::index", "out of bounds", "Float[4]", f"launched at {script}:4 in <module>"):
        assert text in done.stderr


def test_each_stream_reports_its_failure(tmp_path):
    _, done = run(
        tmp_path,
        """
        import torch
        x, index = torch.arange(4.0).to("openreg"), torch.tensor([9]).to("openreg")
        for _ in range(2):
            with torch.openreg.stream(torch.openreg.Stream()):
                x[index]
        raise SystemExit(3)
        """,
        code=3,
    )
    assert done.stderr.count(SAYS) == 2


POLL = "while not torch.openreg.current_stream().query(): pass"


@pytest.mark.parametrize("call", ["torch.openreg.synchronize()", POLL])
def test_raised_errors_are_not_reported_again(tmp_path, call):
    source = FAILS + f"try:\n    {call}\nexcept torch.AcceleratorError:\n    pass\n"
    _, done = run(tmp_path, source)
    assert SAYS not in done.stderr


def test_an_uncaught_error_is_reported_once(tmp_path):
    _, done = run(tmp_path, FAILS + "torch.openreg.synchronize()\n", code=1)
    assert SAYS not in done.stderr and done.stderr.count("out of bounds") == 1


def test_successful_work_reports_nothing(tmp_path):
    _, done = run(tmp_path, "import torch\ntorch.ones(3, device='openreg') + 1\n")
    assert done.stderr == ""


@pytest.mark.parametrize("folder", ["torch", "torch_openreg", "plain"])
def test_location_of_the_launch(tmp_path, folder):
    """Frames of the installed packages are skipped; frames in other folders with the same names are not."""
    script, done = run(
        tmp_path / folder / "inner",
        """
        import torch
        def look_up(table, index):
            return torch.nn.functional.embedding(index, table)
        look_up(torch.zeros(4, 2, device="openreg"), torch.tensor([9]).to("openreg"))
        """,
    )
    assert f"launched at {script}:4 in look_up" in done.stderr


@pytest.mark.parametrize(
    "launch",
    [
        "torch.ops.refusing.check(x)",
        "x.int() // torch.zeros_like(x.int())",
        "torch.div(x.int(), torch.zeros_like(x.int()), rounding_mode='floor')",
        "torch.gather(x, 0, x.long() + 9)",
        "torch.bernoulli(x + 9)",
    ],
)
def test_data_dependent_errors_have_the_location_of_the_launch(tmp_path, launch):
    script, done = run(
        tmp_path,
        f"""
        import torch
        def check(x):
            raise ValueError("no " + "such " * 200 + "thing")
        library = torch.library.Library("refusing", "DEF")
        library.define("check(Tensor x) -> Tensor")
        library.impl("check", check, "CPU")
        library.impl("check", torch.empty_like, "Meta")
        x = torch.arange(4.0).to("openreg")
        {launch}
        """,
    )
    assert f"launched at {script}:10 in <module>" in done.stderr


LONG_PATH = """
import torch

def f():
    x = torch.zeros(3, device="openreg")
    x[torch.tensor([11], device="openreg")]
    torch.openreg.synchronize()

import sys
code = f.__code__.replace(co_filename="/" + "p" * int(sys.argv[1]) + "\N{LATIN SMALL LETTER E WITH ACUTE}" * 400 + "/end.py")
try:
    exec(code)
except torch.AcceleratorError as error:
    print(error)
"""


@pytest.mark.parametrize("offset", range(4))
def test_a_long_path_leaves_the_reason(offset):
    """At each offset in a character at which a buffer may end."""
    output = python("-c", LONG_PATH, str(offset)).stdout
    assert "index 11 is out of bounds for dimension 0 with size 3" in output
    assert "launched at ..." in output and "/end.py:6 in f]" in output and "?" not in output


def test_a_small_buffer_of_the_driver_leaves_the_reason(tmp_path):
    output = python("-c", LONG_PATH, "0", OPENREG_DRIVER=str(minimal_driver(tmp_path))).stdout
    assert "index 11 is out of bounds for dimension 0 with size 3 [arguments:" in output and "?" not in output
