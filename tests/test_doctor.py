"""`python -m torch_openreg doctor`, in a separate interpreter. See docs/guide/autoload.md."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from broken_installs import BROKEN
from interpreter import copy_of_installed, doctor, python

from torch_openreg import _elf, _loader


def test_doctor_of_a_healthy_installation() -> None:
    text = doctor(0, OPENREG_NOTE="1", PYTORCH_ALLOC_CONF="", TORCH_DEVICE_BACKEND_AUTOLOAD="true")
    for expected in (
        "libopenreg.so: loads",
        "libtorch_openreg.so: loads",
        "PrivateUse1",
        "torch_openreg = torch_openreg:_autoload, from torch_openreg",
        "OPENREG_NOTE=1",
        "PYTORCH_ALLOC_CONF=",
        "TORCH_DEVICE_BACKEND_AUTOLOAD=true (off:",
        "a kernel ran: [1, 1] + 1 = [2.0, 2.0]",
        "Healthy",
    ):
        assert expected in text, text
    report = json.loads(doctor(0, "--json"))
    assert report["healthy"] and all(finding["ok"] for finding in report["findings"])


@pytest.mark.parametrize("state", BROKEN)
def test_doctor_of_a_broken_installation(state: str, tmp_path: Path) -> None:
    break_it, expected = BROKEN[state]
    break_it(copy_of_installed(tmp_path))
    text = doctor(1, path=[tmp_path])
    findings, _, remedies = text.partition("What to do:")
    assert remedies.strip()
    expected = ["2.4.1"] if state == "other torch" else expected
    assert all(word in findings for word in expected), text
    assert findings.count("held by 'openreg'") == 0


def test_doctor_reports_a_crash_during_import(tmp_path: Path) -> None:
    package = copy_of_installed(tmp_path)
    (package / "openreg/__init__.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    assert "killed by SIGSEGV while importing torch" in doctor(1, path=[tmp_path])


def test_without_torch(tmp_path: Path) -> None:
    """The package can be imported and warns that the device is unavailable; the doctor works."""
    (tmp_path / "torch.py").write_text("raise ImportError('libtorch_cpu.so: cannot open shared object file')")
    done = python(
        "-c", "import torch_openreg; print(torch_openreg._autoload().device_count())", path=[tmp_path]
    )
    assert done.stdout.strip() == "0" and done.stderr.count("cannot open shared object file") == 1
    text = doctor(1, path=[tmp_path])
    assert "cannot be imported: ImportError: libtorch_cpu.so" in text and "libopenreg.so: loads" in text
    assert "install torch, or repair it" in text


def test_doctor_of_a_copied_folder(tmp_path: Path) -> None:
    """Without the metadata that pip writes, the package works when imported, but torch does not find it."""
    copied = copy_of_installed(tmp_path)
    (empty,) = tmp_path.glob("torch_openreg-*")
    (empty / "entry_points.txt").unlink()
    assert copied.is_dir()
    assert "none for torch_openreg" in doctor(1, path=[tmp_path])


def link(target: Path, *flags: str) -> Path:
    """Builds a small C++ library."""
    source = target.parent / "text.cpp"
    source.write_text("#include <sstream>\nvoid text(std::ostringstream& s) { s << 1.5; }\n")
    target.unlink(missing_ok=True)
    subprocess.run(["c++", "-shared", "-fPIC", *flags, source, "-o", target], check=True)
    return target


def test_doctor_detects_a_statically_linked_libstdcxx(tmp_path: Path) -> None:
    """Such a library loads and works, until it formats a number."""
    link(copy_of_installed(tmp_path) / "lib/libopenreg.so", "-static-libstdc++")
    findings, _, remedies = doctor(1, path=[tmp_path]).partition("What to do:")
    found = [line for line in findings.splitlines() if "not linked with the shared libstdc++" in line]
    assert len(found) == 1 and "libopenreg.so" in found[0] and "CXX=/usr/bin/g++" in remedies


def test_needed_libraries_agree_with_readelf(tmp_path: Path) -> None:
    for path in [*_loader.libraries(), str(link(tmp_path / "shared.so"))]:
        found = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
        assert _elf.needed(path) == re.findall(r"NEEDED.*\[(.*)\]", found)
        assert any(name.startswith("libstdc++.so") for name in _elf.needed(path)), path
    static = link(tmp_path / "static.so", "-static-libstdc++")
    assert not any(name.startswith("libstdc++") for name in _elf.needed(str(static)))


def test_a_truncated_library_is_rejected(tmp_path: Path) -> None:
    whole = Path(_loader.libraries()[0]).read_bytes()
    for length in (0, 3, 63, 64, 200, 1000, 5000, len(whole) // 2):
        (tmp_path / "cut.so").write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"cut\.so"):
            _elf.needed(str(tmp_path / "cut.so"))
