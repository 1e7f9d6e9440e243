// Argument checks that kernels make and shape inference does not, for operators whose kernels cannot make a
// dry run (dry_run.h) because they reject zeros or take long. tests/ops/test_wrong_arguments.py calls every
// operator with wrong arguments and finds missing checks. op_rules.cpp maps operators to checks.
//
// Each function returns true if the kernel would reject the arguments, or throws the error of PyTorch's
// check. Pure functions.
#pragma once

#include <ATen/core/ivalue.h>

namespace openreg {

using ArgumentCheck = bool (*)(const c10::IValue* arguments);

namespace checks {

bool addmm(const c10::IValue* arguments);
bool addmv(const c10::IValue* arguments);
bool assert_async(const c10::IValue* arguments);
bool bucketize(const c10::IValue* arguments);
bool convolution(const c10::IValue* arguments);
bool dimension_is_empty(const c10::IValue* arguments);
bool embedding_renorm(const c10::IValue* arguments);
bool grid_sampler(const c10::IValue* arguments);
bool histc(const c10::IValue* arguments);
bool index_put(const c10::IValue* arguments);
bool index_select(const c10::IValue* arguments);
bool is_empty(const c10::IValue* arguments);
bool lu_factor(const c10::IValue* arguments);
bool masked_fill(const c10::IValue* arguments);
bool masked_scatter(const c10::IValue* arguments);
bool matrix_product(const c10::IValue* arguments);
bool multinomial(const c10::IValue* arguments);
bool multinomial_out(const c10::IValue* arguments);
bool nll_loss(const c10::IValue* arguments);
bool nll_loss_backward(const c10::IValue* arguments);
bool nll_loss2d(const c10::IValue* arguments);
bool padded_dense_to_jagged(const c10::IValue* arguments);
bool put(const c10::IValue* arguments);
bool randperm_out(const c10::IValue* arguments);
bool segment_reduce(const c10::IValue* arguments);

}  // namespace checks
}  // namespace openreg
