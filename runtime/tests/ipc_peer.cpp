// The second process of the IPC tests. Reads one command per line and replies with one line: "ok" and an
// optional value, or "error", the name of the code and the message. Allocations and events are identified by
// their index.
#include "handle_text.h"

#include <openreg/openreg.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

std::vector<void*> memory;
std::vector<orEvent_t> events;
std::atomic<int> unblocked{0};

struct Reply {
  orError_t error;
  std::string value;
};

template <typename Item>
Reply keep(orError_t error, std::vector<Item>& items, Item item) {
  if (error) return {error, {}};
  items.push_back(item);
  return {orSuccess, std::to_string(items.size() - 1)};
}

Reply read_byte(void* ptr) {
  unsigned char byte = 0;
  const orError_t error = orMemcpy(&byte, ptr, 1, orMemcpyDeviceToHost);
  return {error, std::to_string(byte)};
}

Reply perform(std::istream& in) {
  std::string command, text;
  size_t id = 0, offset = 0;
  int value = 0;
  in >> command;
  if (command == "alloc") {
    void* ptr = nullptr;
    in >> offset >> value;
    const orError_t error = orMalloc(&ptr, offset);
    if (error == orSuccess) (void)!orMemset(ptr, value, offset);
    return keep(error, memory, ptr);
  }
  if (command == "export") {
    orIpcMemHandle_t handle;
    in >> id >> offset;
    const orError_t error = orIpcGetMemHandle(&handle, memory[id], offset);
    return {error, to_hex(handle)};
  }
  if (command == "open") {
    void* ptr = nullptr;
    in >> text;
    const orIpcMemHandle_t handle = from_hex<orIpcMemHandle_t>(text);
    const orError_t error = orIpcOpenMemHandle(&ptr, &handle);
    return keep(error, memory, ptr);
  }
  if (command == "close") {
    in >> id;
    return {orIpcCloseMemHandle(memory[id]), {}};
  }
  if (command == "read") {
    in >> id >> offset;
    return read_byte(static_cast<char*>(memory[id]) + offset);
  }
  if (command == "write") {
    in >> id >> offset >> value;
    return {orMemset(static_cast<char*>(memory[id]) + offset, value, 1), {}};
  }
  if (command == "write_async") {
    in >> id >> offset >> value;
    return {orMemsetAsync(static_cast<char*>(memory[id]) + offset, value, 1, nullptr), {}};
  }
  if (command == "create_event") {
    orEvent_t event = nullptr;
    const orError_t error = orEventCreateWithFlags(&event, orEventDisableTiming | orEventInterprocess);
    return keep(error, events, event);
  }
  if (command == "export_event") {
    orIpcEventHandle_t handle;
    in >> id;
    const orError_t error = orIpcGetEventHandle(&handle, events[id]);
    return {error, to_hex(handle)};
  }
  if (command == "open_event") {
    orEvent_t event = nullptr;
    in >> text;
    const orIpcEventHandle_t handle = from_hex<orIpcEventHandle_t>(text);
    const orError_t error = orIpcOpenEventHandle(&event, &handle);
    return keep(error, events, event);
  }
  if (command == "record") return in >> id, Reply{orEventRecord(events[id], nullptr), {}};
  if (command == "wait") return in >> id, Reply{orStreamWaitEvent(nullptr, events[id]), {}};
  if (command == "query_event") return in >> id, Reply{orEventQuery(events[id]), {}};
  if (command == "synchronize_event") return in >> id, Reply{orEventSynchronize(events[id]), {}};
  if (command == "query") return {orStreamQuery(nullptr), {}};
  if (command == "synchronize") return {orStreamSynchronize(nullptr), {}};
  if (command == "free_bytes") {
    size_t free = 0, total = 0;
    const orError_t error = orMemGetInfo(&free, &total);
    return {error, std::to_string(free)};
  }
  if (command == "block") {  // blocks the default stream until "unblock"
    const auto function = [](void*) { unblocked.wait(0); };
    return {orLaunchHostFunc(nullptr, function, nullptr), {}};
  }
  if (command == "unblock") {
    unblocked.store(1);
    unblocked.notify_all();
    return {orSuccess, {}};
  }
  if (command == "set_user") {  // before the first use of the runtime
    in >> value;
    return {setgid(static_cast<gid_t>(value)) == 0 && setuid(static_cast<uid_t>(value)) == 0 ? orSuccess
                                                                                             : orErrorSystem,
            {}};
  }
  return {orErrorInvalidValue, {}};
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream in(line);
    const Reply reply = perform(in);
    if (reply.error) {
      std::cout << "error " << orGetErrorName(reply.error) << ' ' << orGetLastErrorMessage() << std::endl;
    } else {
      std::cout << "ok " << reply.value << std::endl;
    }
  }
  return 0;
}
