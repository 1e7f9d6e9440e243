// What differs between the versions of torch that this code is built with. Each entry says with which oldest
// version it can go.
#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/function.h>
#include <torch/headeronly/version.h>

#include <memory>
#include <type_traits>

// Before torch 2.13 a structured kernel's outputs had names of dimensions. Goes when 2.13 is the oldest.
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 13
#define OR_NAMES_PARAMETER , at::DimnameList names
#define OR_NAMES_ARGUMENT , names
#else
#define OR_NAMES_PARAMETER
#define OR_NAMES_ARGUMENT
#endif

namespace openreg {

/// A node of autograd's graph, held as autograd holds nodes. Goes when 2.13 is the oldest: it is an
/// intrusive_ptr.
template <typename Node>
auto make_node() {
  using Held = decltype(torch::autograd::Edge::function);
  if constexpr (std::is_same_v<Held, std::shared_ptr<torch::autograd::Node>>) {
    return std::make_shared<Node>();
  } else {
    return c10::make_intrusive<Node>();
  }
}

}  // namespace openreg
