// Excludes the dispatch keys of autograd, autocast and modes inside a kernel: the CPU kernel and the
// operators that it calls see plain tensors, whatever the calling thread has enabled.
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

namespace openreg {

class DispatchKeyGuard {
 public:
  DispatchKeyGuard() : exclude_(kExcluded) {}

 private:
  static constexpr c10::DispatchKeySet kModes{
      c10::DispatchKey::Python,
      c10::DispatchKey::PythonTLSSnapshot,
      c10::DispatchKey::PreDispatch,
      c10::DispatchKey::Functionalize,
      c10::DispatchKey::VmapMode,
      c10::DispatchKey::FuncTorchVmapMode,
      c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
      c10::DispatchKey::FuncTorchDynamicLayerBackMode,
  };
  static constexpr c10::DispatchKeySet kExcluded =
      c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset | kModes;
  c10::impl::ExcludeDispatchKeyGuard exclude_;
};

}  // namespace openreg
