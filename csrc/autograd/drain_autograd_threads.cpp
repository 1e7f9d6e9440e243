#include "autograd/drain_autograd_threads.h"

#include "device/device.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <openreg/faults.h>
#include <torch/csrc/autograd/autograd.h>

#include <thread>

namespace openreg {
namespace {

void run_small_backward(c10::DeviceIndex device) {
  const at::Tensor leaf =
      at::ones({}, at::TensorOptions().device(c10::Device(kDevice, device))).requires_grad_();
  torch::autograd::backward({leaf.mul(leaf)}, {});
}

}  // namespace

void drain_autograd_threads() noexcept {
  (void)!orFaultsSuspend(1);  // not work of the program
  try {
    // On a new thread without Python state: the graph of this backward holds no Python object.
    std::thread([] {
      try {
        for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
          if (device_is_open(device)) {
            run_small_backward(device);
          }
        }
      } catch (const std::exception&) {
        // The process exits; errors cannot be reported.
      }
    }).join();
  } catch (const std::exception&) {
    // The thread could not be created. Skip the drain.
  }
  (void)!orFaultsSuspend(0);
}

}  // namespace openreg
