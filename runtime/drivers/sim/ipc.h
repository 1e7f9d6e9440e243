// The interprocess entries of the driver table; see driver.h.
#pragma once

#include "openreg/driver.h"

namespace openreg::sim {

orError_t ipc_name(int device, void* base, size_t base_size, void* ptr, size_t size,
                   orIpcMemHandle_t* handle);
orError_t ipc_retire(const orIpcMemHandle_t* handle);
orError_t ipc_withdraw(int device, void* base, int force);
orError_t ipc_open(const orIpcMemHandle_t* handle, orDriverIpcMemory* memory);
orError_t ipc_close(void* ptr, int* last);
orError_t ipc_name_event(orDriverEvent* event, orIpcEventHandle_t* handle);
orError_t ipc_open_event(const orIpcEventHandle_t* handle, int* device, orDriverEvent** event);

}  // namespace openreg::sim
