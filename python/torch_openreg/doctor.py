"""``python -m torch_openreg doctor``: what is installed, whether it works, and what to do if it does not.

What may fail or crash is tried in a child process, which tells each step before it takes it; so the doctor
itself needs neither torch nor a library that loads.
"""

import argparse
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any

from torch_openreg import _elf, _loader, _unavailable

HELP = "say what is installed, whether it works, and what to do if it does not"
GROUP = "torch.backends"
AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
MARK = (
    "torch_openreg doctor: "  # begins the lines of a child that are for us; importing torch may print others
)
CHILD_SECONDS = 300
REPORT = "if it happens again after that, report it with what this command prints"


@dataclass
class Finding:
    topic: str
    text: str
    ok: bool = True
    remedy: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.add_argument("--probe", choices=PROBES, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    if arguments.probe:
        PROBES[arguments.probe]()
        return 0
    findings = examine()
    healthy = all(finding.ok for finding in findings)
    if arguments.json:
        print(
            json.dumps({"healthy": healthy, "findings": [asdict(finding) for finding in findings]}, indent=2)
        )
    else:
        print(_as_text(findings))
    return 0 if healthy else 1


def examine() -> list[Finding]:
    use = _ask_child("use")
    return [
        Finding("package", f"{_loader.PACKAGE} {_loader.VERSION or '(not built)'} in {_loader.PACKAGE_DIR}"),
        Finding("python", f"{sys.version.split()[0]}, {sys.executable}"),
        _torch(use),
        *_libraries(works="devices" in use),
        *_libstdcxx(),
        _slot(use),
        _accelerator(use),
        *_entry_points(),
        *_environment(),
        _device(use),
    ]


def _torch(use: dict[str, Any]) -> Finding:
    built = f"built for torch {_loader.TORCH_VERSION or 'unknown'}"
    if "torch" not in use:
        return Finding(
            "torch", f"{built}; cannot be imported: {use['end']}", False, _remedy_for_torch(use["end"])
        )
    found = f"{built}; found {use['torch']} in {use['torch_dir']}"
    mismatch = _loader.version_mismatch(use["torch"]) if _loader.TORCH_VERSION else None
    return Finding("torch", found) if mismatch is None else Finding("torch", found, False, mismatch.remedy)


def _remedy_for_torch(error: str) -> str:
    other = re.search(r"Failed to load the backend extension: (\S+?)\. ", error)
    if other:
        name = other.group(1)
        return f"uninstall or repair the backend '{name}', or set {AUTOLOAD}=0 and import {_loader.PACKAGE}"
    return "install torch, or repair it: python -c 'import torch' shows the whole error"


def _libraries(works: bool) -> list[Finding]:
    """A device that works has loaded them all; else each is tried, to hear the loader's own words."""
    paths = _loader.libraries()
    if works:
        return [Finding("library", f"{path}: loads") for path in paths]
    words = _ask_child("libraries")
    findings = []
    for path in paths:
        said = words.get(path, f"not tried: {words['end']}").removeprefix(path).lstrip()
        findings.append(Finding("library", f"{path}: {said}", said == "loads"))  # the device has the remedy
    return findings


def _libstdcxx() -> list[Finding]:
    """A libstdc++ that was linked statically, beside torch's shared one, crashes when a number becomes text."""
    findings = []
    for path in _loader.libraries():
        try:
            linked = _elf.needed(path)
        except (OSError, ValueError):  # said above
            continue
        if not any(name.startswith("libstdc++.so") for name in linked):
            text = f"{path}: is not linked with the shared libstdc++.so that torch uses, and crashes when it words an error"
            remedy = (
                "build it again with a compiler that links the shared libstdc++: CC=/usr/bin/gcc CXX=/usr/bin/g++, and "
                "no -static-libstdc++ in CXXFLAGS or LDFLAGS"
            )
            findings.append(Finding("library", text, False, remedy))
    return findings


def _slot(use: dict[str, Any]) -> Finding:
    if "holder" not in use:
        return Finding("PrivateUse1", "not known, since torch cannot be imported")
    holder = use["holder"]
    if holder == _loader.FREE_NAME:
        return Finding("PrivateUse1", "has no name: held by nobody, or by a backend that did not name it")
    if holder != _loader.DEVICE_NAME:
        return Finding(
            "PrivateUse1", f"held by another backend, '{holder}'"
        )  # the remedy comes with the device
    if use.get("obstacle"):
        return Finding("PrivateUse1", f"named '{holder}', with no device behind it")
    return Finding("PrivateUse1", f"held by '{holder}'")


def _accelerator(use: dict[str, Any]) -> Finding:
    if use.get("gpu") is None:
        return Finding(
            "accelerator", f"no GPU that torch can use: `import torch` loads '{_loader.DEVICE_NAME}'"
        )
    return Finding(
        "accelerator",
        f"torch has a GPU ('{use['gpu']}'): `import torch` leaves '{_loader.DEVICE_NAME}' alone, unless "
        f"{_loader.AUTOLOAD}=1; `import {_loader.PACKAGE}` loads it, and makes it the accelerator",
    )


def _entry_points() -> list[Finding]:
    findings = []
    for entry in metadata.entry_points(group=GROUP):
        dist = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unknown distribution"
        findings.append(Finding("entry point", f"{entry.name} = {entry.value}, from {dist}"))
    if not any(finding.text.startswith(f"{_loader.PACKAGE} = ") for finding in findings):
        text = f"none for {_loader.PACKAGE}: `import torch` does not load the device"
        findings.append(
            Finding("entry point", text, False, f"{_loader.REINSTALL} (a copied folder has no entry point)")
        )
    return findings


def _environment() -> list[Finding]:
    wanted = re.compile(
        rf"{AUTOLOAD}|{_loader.DEVICE_NAME.upper()}_\w+|PYTORCH_\w*ALLOC_CONF|LD_LIBRARY_PATH|LD_PRELOAD|OMP_NUM_THREADS"
    )
    findings = []
    for name, value in sorted(os.environ.items()):
        if wanted.fullmatch(name):
            off = name == AUTOLOAD and value != "1"  # torch takes every value but "1" as off
            note = f" (off: only `import {_loader.PACKAGE}` loads the device)" if off else ""
            findings.append(Finding("environment", f"{name}={value}{note}"))
    return findings or [Finding("environment", "no variable set that matters")]


def _device(use: dict[str, Any]) -> Finding:
    if use.get("obstacle"):
        return Finding("device", f"not loaded: {use['obstacle']}", False, use["remedy"])
    if "devices" not in use:
        remedy = f"{_loader.REINSTALL}; {REPORT}" if "torch" in use else ""
        return Finding("device", f"not loaded: {use['end']}", False, remedy)
    count = f"{use['devices']} found"
    if "kernel" not in use:
        return Finding(
            "device",
            f"{count}, and a kernel does not run: {use['end']}",
            False,
            f"{_loader.REINSTALL}; {REPORT}",
        )
    if not use["devices"]:
        return Finding(
            "device", "none found", False, "see whether a variable under 'environment' asks for none"
        )
    return Finding("device", f"{count}; a kernel ran: {use['kernel']}")


def _as_text(findings: list[Finding]) -> str:
    width = max(len(finding.topic) for finding in findings)
    lines, previous = [], ""
    for finding in findings:
        topic = "" if finding.topic == previous else finding.topic
        lines.append(f"{topic:<{width}}  {'  ' if finding.ok else '! '}{finding.text}")
        previous = finding.topic
    remedies = dict.fromkeys(finding.remedy for finding in findings if finding.remedy)
    if all(finding.ok for finding in findings):
        lines += ["", "Healthy. Nothing to do."]
    else:
        lines += ["", "Not healthy. What to do:", *(f"  - {remedy}" for remedy in remedies)]
    return "\n".join(lines)


def _ask_child(probe: str) -> dict[str, Any]:
    """What the probe told, and under "end" how it ended if not well."""
    command = [sys.executable, "-m", _loader.PACKAGE, "doctor", "--probe", probe]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONSAFEPATH": "1"}
    try:
        child = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=CHILD_SECONDS
        )
        output, code = child.stdout, child.returncode
    except subprocess.TimeoutExpired as expired:
        output, code = (expired.stdout or b"").decode(), None
    told: dict[str, Any] = {"step": "starting", "end": ""}
    for line in output.splitlines():
        if line.startswith(MARK):
            told |= json.loads(line.removeprefix(MARK))
    if code is None:
        told["end"] = f"no answer within {CHILD_SECONDS} seconds while {told['step']}"
    elif code < 0:
        told["end"] = f"the process died of {signal.Signals(-code).name} while {told['step']}"
    elif code > 0 and not told["end"]:
        told["end"] = f"the process ended with {code} while {told['step']}: {child.stderr.strip()[-500:]}"
    return told


