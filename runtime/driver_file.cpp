#include "driver_file.h"

#include "error.h"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <memory>

/// Defined by the linker: the ELF header of the file that contains this code.
extern "C" [[gnu::visibility("hidden")]] const ElfW(Ehdr) __ehdr_start;

namespace openreg {
namespace {

const char* machine_name(unsigned machine) {
  switch (machine) {
    case EM_386:
      return "x86 (32 bits)";
    case EM_X86_64:
      return "x86-64";
    case EM_ARM:
      return "ARM (32 bits)";
    case EM_AARCH64:
      return "AArch64";
    case EM_RISCV:
      return "RISC-V";
    case EM_PPC64:
      return "PowerPC64";
    case EM_S390:
      return "s390";
    default:
      return "unknown";
  }
}

orError_t check_elf(const DriverFile& file) {
  const std::unique_ptr<FILE, int (*)(FILE*)> stream(std::fopen(file.path, "rb"), &std::fclose);
  if (!stream) {
    return fail(orErrorDriver, "cannot open the driver '%s' (from %s): %s; check the path", file.path,
                file.origin, std::strerror(errno));
  }
  ElfW(Ehdr) header{};
  if (std::fread(&header, 1, sizeof(header), stream.get()) != sizeof(header) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    return fail(orErrorDriver, "the driver '%s' (from %s) is not a shared library: it has no ELF header",
                file.path, file.origin);
  }
  const ElfW(Ehdr)& own = __ehdr_start;
  if (std::memcmp(header.e_ident, own.e_ident, EI_VERSION) != 0 || header.e_machine != own.e_machine) {
    return fail(
        orErrorDriver,
        "the driver '%s' (from %s) is built for another architecture, %s (ELF machine %u); this process "
        "is %s (%u): use a driver for this machine",
        file.path, file.origin, machine_name(header.e_machine), unsigned{header.e_machine},
        machine_name(own.e_machine), unsigned{own.e_machine});
  }
  // The section table is the last part of the file that a linker writes.
  const uint64_t end = header.e_shoff + uint64_t{header.e_shentsize} * header.e_shnum;
  std::fseek(stream.get(), 0, SEEK_END);
  const long size = std::ftell(stream.get());
  if (size < 0 || static_cast<uint64_t>(size) < end) {
    return fail(orErrorDriver,
                "the driver '%s' (from %s) is truncated: %ld of at least %llu bytes; install it "
                "again",
                file.path, file.origin, size, static_cast<unsigned long long>(end));
  }
  return orSuccess;
}

}  // namespace

orError_t open_driver_file(const DriverFile& file, const orDriver*& table) {
  // A name without a slash is searched by the dynamic loader.
  if (std::strchr(file.path, '/')) OR_RETURN_IF_ERROR(check_elf(file));
  void* library = dlopen(file.path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    return fail(orErrorDriver, "cannot load the driver '%s' (from %s): %s", file.path, file.origin,
                dlerror());
  }
  void* symbol = dlsym(library, OR_DRIVER_SYMBOL);
  if (!symbol) {
    return fail(orErrorDriver,
                "the library '%s' (from %s) is not a driver: it does not export '%s'; see openreg/driver.h",
                file.path, file.origin, OR_DRIVER_SYMBOL);
  }
  table = reinterpret_cast<orGetDriverFunction>(symbol)();
  if (table) return orSuccess;
  return fail(orErrorDriver, "the driver '%s' (from %s) has no table: %s returned NULL", file.path,
              file.origin, OR_DRIVER_SYMBOL);
}

}  // namespace openreg
