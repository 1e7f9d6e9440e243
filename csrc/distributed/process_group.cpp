#include "distributed/process_group.h"

#include "common/check.h"
#include "common/gil_release.h"
#include "device/on_device.h"
#include "kernel/launch_site.h"
#include "stream/capture.h"
#include "stream/stream.h"

#include <ATen/MemoryOverlap.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <set>

namespace openreg::distributed {
namespace {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;

std::string describe(const Tensors& tensors) {
  if (tensors.empty()) return {};
  std::string text = c10::str(c10::toString(tensors[0].scalar_type()), tensors[0].sizes());
  if (tensors.size() > 1) text += c10::str(" and ", tensors.size() - 1, " more");
  return text;
}

std::vector<c10::Storage> storages_of(std::initializer_list<const Tensors*> lists) {
  std::vector<c10::Storage> result;
  for (const Tensors* tensors : lists) {
    for (const at::Tensor& tensor : *tensors) result.push_back(tensor.storage());
  }
  return result;
}

struct LiveGroups {
  static LiveGroups& get() {
    static auto* live = new LiveGroups;  // leaked: groups may end after static objects
    return *live;
  }
  std::mutex mutex;  // guards `groups`; taken before the locks of a group
  std::set<ProcessGroupOCCL*> groups;
};

}  // namespace

/// A stream of the runtime that belongs to the group, and the end of its last operation.
struct ProcessGroupOCCL::CommStream {
  explicit CommStream(c10::DeviceIndex device)
      : stream(make(device)), end(std::make_shared<c10::Event>(kDevice)) {}
  ~CommStream() { static_cast<void>(orStreamDestroy(stream_handle(stream))); }
  CommStream(const CommStream&) = delete;
  CommStream& operator=(const CommStream&) = delete;

  static c10::Stream make(c10::DeviceIndex device) {
    const DeviceScope scope(device);
    orStream_t handle = nullptr;
    OR_CHECK(orStreamCreateWithPriority(&handle, -kPools));
    return external_stream(handle);
  }

