"""Kernels in C that read or write any memory of the device: bugs for the memory check to find.

They are compiled when the module is imported and launched by the C interface of the runtime, as those of a library.
"""

import ctypes
import pathlib
import subprocess
import tempfile

import torch

import torch_openreg

_SOURCE = r"""
#include <openreg/openreg.h>

typedef struct {
  volatile unsigned char* ptr;
  size_t count;
  int value;
} Access;

static orError_t read_bytes(void* args, char* why, size_t why_size) {
  const Access* access = args;
  unsigned sum = 0;
  for (size_t i = 0; i < access->count; ++i) sum += access->ptr[i];
  (void)why, (void)why_size, (void)sum;
  return orSuccess;
}

static orError_t write_bytes(void* args, char* why, size_t why_size) {
  const Access* access = args;
  for (size_t i = 0; i < access->count; ++i) access->ptr[i] = (unsigned char)access->value;
  (void)why, (void)why_size;
  return orSuccess;
}

const orKernel my_read = {"my_lib::read", read_bytes, NULL};
const orKernel my_write = {"my_lib::write", write_bytes, NULL};
"""

_PACKAGE = pathlib.Path(torch_openreg.__file__).parent


class _Access(ctypes.Structure):
    _fields_ = [("ptr", ctypes.c_void_p), ("count", ctypes.c_size_t), ("value", ctypes.c_int)]


def _compiled() -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        source, library = pathlib.Path(folder, "kernels.c"), pathlib.Path(folder, "kernels.so")
        source.write_text(_SOURCE)
        command = ["gcc", "-shared", "-fPIC", "-O1", "-I", _PACKAGE / "include", source, "-o", library]
        subprocess.run(command, check=True)
        return ctypes.CDLL(str(library))


_kernels = _compiled()
_runtime = ctypes.CDLL(str(_PACKAGE / "lib" / "libopenreg.so"))
_runtime.orLaunchKernel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]


def _launch(kernel: str, address: int, offset: int, count: int, stream: torch.Stream | None) -> None:
    view = ctypes.c_ssize_t()
    assert _runtime.orGetKernelViewOffset(ctypes.byref(view), 0) == 0
    args = _Access(address + view.value + offset, count, 7)
    handle = (stream or torch.openreg.current_stream()).native_handle
    entry = ctypes.addressof(ctypes.c_char.in_dll(_kernels, kernel))
    assert _runtime.orLaunchKernel(handle, entry, ctypes.byref(args), ctypes.sizeof(args)) == 0


def read(address: int, offset: int = 0, count: int = 4, stream: torch.Stream | None = None) -> None:
    """Launches a kernel that reads ``count`` bytes at an offset of a device address."""
    _launch("my_read", address, offset, count, stream)


def write(address: int, offset: int = 0, count: int = 4, stream: torch.Stream | None = None) -> None:
    _launch("my_write", address, offset, count, stream)
