// Creates nodes of the autograd graph for all supported torch versions.
#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <type_traits>

namespace openreg {

/// Creates a node, owned by the smart pointer type that torch::autograd::Edge uses. Remove when 2.13 is the
/// oldest supported version: the type is then intrusive_ptr.
template <typename Node>
auto make_node() {
  using NodePtr = decltype(torch::autograd::Edge::function);
  if constexpr (std::is_same_v<NodePtr, std::shared_ptr<torch::autograd::Node>>) {
    return std::make_shared<Node>();
  } else {
    return c10::make_intrusive<Node>();
  }
}

}  // namespace openreg