  c10::Stream stream;
  std::shared_ptr<c10::Event> end;
};

ProcessGroupOCCL::ProcessGroupOCCL(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                   c10::intrusive_ptr<Options> options, bool peer_memory, MakeGloo make_gloo)
    : Backend(rank, size),
      options_(std::move(options)),
      peer_memory_(peer_memory),
      make_gloo_(std::move(make_gloo)),
      state_(std::make_shared<GroupState>(rank)),
      transport_(std::make_shared<Transport>(make_gloo_(store, rank, size, options_->timeout), rank, size,
                                             peer_memory_)) {
  LiveGroups& live = LiveGroups::get();
  std::lock_guard lock(live.mutex);
  live.groups.insert(this);
}

ProcessGroupOCCL::~ProcessGroupOCCL() {
  LiveGroups& live = LiveGroups::get();
  std::lock_guard lock(live.mutex);
  live.groups.erase(this);
}

void ProcessGroupOCCL::abort_all() {
  LiveGroups& live = LiveGroups::get();
  std::lock_guard lock(live.mutex);
  for (ProcessGroupOCCL* group : live.groups) group->abort();
}

void ProcessGroupOCCL::setTimeout(std::chrono::milliseconds timeout) {
  options_->timeout = timeout;
}

void ProcessGroupOCCL::setGroupUid(const std::string& name) {
  Backend::setGroupUid(name);
  state_->set_name(name);
}

c10::intrusive_ptr<c10d::Backend> ProcessGroupOCCL::split(
    const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
    const c10::intrusive_ptr<c10d::Backend::Options>& options) {
  const auto found = std::find(ranks.begin(), ranks.end(), rank_);
  if (found == ranks.end()) return nullptr;
  return c10::make_intrusive<ProcessGroupOCCL>(
      store->clone(), static_cast<int>(found - ranks.begin()), static_cast<int>(ranks.size()),
      c10::make_intrusive<Options>(options->timeout), peer_memory_, make_gloo_);
}

void ProcessGroupOCCL::startCoalescing() {
  std::lock_guard lock(mutex_);
  coalescing_ = true;
  coalesced_.clear();
}

WorkPtr ProcessGroupOCCL::endCoalescing() {
  std::lock_guard lock(mutex_);
  coalescing_ = false;
  if (coalesced_.empty()) return nullptr;
  return c10::make_intrusive<WorkList>(std::exchange(coalesced_, {}));
}

uint64_t ProcessGroupOCCL::getSequenceNumberForGroup() {
  std::lock_guard lock(mutex_);
  return orders_[OrderKey{Direction::kCollective, -1, 0}].operations;
}

void ProcessGroupOCCL::abort() {
  state_->fail("the program aborted the group");
  transport_->abort();
}

void ProcessGroupOCCL::shutdown() {
  if (state_->failed()) transport_->abort();
  const GilRelease waiting;
  state_->wait_for_all();
}

ProcessGroupOCCL::CommStream& ProcessGroupOCCL::comm_stream(const StreamKey& key) {
  std::unique_ptr<CommStream>& found = streams_[key];
  if (!found) found = std::make_unique<CommStream>(key.first);
  return *found;
}

c10::Device ProcessGroupOCCL::check_tensors(const Request& request) const {
  std::optional<c10::Device> device;
  for (const Tensors* tensors : {&request.inputs, &request.outputs}) {
    for (const at::Tensor& tensor : *tensors) {
      TORCH_CHECK_VALUE(on_device(tensor), request.name,
                        ": the backend occl takes tensors of the device type ", orGetDeviceName(),
                        ", got one on ", tensor.defined() ? tensor.device().str() : "no device");
      TORCH_CHECK_VALUE(tensor.layout() == c10::kStrided, request.name,
                        ": the backend occl takes dense tensors, got one of layout ", tensor.layout());
      if (!device) device = tensor.device();
      TORCH_CHECK_VALUE(*device == tensor.device(), request.name,
                        ": the tensors of this rank are on two devices, ", *device, " and ", tensor.device());
    }
  }
  for (const at::Tensor& tensor : request.outputs) {
    TORCH_CHECK_VALUE(at::has_internal_overlap(tensor) != at::MemOverlap::Yes, request.name,
                      ": several elements of an output of size ", tensor.sizes(), " and strides ",
                      tensor.strides(), " have the same memory; pass a clone");
  }
  return device.value_or(c10::Device(kDevice, current_device()));
}

CollectiveArgs ProcessGroupOCCL::event_args(const Request& request, const Call& call) const {
  return {.group = {state_->name(), getGroupDesc()},
          .name = request.name,
          .sequence = call.sequence,
          .is_p2p = request.direction != Direction::kCollective,
          .rank = rank_,
          .size = size_,
          .global_ranks = options_->global_ranks_in_group,
          .inputs = request.inputs.empty() ? request.outputs : request.inputs,
          .outputs = request.outputs,
          .dtype = call.dtype < 0 ? at::kByte : static_cast<at::ScalarType>(call.dtype)};
}

WorkPtr ProcessGroupOCCL::submit(Request request) {
  state_->check();
  const c10::Device device = check_tensors(request);
  check_uncaptured(device.index(), std::string("the collective ") + request.name);
  const c10::Stream current = current_stream(device.index());
  auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()),
                                                         std::vector<c10::Device>{device});
  Call call;
  call.name = request.name;
  const Tensors& described = request.inputs.empty() ? request.outputs : request.inputs;
  call.dtype = described.empty() ? -1 : static_cast<int64_t>(described[0].scalar_type());
  call.tensors = describe(described);
  for (const at::Tensor& tensor : described) call.bytes += tensor.nbytes();
  // Only the root of a scatter has inputs, and only the root of a gather has outputs.
  call.tensor_count = request.root >= 0 ? 1 : static_cast<int64_t>(described.size());
  call.reduce_op = request.reduce_op;
  call.root = request.root;
  call.count = request.count;
  call.site = launch_site();
  call.timeout = request.timeout.count() > 0 ? request.timeout : options_->timeout;

  const GilRelease waiting;  // under the blocking schedule, a launch waits
  std::lock_guard lock(mutex_);
  const OrderKey key{request.direction, request.peer, request.tag};
  CommStream& comm = comm_stream({device.index(), key});
  Order& order = orders_[key];
  call.sequence = ++order.operations;
  std::optional<CollectiveEvent> event;
  if (at::hasCallbacks()) event.emplace(event_args(request, call));
  auto operation =
      std::make_shared<Operation>(state_, transport_, std::move(call), std::move(request.body),
                                  storages_of({&request.inputs, &request.outputs, &request.factors}));
  c10::Event ready(kDevice);
  ready.record(current);
  ready.block(comm.stream);
  // Another device of this process had the previous operation; the order of the calls counts.
  if (order.last && order.last != &comm) order.last->end->block(comm.stream);
  order.last = &comm;
  auto end = std::make_shared<c10::Event>(kDevice);
  auto work = c10::make_intrusive<WorkOCCL>(rank_, request.type, operation, device, end, future, described,
                                            request.outputs);
  operation->launch(comm.stream);
  end->record(comm.stream);
  comm.end = std::move(end);
  {
    // The future is complete for the host, and its value is ready behind the communication stream.
    const c10::StreamGuard guard(comm.stream);
    future->markCompleted(c10::IValue(request.outputs));
  }
  work->called();
  if (coalescing_) coalesced_.push_back(work);
  return work;
}

}  // namespace openreg::distributed
