#include "storage/resize.h"

#include "common/check.h"
#include "device/device.h"
#include "memory/device_allocator.h"
#include "memory/kernel_view.h"
#include "storage/device_storage.h"
#include "stream/checked_stream.h"
#include "stream/stream.h"

#include <algorithm>

namespace openreg {

void resize_storage(c10::StorageImpl* storage, size_t bytes) {
  TORCH_CHECK(storage->resizable(), "this storage", quoted_name(*storage), " cannot be resized from ",
              storage->nbytes(), " to ", bytes, " bytes: it does not own its memory");
  if (storage->nbytes() == bytes) {
    return;
  }
  materialize_cow(storage);
  const c10::DeviceIndex device = storage->device().index();
  DeviceScope scope(device);
  c10::DataPtr fresh = device_allocator().allocate(bytes);
  const size_t kept = std::min(bytes, storage->nbytes());
  if (kept > 0) {
    const c10::Stream stream = current_stream(device);
    if (C10_UNLIKELY(races::on())) {
      declare_copy(fresh.get(), storage->data_ptr().get(), kept, stream, "resize of a storage");
    }
    OR_CHECK(orMemcpyAsync(fresh.get(), storage->data_ptr().get(), kept, orMemcpyDeviceToDevice,
                           stream_handle(stream)));
  }
  storage->set_data_ptr_noswap(std::move(fresh));
  storage->set_nbytes(bytes);
}

}  // namespace openreg
