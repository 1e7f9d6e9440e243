"""Device memory that PyTorch does not own: allocated with the runtime, described by DLPack's structs."""

import ctypes
import pathlib

import torch_openreg

_runtime = ctypes.CDLL(str(pathlib.Path(torch_openreg.__file__).parent / "lib" / "libopenreg.so"))


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _DLManagedTensor(ctypes.Structure):
    _fields_ = [("tensor", _DLTensor), ("context", ctypes.c_void_p), ("deleter", _DELETER)]


class device_array:
    """A float32 array in device memory. The destructor frees the memory."""

    def __init__(self, values: list[float], device: int) -> None:
        self.device, self.length, self.released = device, len(values), 0
        self.pointer = ctypes.c_void_p()
        before = ctypes.c_int()
        assert _runtime.orGetDevice(ctypes.byref(before)) == 0
        assert _runtime.orSetDevice(device) == 0
        assert _runtime.orMalloc(ctypes.byref(self.pointer), ctypes.c_size_t(4 * len(values))) == 0
        assert _runtime.orSetDevice(before) == 0
        host = (ctypes.c_float * len(values))(*values)
        assert _runtime.orMemcpy(self.pointer, host, ctypes.c_size_t(4 * len(values)), 1) == 0
        self._kept: list[object] = []

    def capsule(self) -> object:
        shape = (ctypes.c_int64 * 1)(self.length)

        def release(_: int) -> None:
            self.released += 1

        deleter = _DELETER(release)
        tensor = _DLTensor(self.pointer, 12, self.device, 1, 2, 32, 1, shape, None, 0)
        managed = _DLManagedTensor(tensor, None, deleter)
        self._kept += [shape, deleter, managed]
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(managed), b"dltensor", None)

    def __del__(self) -> None:
        _runtime.orFree(self.pointer)
