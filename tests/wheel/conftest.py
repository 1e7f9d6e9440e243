"""The environment of the wheel's tests."""

import pathlib
import venv

import pytest
from wheel_environment import built_wheel, install, link_packages, site_of


@pytest.fixture(scope="session")
def environment(tmp_path_factory) -> pathlib.Path:
    """A virtual environment with torch, its dependencies and the wheel."""
    home = tmp_path_factory.mktemp("elsewhere")
    venv.create(home / "env", with_pip=False, symlinks=True)
    site = site_of(home / "env")
    link_packages(site)
    install(home / "env", site, str(built_wheel()))
    return home / "env"
