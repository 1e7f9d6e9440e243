"""Reads the dependencies of a shared library from its ELF file, without loading it: loading may crash the process."""

import struct

_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NULL, _DT_NEEDED, _DT_STRTAB = 0, 1, 5


def needed(path: str) -> list[str]:
    """Returns the DT_NEEDED entries of the library at ``path``. Raises ValueError if the file cannot be parsed."""
    with open(path, "rb") as file:
        data = file.read()
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError(f"{path} is not a 64-bit little-endian ELF file")
    try:
        return _needed(data)
    except (struct.error, StopIteration, ValueError) as error:
        raise ValueError(f"{path} is damaged ({error})") from error


def _needed(data: bytes) -> list[str]:
    (table,) = struct.unpack_from("<Q", data, 0x20)
    entry_size, entries = struct.unpack_from("<HH", data, 0x36)
    headers = []  # type, offset in the file, address, bytes in the file
    for i in range(entries):
        kind, _, offset, address, _, size = struct.unpack_from("<IIQQQQ", data, table + i * entry_size)
        headers.append((kind, offset, address, size))
    dynamic = next((header for header in headers if header[0] == _PT_DYNAMIC), None)
    if dynamic is None:
        return []
    names, strings = [], 0
    for at in range(dynamic[1], dynamic[1] + dynamic[3], 16):
        tag, value = struct.unpack_from("<QQ", data, at)
        if tag == _DT_NULL:
            break
        if tag == _DT_NEEDED:
            names.append(value)
        elif tag == _DT_STRTAB:
            strings = value
    loaded = (header for header in headers if header[0] == _PT_LOAD)
    _, offset, address, _ = next(one for one in loaded if one[2] <= strings < one[2] + one[3])
    begin = strings - address + offset
    return [data[begin + name : data.index(b"\0", begin + name)].decode() for name in names]
