"""Generated kernels: from C++ source to a Python function that launches.

Inductor's source of a kernel gets a suffix that describes its arguments (csrc/compiler/kernel_api.h), and is compiled and
cached by Inductor. The library contains no code of Python or of the device.
"""

import ctypes
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch._inductor.async_compile import get_compile_threads
from torch._inductor.codecache import CppCodeCache, CppPythonBindingsCodeCache
from torch._inductor.codecache import LambdaFuture as Future
from torch._inductor.utils import clear_on_fresh_cache

from torch_openreg import _C
from torch_openreg._C import empty_strided  # noqa: F401  (generated code)

_FOLDER = Path(__file__).parent
_API = (_FOLDER / "kernel_api.h").read_text()
_VECTOR_MASKS = (_FOLDER / "vector_masks.h").read_text()
_PREFIX = "#include <torch/csrc/inductor/cpp_prefix.h>\n"

# A library shares nothing with others of the process. Inductor's header has global variables: kernels that run at the same
# time would overwrite the one for divisions by zero. And GCC makes a static member of a template (WelfordHelper) unique in
# the process, whatever its visibility, but not its guard: each library would construct it, and destroy it at exit.
_FLAGS = ("-fvisibility=hidden", "-fno-gnu-unique")

_SUFFIX = """
%(api)s
#include <cstdio>
#include <exception>
#include <mutex>

namespace {
bool launch_generated_kernel(orKernelSlot* slots, char* why, size_t why_size) {
  static_cast<void>(slots);
  %(lock)s
  try {
    kernel(%(call)s);
    return true;
  } catch (const std::exception& error) {
    std::snprintf(why, why_size, "%%s", error.what());
  } catch (...) {
    std::snprintf(why, why_size, "an exception of unknown type");
  }
  return false;
}
constexpr orKernelArg generated_kernel_args[] = {%(kinds)s};
}  // namespace

extern "C" __attribute__((visibility("default"))) const orGeneratedKernel generated_kernel = {
    OR_KERNEL_API_VERSION, %(count)d, generated_kernel_args, launch_generated_kernel, %(may_fail)s};
"""
_LOCK = "static std::mutex one_at_a_time;\n  const std::lock_guard<std::mutex> lock(one_at_a_time);"

_CHECK = re.compile(r"\bTORCH_CHECK\(")
_INTEGER_DIVISION = re.compile(r"\b\w+_integral\(")
_DIVISION_FLAG = re.compile(r"^\s*inductor_cpu_integer_div_error_flag = .*\n", re.MULTILINE)
_PARALLEL = re.compile(r"^\s*#pragma omp .*\n", re.MULTILINE)


@clear_on_fresh_cache
class _KernelCache(CppCodeCache):
    cache = {}  # noqa: RUF012
    cache_clear = staticmethod(cache.clear)
    cpp_compile_command_flags = CppPythonBindingsCodeCache.cpp_compile_command_flags

    @classmethod
    def _get_uncompiled_header(cls, device: str) -> str | None:
        return CppPythonBindingsCodeCache._get_uncompiled_header(device)


def device_kernel(
    async_compile: Any, name: str, arg_types: Sequence[str], host_scalars: Sequence[int], source: str
) -> Any:
    """A function that launches the kernel: its arguments, and the index of the device."""
    kinds = [_kind(arg_type, index in host_scalars) for index, arg_type in enumerate(arg_types)]
    return _load(async_compile, name, arg_types, kinds, source.replace(_PREFIX, _PREFIX + _VECTOR_MASKS, 1))


def host_kernel(async_compile: Any, name: str, arg_types: Sequence[str], source: str) -> Any:
    """A function that runs the kernel on host tensors."""
    kinds = [
        _kind(arg_type, False)
        .replace("orArgInput", "orArgHostInput")
        .replace("orArgOutput", "orArgHostOutput")
        for arg_type in arg_types
    ]
    return _load(async_compile, name, arg_types, kinds, source)


def _kind(arg_type: str, host_scalar: bool) -> str:
    if arg_type.endswith("*"):
        if host_scalar and not arg_type.startswith("const "):
            raise NotImplementedError("a kernel of the device cannot write a tensor on the host")
        return (
            "orArgHostScalar"
            if host_scalar
            else "orArgInput"
            if arg_type.startswith("const ")
            else "orArgOutput"
        )
    return "orArgFloat" if arg_type.removeprefix("const ") in ("float", "double") else "orArgInteger"


def _arguments(arg_types: Sequence[str], kinds: Sequence[str]) -> str:
    """The arguments of the call, from the slots."""
    arguments, slot = [], 0
    for arg_type, kind in zip(arg_types, kinds, strict=True):
        if kind == "orArgHostScalar":
            arguments.append(f"reinterpret_cast<{arg_type}>(slots[{slot}].bytes)")
            slot += 1
        elif kind in ("orArgInteger", "orArgFloat"):
            field = "integer" if kind == "orArgInteger" else "real"
            arguments.append(f"static_cast<{arg_type}>(slots[{slot}].{field})")
        else:
            arguments.append(f"static_cast<{arg_type}>(slots[{slot}].pointer)")
        slot += 1
    return ", ".join(arguments)


def _with_launcher(arg_types: Sequence[str], kinds: Sequence[str], source: str) -> str:
    checks_data = _CHECK.search(source) is not None
    if checks_data:
        # An exception must not leave an OpenMP region: the process would be terminated.
        source = _PARALLEL.sub("", source)
    divides = _INTEGER_DIVISION.search(source) is not None
    if not divides:
        source = _DIVISION_FLAG.sub("", source)
    return source + _SUFFIX % {
        "api": _API,
        "lock": _LOCK if divides else "",
        "call": _arguments(arg_types, kinds),
        "kinds": ", ".join(kinds) or "orArgInteger",
        "count": len(kinds),
        "may_fail": "true" if checks_data or divides else "false",
    }


def _load(async_compile: Any, name: str, arg_types: Sequence[str], kinds: Sequence[str], source: str) -> Any:
    in_threads = get_compile_threads() > 1
    library = _KernelCache.load_async(
        _with_launcher(arg_types, kinds, source),
        "cpu",
        submit_fn=async_compile.submit if in_threads else None,
        extra_flags=_FLAGS,
    )

    def load() -> Callable[..., None]:
        generated = ctypes.c_char.in_dll(library(), "generated_kernel")
        return _C.load_compiled_kernel(ctypes.addressof(generated), name)

    return Future(load) if in_threads else load()
