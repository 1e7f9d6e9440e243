"""The example packages of examples/autoload, installed together. See docs/guide/autoload.md."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from interpreter import WORKS, execute

EXAMPLES = Path(__file__).resolve().parent.parent / "examples" / "autoload"


@pytest.fixture(scope="session")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both packages, built and installed into a separate folder."""
    root = tmp_path_factory.mktemp("examples")
    shutil.copytree(EXAMPLES, root / "source")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
    ]
    sources = [root / "source" / name for name in ("torch_foo", "torch_bar")]
    subprocess.run([*pip, "--target", root / "site", *sources], check=True, cwd=root, capture_output=True)
    return root / "site"


@pytest.mark.parametrize(
    "first", ["import torch", "import torch_foo.torch", "import torch_bar", "import torch_openreg"]
)
def test_examples_work_together_with_each_other_and_the_package(first: str, examples: Path) -> None:
    execute(
        f"{first}\n{WORKS}"
        + """
import os, torch_foo.torch, torch_bar
assert torch.foo is torch_foo.torch is sys.modules["torch.foo"]
assert torch.bar is torch_bar is sys.modules["torch.bar"]
assert torch.foo.is_available() and torch.foo.device_count() == 2
assert not torch.bar.is_available() and torch.bar.device_count() == 0
assert "TORCH_DEVICE_BACKEND_AUTOLOAD" not in os.environ
""",
        path=[examples],
        TORCH_FOO_DEVICES="2",
    )


@pytest.mark.parametrize("value", ["0", "1"])
def test_bar_restores_the_environment_variable(value: str, examples: Path) -> None:
    execute(
        f"""
        import torch_bar, torch, os
        assert os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] == "{value}"
        assert torch.bar is torch_bar
        assert hasattr(torch, "foo") == hasattr(torch, "openreg") == ({value} == 1)
        """,
        path=[examples],
        TORCH_DEVICE_BACKEND_AUTOLOAD=value,
    )


def test_foo_resets_its_flag_when_torch_fails(examples: Path, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('broken')")
    execute(
        """
        import torch_foo
        try:
            import torch_foo.torch
        except ImportError:
            assert not torch_foo.is_loaded
        else:
            raise AssertionError
        """,
        path=[tmp_path, examples],
    )
