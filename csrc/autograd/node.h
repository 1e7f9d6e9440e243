// Nodes of autograd's graph, whatever torch holds them by.
#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <type_traits>

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
