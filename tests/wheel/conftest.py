"""The environment of the wheel's tests."""

import pathlib
import sysconfig
import venv
from importlib import metadata

import pytest
from wheel_environment import install, site_of

ROOT = pathlib.Path(__file__).parent.parent.parent
SITE = pathlib.Path(sysconfig.get_paths()["purelib"])


@pytest.fixture(scope="session")
def environment(tmp_path_factory) -> pathlib.Path:
    """A virtual environment with torch, its dependencies and the wheel."""
    minor = ".".join(metadata.version("torch").split(".")[:2])
    found = (ROOT / "dist").glob(f"torch_openreg-*+torch{minor}-*.whl")
    wheels = sorted(found, key=lambda path: path.stat().st_mtime)
    assert wheels, f"no wheel for torch {minor} in dist/: run `make wheel`"
    home = tmp_path_factory.mktemp("elsewhere")
    venv.create(home / "env", with_pip=False, symlinks=True)
    site = site_of(home / "env")
    for entry in SITE.iterdir():
        if not entry.name.startswith(("torch_openreg", "pip", "_torch_openreg")) and entry.suffix != ".pth":
            (site / entry.name).symlink_to(entry)
    install(home / "env", site, str(wheels[-1]))
    return home / "env"