def _tell(**values: Any) -> None:
    print(f"{MARK}{json.dumps(values)}", flush=True)


def _probe_use() -> None:
    """In a child: does what a program does that uses the device."""
    try:
        _tell(step="importing torch")
        import torch

        holder = torch._C._get_privateuse1_backend_name()
        _tell(torch=str(torch.__version__), torch_dir=os.path.dirname(torch.__file__), holder=holder)
        _tell(gpu=_loader.find_gpu(torch))
        _tell(step="loading the device")
        module = _loader.load()
        _tell(holder=torch._C._get_privateuse1_backend_name())
        if module is _unavailable:
            obstacle = _unavailable._obstacle
            assert obstacle is not None
            _tell(obstacle=obstacle.what, remedy=obstacle.remedy)
            return
        _tell(step="counting devices")
        _tell(devices=module.device_count())
        _tell(step="running a kernel")
        answer = (torch.ones(2, device=_loader.DEVICE_NAME) + 1).tolist()
        _tell(kernel=f"[1, 1] + 1 = {answer}")
    except Exception as error:
        _tell(end=_loader.one_line(error))


def _probe_libraries() -> None:
    """In a child: opens each library, in the order in which they need each other."""
    runtime, *with_torch = _loader.libraries()
    _tell(**{runtime: _open(runtime)})
    _tell(step="importing torch")
    os.environ[AUTOLOAD] = "0"
    try:
        import torch  # noqa: F401
    except Exception as error:
        _tell(end=f"torch, which it needs, cannot be imported ({_loader.one_line(error)})")
        return
    for path in with_torch:
        _tell(**{path: _open(path)})


def _open(path: str) -> str:
    _tell(step=f"opening {path}", **{path: "kills the process that opens it"})
    try:
        _loader.check_library(path)
        ctypes.CDLL(path, mode=os.RTLD_NOW)
    except (_unavailable.Obstacle, OSError) as error:
        return getattr(error, "what", str(error))
    return "loads"


PROBES = {"use": _probe_use, "libraries": _probe_libraries}
