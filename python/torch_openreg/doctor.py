"""``python -m torch_openreg doctor``: diagnoses the installation.

Steps that may fail or crash run in a child process, which reports each step before it starts. So the doctor itself
needs neither torch nor a working library.
"""

import argparse
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any

from torch_openreg import _driver, _elf, _loader, _unavailable

HELP = "diagnose the installation: what is installed, whether it works, how to fix it"
GROUP = "torch.backends"
AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
# Prefix of the child's report lines; importing torch may print other lines.
PREFIX = "torch_openreg doctor: "
CHILD_SECONDS = 300
# The table "Settings" of the README; see docs/guide/driver.md. Names begin with that of the device.
SETTINGS = (
    "ALLOC_CONF",
    "AUTOLOAD",
    "CHECK_RACES",
    "FAULTS",
    "HOST_ENGINE",
    "MEMORY_CHECK",
    "MEMORY_CHECK_QUARANTINE",
    "P2P_DISABLE",
    "SCHEDULE",
    "SEED",
    "WATCHDOG_FAIL",
    "WATCHDOG_SECONDS",
)
SIMULATED_SETTINGS = ("DEVICE_COUNT", "MEMORY")  # names always begin with OPENREG
REPORT = "if the problem persists, report it with the output of this command"


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
    use, driver = _run_probe("use"), _driver_in_use()
    return [
        Finding("package", f"{_loader.PACKAGE} {_loader.VERSION or '(not built)'} in {_loader.PACKAGE_DIR}"),
        Finding("python", f"{sys.version.split()[0]}, {sys.executable}"),
        _torch(use),
        *_libraries(use),
        *_libstdcxx(),
        driver,
        _slot(use),
        _accelerator(use),
        *_entry_points(),
        *_environment(),
        _device(use, driver),
        _cpp_compiler(),
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


def _libraries(use: dict[str, Any]) -> list[Finding]:
    """A working device has loaded all libraries; otherwise each is loaded to get the dynamic loader's message."""
    if "devices" in use:
        return [Finding("library", f"{path}: loads") for path in _loader.libraries(use["host_engine"])]
    paths = _loader.libraries()
    results = _run_probe("libraries")
    findings = []
    for path in paths:
        result = results.get(path, f"not tried: {results['end']}").removeprefix(path).lstrip(": ")
        # No remedy here: the finding of the device has it.
        findings.append(Finding("library", f"{path}: {result}", result == "loads"))
    return findings


def _libstdcxx() -> list[Finding]:
    """A statically linked libstdc++ crashes next to torch's shared one when it formats a number."""
    findings = []
    for path in _loader.libraries():
        try:
            linked = _elf.needed(path)
        except (OSError, ValueError):  # reported by _libraries
            continue
        if not any(name.startswith("libstdc++.so") for name in linked):
            text = f"{path}: is not linked with the shared libstdc++.so that torch uses, and crashes when it formats a number"
            remedy = (
                "rebuild it with a compiler that links the shared libstdc++: CC=/usr/bin/gcc CXX=/usr/bin/g++, and "
                "no -static-libstdc++ in CXXFLAGS or LDFLAGS"
            )
            findings.append(Finding("library", text, False, remedy))
    return findings


def _driver_in_use() -> Finding:
    """The driver, from the runtime alone: also without a working torch."""
    probe = _run_probe("driver")
    if probe.get("driver"):
        return Finding("driver", probe["driver"])
    # Without a chosen driver, the finding of the library has the remedy.
    remedy = probe.get("driver_remedy") or (
        _driver_remedy(probe.get("package")) if probe.get("chosen") else ""
    )
    return Finding("driver", probe.get("driver_error") or probe["end"], False, remedy)


def _driver_remedy(package: str | None) -> str:
    """`package`: that registers the driver; None if the variable names it."""
    check = f"python -m {_loader.PACKAGE} driver-check checks it"
    if package is None:
        return f"repair or reinstall the driver ({check}), or unset {_driver.VARIABLE} for the registered or simulated device"
    return (
        f"repair the driver of {package} ({check}), uninstall that package, or set {_driver.VARIABLE}="
        f"{_driver.EMBEDDED} for the simulated device"
    )


def _slot(use: dict[str, Any]) -> Finding:
    if "holder" not in use:
        return Finding("PrivateUse1", "unknown, since torch cannot be imported")
    holder = use["holder"]
    if holder == _loader.FREE_NAME:
        return Finding("PrivateUse1", "has no name: unused, or held by a backend without a name")
    if holder != _loader.DEVICE_NAME:
        # No remedy here: the finding of the device has it.
        return Finding("PrivateUse1", f"held by another backend, '{holder}'")
    if use.get("load_error"):
        return Finding("PrivateUse1", f"named '{holder}', without a working device")
    return Finding("PrivateUse1", f"held by '{holder}'")


def _accelerator(use: dict[str, Any]) -> Finding:
    if use.get("gpu") is None:
        return Finding(
            "accelerator", f"no GPU that torch can use: `import torch` loads '{_loader.DEVICE_NAME}'"
        )
    return Finding(
        "accelerator",
        f"torch has a GPU ('{use['gpu']}'): `import torch` does not load '{_loader.DEVICE_NAME}', unless "
        f"{_loader.AUTOLOAD}=1; `import {_loader.PACKAGE}` loads it and makes it the accelerator",
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
    prefixes = {_driver.DEFAULT_NAME.upper(), _loader.DEVICE_NAME.upper()}
    relevant = re.compile(
        rf"{AUTOLOAD}|({'|'.join(prefixes)})_\w+|PYTORCH_\w*ALLOC_CONF|LD_LIBRARY_PATH|LD_PRELOAD|OMP_NUM_THREADS"
    )
    findings = [
        Finding("environment", f"{name}={value}{_note(name, value)}")
        for name, value in sorted(os.environ.items())
        if relevant.fullmatch(name)
    ]
    return findings or [Finding("environment", "no relevant variable is set")]


def _note(variable: str, value: str) -> str:
    """Says why a variable has another effect than its name suggests. A driver may read variables of its own."""
    default, own = f"{_driver.DEFAULT_NAME.upper()}_", f"{_loader.DEVICE_NAME.upper()}_"
    if variable == AUTOLOAD and value != "1":  # torch treats every value except "1" as off
        return f" (off: only `import {_loader.PACKAGE}` loads the device)"
    if variable in (_driver.VARIABLE, _driver.NAME_VARIABLE):
        return ""
    prefix = own if variable.startswith(own) else default
    if not variable.startswith(prefix):
        return ""
    setting = variable.removeprefix(prefix)
    if setting in SIMULATED_SETTINGS:
        if prefix != default:
            return f" (not a setting; that of the simulated device is {default}{setting})"
        return "" if _driver.is_simulated() else " (only the simulated device reads it)"
    if setting not in SETTINGS:
        return f" (not a setting of {_loader.PACKAGE})"
    return (
        ""
        if prefix == own
        else f" (no effect: the device is '{_loader.DEVICE_NAME}', which reads {own}{setting})"
    )


def _device(use: dict[str, Any], driver: Finding) -> Finding:
    """A driver that does not work has its own finding, with the remedy."""
    if use.get("load_error"):
        return Finding("device", f"not loaded: {use['load_error']}", False, use["remedy"])
    if "devices" not in use:
        remedy = f"{_loader.REINSTALL}; {REPORT}" if "torch" in use else ""
        return Finding("device", f"not loaded: {use['end']}", False, remedy)
    count = f"{use['devices']} found"
    if "kernel" not in use:
        return Finding(
            "device",
            f"{count}; a kernel failed: {use['end']}",
            False,
            _kernel_remedy(use) if driver.ok else "",
        )
    if not use["devices"]:
        return Finding(
            "device", "none found", False, "check the variables under 'environment'" if driver.ok else ""
        )
    return Finding("device", f"{count}; a kernel ran: {use['kernel']}")


def _kernel_remedy(use: dict[str, Any]) -> str:
    if _driver.is_simulated():
        return f"{_loader.REINSTALL}; {REPORT}"
    return _driver_remedy(use.get("package"))


def _cpp_compiler() -> Finding:
    """Optional: only torch.compile needs it. Inductor uses CXX, or g++."""
    name = os.environ.get("CXX", "g++")
    if (path := shutil.which(name)) is not None:
        return Finding("C++ compiler", f"{path}: torch.compile can generate kernels")
    return Finding(
        "C++ compiler",
        f"'{name}' not found: torch.compile raises an error on the device and on the CPU (install g++, or set CXX)",
    )


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


def _run_probe(probe: str) -> dict[str, Any]:
    """Runs a probe in a child process and returns its report; "end" is the reason for a failure, or empty."""
    command = [sys.executable, "-m", _loader.PACKAGE, "doctor", "--probe", probe]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONSAFEPATH": "1"}
    try:
        child = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=CHILD_SECONDS
        )
        output, code = child.stdout, child.returncode
    except subprocess.TimeoutExpired as expired:
        output, code = (expired.stdout or b"").decode(), None
    report: dict[str, Any] = {"step": "starting", "end": ""}
    for line in output.splitlines():
        if line.startswith(PREFIX):
            report |= json.loads(line.removeprefix(PREFIX))
    if code is None:
        report["end"] = f"timeout after {CHILD_SECONDS} seconds while {report['step']}"
    elif code < 0:
        report["end"] = f"the process was killed by {signal.Signals(-code).name} while {report['step']}"
    elif code > 0 and not report["end"]:
        report["end"] = (
            f"the process exited with code {code} while {report['step']}: {child.stderr.strip()[-500:]}"
        )
    return report


def _report(**values: Any) -> None:
    print(f"{PREFIX}{json.dumps(values)}", flush=True)


def _probe_use() -> None:
    """Runs in a child process: uses the device as a program does."""
    try:
        _report(step="importing torch")
        import torch

        holder = torch._C._get_privateuse1_backend_name()
        _report(torch=str(torch.__version__), torch_dir=os.path.dirname(torch.__file__), holder=holder)
        _report(gpu=_loader.find_gpu(torch))
        _report(step="loading the device")
        module = _loader.load()
        _report(holder=torch._C._get_privateuse1_backend_name())
        if module is _unavailable:
            load_error = _unavailable._load_error
            assert load_error is not None
            _report(load_error=load_error.what, remedy=load_error.remedy)
            return
        from torch_openreg import _C

        _report(step="counting devices", host_engine=_C.HOST_ENGINE, package=_driver.package())
        _report(devices=module.device_count())
        _report(step="running a kernel")
        result = (torch.ones(2, device=_loader.DEVICE_NAME) + 1).tolist()
        _report(kernel=f"[1, 1] + 1 = {result}")
    except Exception as error:
        _report(end=_loader.one_line(error))


def _probe_libraries() -> None:
    """Runs in a child process: loads each library, in dependency order."""
    runtime, *with_torch = _loader.libraries()
    _report(**{runtime: _open(runtime)})
    _report(step="importing torch")
    os.environ[AUTOLOAD] = "0"
    try:
        import torch  # noqa: F401
    except Exception as error:
        _report(end=f"torch, which the library needs, cannot be imported ({_loader.one_line(error)})")
        return
    for path in with_torch:
        _report(**{path: _open(path)})


def _probe_driver() -> None:
    """Runs in a child process: loads and initializes the driver, without torch."""
    try:
        registered = _driver.registered()
        chosen = registered.path if registered else os.environ.get(_driver.VARIABLE)
        if chosen:
            _report(chosen=True, package=_driver.package(), step=f"loading the driver {chosen}")
        runtime = _driver.Runtime(_loader.libraries()[0])
        runtime.configure(_loader.DEVICE_NAME, registered)
        info = runtime.driver_info()
        count = ctypes.c_int()
        if info is None or runtime.library.orGetDeviceCount(ctypes.byref(count)):
            _report(driver_error=runtime.error())
            return
        source = info.path.decode(errors="replace") or "embedded in the runtime"
        if registered:
            source += f", registered as '{registered.name}'"
        operators = (
            "the host engine" if _loader.uses_host_engine(runtime) else "functions of the driver and the CPU"
        )
        _report(
            driver=f"'{info.name.decode()}', {source}; version {info.version} of the driver interface (the runtime: "
            f"{info.runtime_version}); devices: {count.value}; operators run in {operators}"
        )
    except _unavailable.LoadError as error:
        _report(driver_error=error.what, driver_remedy=error.remedy)
    except Exception as error:
        _report(driver_error=_loader.one_line(error))


def _open(path: str) -> str:
    _report(step=f"loading {path}", **{path: "crashes the process that loads it"})
    try:
        _loader.check_library(path)
        ctypes.CDLL(path, mode=os.RTLD_NOW)
    except (_unavailable.LoadError, OSError) as error:
        return getattr(error, "what", str(error))
    return "loads"


PROBES = {"use": _probe_use, "libraries": _probe_libraries, "driver": _probe_driver}
