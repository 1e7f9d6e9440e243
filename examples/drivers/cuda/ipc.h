// Memory and events shared between processes.
#pragma once

#include "openreg/driver.h"

namespace nv {

// Entries of the table.
orError_t ipc_name(int index, void* base, size_t base_size, void* ptr, size_t size, orIpcMemHandle_t* handle);
orError_t ipc_retire(const orIpcMemHandle_t* handle);
orError_t ipc_withdraw(int index, void* base, int force);
orError_t ipc_open(const orIpcMemHandle_t* handle, orDriverIpcMemory* memory);
orError_t ipc_close(void* ptr, int* last);
orError_t ipc_name_event(orDriverEvent* event, orIpcEventHandle_t* handle);
orError_t ipc_open_event(const orIpcEventHandle_t* handle, int* device, orDriverEvent** event);

}  // namespace nv
