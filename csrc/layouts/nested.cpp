#include "layouts/nested.h"

#include <ATen/NestedTensorImpl.h>

namespace openreg {

at::Tensor map_nested_components(const at::Tensor& nested,
                                 const std::function<at::Tensor(const at::Tensor&)>& replace) {
  const auto* impl = static_cast<const at::native::NestedTensorImpl*>(nested.unsafeGetTensorImpl());
  return at::detail::make_tensor<at::native::NestedTensorImpl>(
      replace(impl->get_unsafe_storage_as_tensor()), impl->get_nested_sizes(), impl->get_nested_strides(),
      impl->get_storage_offsets());
}

}  // namespace openreg
