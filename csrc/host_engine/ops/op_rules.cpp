#include "host_engine/ops/op_rules.h"

#include "common/version.h"
#include "host_engine/ops/argument_checks.h"
#include "host_engine/ops/name_match.h"
#include "host_engine/ops/shape_functions.h"

#include <ATen/core/dispatch/Dispatcher.h>

namespace openreg {
namespace {

using enum OpFlag;

constexpr const char* kHostIndices = "accepts host and device indices, and checks them";
constexpr const char* kHostLearningRate = "accepts a learning rate of shape [1] on the host, as on CUDA";
constexpr const char* kHostSizes = "accepts sizes as host tensors";
constexpr const char* kWrongMeta =
    "its Meta kernel infers other shapes or dtypes than the CPU kernel returns, or is missing";
constexpr const char* kRejectsSomeData =
    "its kernel rejects some data: indices out of range, singular matrices, probabilities, division by zero";
constexpr const char* kRejectsZeros = "its kernel rejects integer zeros or non-finite numbers";
constexpr const char* kReadsAfterWrite = "its kernel reads inputs after it has written outputs";
constexpr const char* kStatus = "its kernel reads its status on the host and throws LinAlgError, as on CUDA";
constexpr const char* kSetsConj =
    "it may set the conjugate bit of its output, which must be known at the call";
constexpr const char* kUnreducedOutput =
    "its kernel writes the losses to the output before it reduces them, so the output grows for a while";
constexpr const char* kQuantizer =
    "the quantizer of its result may depend on data, and Meta kernels return none";
constexpr const char* kUntagged = "the shape of its result depends on data, and it has no tag for this";
constexpr const char* kNoDropout =
    "tagged as random because of dropout, which its CPU kernel does not support";
constexpr const char* kResizesSelf = "it resizes the tensor that it writes";
constexpr const char* kSequence = "writes a sequence into an output of any shape";
constexpr const char* kSavedIntegers =
    "its kernel does not check saved lengths and indices, so it cannot run on placeholders";
constexpr const char* kUncheckedPivots =
    "its kernel does not check the pivots, and zeros are out of bounds: dry runs use ones";
constexpr const char* kWideRange = "warns about integers that a floating dtype cannot represent";
constexpr const char* kOwnResizeWarning = "has its own warning text for an output that it resizes";
constexpr const char* kBeta = "warns that it is in beta";
constexpr const char* kCopiesInput = "warns that it copies a non-contiguous input";
constexpr const char* kMetadata = "reads or creates only metadata, on any device";
constexpr const char* kComposite = "calls operators on the buffer, or reads only the shape";
constexpr const char* kMetaChecksDeviceType =
    "its Meta kernel selects the format by device type and does not support PrivateUse1";
constexpr const char* kMetaChecksLess =
    "its Meta kernel checks less than the CPU kernel, which rejects zeros or takes long";
constexpr const char* kReadsStd =
    "reads the standard deviations on the host and rejects negative ones, as on CUDA";
constexpr const char* kReadsRange = "without bounds it reads the range of the data on the host, as on CUDA";
constexpr const char* kReadsOffsets = "without a length it reads the offsets on the host, as on CUDA";
constexpr const char* kReadsLengths = "with unsafe=False it checks the lengths on the host, as on CUDA";
constexpr const char* kPythonMeta =
    "its Meta kernel is Python; training and generation call it at every step";
constexpr const char* kCudaHasDtype = "CUDA supports these dtypes and the CPU kernel does not";
constexpr const char* kNoPrivateUse1Kernel = "chooses a kernel by device type and has none for PrivateUse1";

constexpr const char* kTorch = "2.13";

constexpr uint64_t kTraceDtypes =
    dtypes::kBool | dtypes::kComplexHalf | (OR_TRACE_HAS_LOW_FLOATS ? 0 : dtypes::kLowFloats);

// clang-format off
constexpr OpRule kRules[] = {
    {.pattern = "aten::index.", .flag = kIndexing, .reason = kHostIndices, .torch = kTorch},
    {.pattern = "aten::index_put*", .flag = kIndexing, .reason = kHostIndices, .torch = kTorch},
    {.pattern = "aten::_index_put*", .flag = kIndexing, .reason = kHostIndices, .torch = kTorch},
    {.pattern = "aten::_unsafe_index*", .flag = kIndexing, .reason = kHostIndices, .torch = kTorch},

    {.pattern = "aten::_fused_adagrad_.tensor_lr", .flag = kTakesHostTensors, .reason = kHostLearningRate, .torch = kTorch},
    {.pattern = "aten::_fused_adam_.tensor_lr", .flag = kTakesHostTensors, .reason = kHostLearningRate, .torch = kTorch},
    {.pattern = "aten::_fused_adamw_.tensor_lr", .flag = kTakesHostTensors, .reason = kHostLearningRate, .torch = kTorch},
    {.pattern = "aten::_fused_sgd_.tensor_lr", .flag = kTakesHostTensors, .reason = kHostLearningRate, .torch = kTorch},
    {.pattern = "aten::_nested_from_padded", .flag = kTakesHostTensors, .reason = kHostSizes, .torch = kTorch},
    {.pattern = "aten::_nested_view_from_buffer*", .flag = kTakesHostTensors, .reason = kHostSizes, .torch = kTorch},

    {.pattern = "aten::binomial", .flag = kShapesFromKernel, .reason = kWrongMeta, .torch = kTorch},
    {.pattern = "aten::_native_multi_head_attention*",
     .flag = kShapesFromKernel,
     .reason = kWrongMeta,
     .torch = kTorch},
    {.pattern = "aten::_sample_dirichlet", .flag = kShapesFromKernel, .reason = kWrongMeta, .torch = kTorch},
    {.pattern = "*native_batch_norm*", .flag = kShapesFromKernel, .reason = kWrongMeta, .torch = kTorch},
    {.pattern = "aten::_batch_norm*", .flag = kShapesFromKernel, .reason = kWrongMeta, .torch = kTorch},
    {.pattern = "aten::_embedding_bag*", .flag = kShapesFromKernel, .reason = kWrongMeta, .torch = kTorch},
    {.pattern = "aten::native_layer_norm.out", .flag = kShapesFromKernel, .reason = kWrongMeta, .torch = kTorch},
    {.pattern = "aten::native_group_norm*", .flag = kShapesFromKernel, .reason = kWrongMeta, .torch = kTorch},
    {.pattern = "aten::mkldnn_rnn_layer*", .flag = kShapesFromKernel, .reason = kWrongMeta, .torch = kTorch},
    {.pattern = "aten::multilabel_margin_loss_forward*", .flag = kShapesFromKernel, .reason = kWrongMeta, .torch = kTorch},
    {.pattern = "aten::multi_margin_loss*", .flag = kShapesFromKernel, .reason = kWrongMeta, .torch = kTorch},
    {.pattern = "aten::geqrf*", .flag = kShapesFromKernel, .reason = kWrongMeta, .torch = kTorch},
    {.pattern = "aten::_logcumsumexp*", .flag = kShapesFromKernel, .reason = kWrongMeta, .torch = kTorch},
    {.pattern = "aten::histogram*", .flag = kShapesFromKernel, .reason = kWrongMeta, .torch = kTorch},
    {.pattern = "aten::_histogramdd*", .flag = kShapesFromKernel, .reason = kWrongMeta, .torch = kTorch},
    {.pattern = "aten::isin.Scalar_Tensor*", .flag = kShapesFromKernel, .reason = kWrongMeta, .torch = kTorch},

    {.pattern = "~index", .flag = kMayRejectData, .reason = kRejectsSomeData, .torch = kTorch},
    {.pattern = "~gather", .flag = kMayRejectData, .reason = kRejectsSomeData, .torch = kTorch},
    {.pattern = "~scatter", .flag = kMayRejectData, .reason = kRejectsSomeData, .torch = kTorch},
    {.pattern = "~embedding", .flag = kMayRejectData, .reason = kRejectsSomeData, .torch = kTorch},
    {.pattern = "~take", .flag = kMayRejectData, .reason = kRejectsSomeData, .torch = kTorch},
    {.pattern = "~put", .flag = kMayRejectData, .reason = kRejectsSomeData, .torch = kTorch},
    {.pattern = "~nll", .flag = kMayRejectData, .reason = kRejectsSomeData, .torch = kTorch},
    {.pattern = "~linalg", .flag = kMayRejectData, .reason = kRejectsSomeData, .torch = kTorch},
    {.pattern = "~lu", .flag = kMayRejectData, .reason = kRejectsSomeData, .torch = kTorch},
    {.pattern = "~cholesky", .flag = kMayRejectData, .reason = kRejectsSomeData, .torch = kTorch},
    {.pattern = "~solve", .flag = kMayRejectData, .reason = kRejectsSomeData, .torch = kTorch},
    {.pattern = "~inverse", .flag = kMayRejectData, .reason = kRejectsSomeData, .torch = kTorch},
    {.pattern = "~svd", .flag = kMayRejectData, .reason = kRejectsSomeData, .torch = kTorch},
    {.pattern = "~eig", .flag = kMayRejectData, .reason = kRejectsSomeData, .torch = kTorch},
    {.pattern = "~qr", .flag = kMayRejectData, .reason = kRejectsSomeData, .torch = kTorch},
    {.pattern = "~multinomial", .flag = kMayRejectData, .reason = kRejectsSomeData, .torch = kTorch},
    {.pattern = "~normal", .flag = kMayRejectData, .reason = kRejectsSomeData, .torch = kTorch},
    {.pattern = "~bernoulli", .flag = kMayRejectData, .reason = kRejectsSomeData, .torch = kTorch},
    {.pattern = "~poisson", .flag = kMayRejectData, .reason = kRejectsSomeData, .torch = kTorch},
    {.pattern = "~binomial", .flag = kMayRejectData, .reason = kRejectsSomeData, .torch = kTorch},
    {.pattern = "~ctc", .flag = kMayRejectData, .reason = kRejectsSomeData, .torch = kTorch},
    {.pattern = "~margin", .flag = kMayRejectData, .reason = kRejectsSomeData, .torch = kTorch},
    {.pattern = "~bincount", .flag = kMayRejectData, .reason = kRejectsSomeData, .torch = kTorch},
    {.pattern = "~assert", .flag = kMayRejectData, .reason = kRejectsSomeData, .torch = kTorch},
    {.pattern = "~segment", .flag = kMayRejectData, .reason = kRejectsSomeData, .torch = kTorch},
    {.pattern = "~unpool", .flag = kMayRejectData, .reason = kRejectsSomeData, .torch = kTorch},
    {.pattern = "~remainder", .flag = kMayRejectData, .reason = kRejectsSomeData, .torch = kTorch},
    {.pattern = "~fmod", .flag = kMayRejectData, .reason = kRejectsSomeData, .torch = kTorch},

    {.pattern = "~divide", .flag = kRarelyRejectsData, .reason = kRejectsZeros, .torch = kTorch},
    {.pattern = "~histc", .flag = kRarelyRejectsData, .reason = kRejectsZeros, .torch = kTorch},
    {.pattern = "~interleave", .flag = kRarelyRejectsData, .reason = kRejectsZeros, .torch = kTorch},
    {.pattern = "aten::div.Tensor_mode", .flag = kRarelyRejectsData, .reason = kRejectsZeros, .torch = kTorch},
    {.pattern = "aten::div_.Tensor_mode", .flag = kRarelyRejectsData, .reason = kRejectsZeros, .torch = kTorch},
    {.pattern = "aten::div.Scalar_mode", .flag = kRarelyRejectsData, .reason = kRejectsZeros, .torch = kTorch},
    {.pattern = "aten::div_.Scalar_mode", .flag = kRarelyRejectsData, .reason = kRejectsZeros, .torch = kTorch},
    {.pattern = "aten::div.out_mode", .flag = kRarelyRejectsData, .reason = kRejectsZeros, .torch = kTorch},

    {.pattern = "~cross", .flag = kRejectsOverlap, .reason = kReadsAfterWrite, .torch = kTorch},
    {.pattern = "~gather", .flag = kRejectsOverlap, .reason = kReadsAfterWrite, .torch = kTorch},
    {.pattern = "~scatter", .flag = kRejectsOverlap, .reason = kReadsAfterWrite, .torch = kTorch},
    {.pattern = "~index", .flag = kRejectsOverlap, .reason = kReadsAfterWrite, .torch = kTorch},
    {.pattern = "~take", .flag = kRejectsOverlap, .reason = kReadsAfterWrite, .torch = kTorch},
    {.pattern = "~put", .flag = kRejectsOverlap, .reason = kReadsAfterWrite, .torch = kTorch},
    {.pattern = "~cat", .flag = kRejectsOverlap, .reason = kReadsAfterWrite, .torch = kTorch},
    {.pattern = "~kthvalue", .flag = kRejectsOverlap, .reason = kReadsAfterWrite, .torch = kTorch},
    {.pattern = "~median", .flag = kRejectsOverlap, .reason = kReadsAfterWrite, .torch = kTorch},
    {.pattern = "~masked", .flag = kRejectsOverlap, .reason = kReadsAfterWrite, .torch = kTorch},

    {.pattern = "aten::cholesky.", .flag = kChecksStatus, .reason = kStatus, .torch = "before 2.14"},
    {.pattern = "~eig", .flag = kChecksStatus, .reason = kStatus, .torch = kTorch},
    {.pattern = "~svd", .flag = kChecksStatus, .reason = kStatus, .torch = kTorch},
    {.pattern = "~lstsq", .flag = kChecksStatus, .reason = kStatus, .torch = kTorch},
    {.pattern = "~inverse", .flag = kChecksStatus, .reason = kStatus, .torch = kTorch},
    {.pattern = "aten::normal.Tensor_Tensor*", .flag = kChecksStatus, .reason = kReadsStd, .torch = kTorch},
    {.pattern = "aten::normal.float_Tensor*", .flag = kChecksStatus, .reason = kReadsStd, .torch = kTorch},

    {.pattern = "aten::linalg_lu_solve.out", .flag = kSynchronizes, .reason = kSetsConj, .torch = kTorch},
    {.pattern = "aten::huber_loss.out", .flag = kSynchronizes, .reason = kUnreducedOutput, .torch = kTorch},
    {.pattern = "aten::quantize_per_*", .flag = kSynchronizes, .reason = kQuantizer, .torch = kTorch},

    {.pattern = "aten::_unique.", .flag = kDynamicShape, .reason = kUntagged, .torch = "before 2.13"},

    {.pattern = "aten::_scaled_dot_product_flash_attention_for_cpu*", .flag = kNotRandom, .reason = kNoDropout, .torch = kTorch},

    {.pattern = "aten::resize*", .flag = kResizes, .reason = kResizesSelf, .torch = kTorch},

    {.pattern = "aten::arange*", .flag = kFillsAnyShape, .reason = kSequence, .torch = kTorch},
    {.pattern = "aten::range*", .flag = kFillsAnyShape, .reason = kSequence, .torch = kTorch},
    {.pattern = "aten::linspace*", .flag = kFillsAnyShape, .reason = kSequence, .torch = kTorch},
    {.pattern = "aten::logspace*", .flag = kFillsAnyShape, .reason = kSequence, .torch = kTorch},

    {.pattern = "*backward*", .flag = kNoDryRunWithIntegers, .reason = kSavedIntegers, .torch = kTorch},
    {.pattern = "aten::linalg_ldl_solve.", .flag = kNoDryRunWithZeros, .reason = kUncheckedPivots, .torch = "before 2.13"},

    {.pattern = "aten::random*", .flag = kWarnsIfWide, .reason = kWideRange, .torch = kTorch},

    {.pattern = "aten::arange.", .flag = kWarnsOnResize, .reason = kOwnResizeWarning, .torch = kTorch},

    {.pattern = "aten::index_reduce.", .flag = kWarns, .reason = kBeta, .torch = kTorch},
    {.pattern = "aten::index_reduce_.", .flag = kWarns, .reason = kBeta, .torch = kTorch},

    {.pattern = "aten::searchsorted.", .flag = kWarnsIfNotContiguous, .reason = kCopiesInput, .torch = kTorch},
    {.pattern = "aten::bucketize.", .flag = kWarnsIfNotContiguous, .reason = kCopiesInput, .torch = kTorch},

    {.pattern = "aten::_indices.", .flag = kSparseMetadata, .reason = kMetadata, .torch = kTorch},
    {.pattern = "aten::_values.", .flag = kSparseMetadata, .reason = kMetadata, .torch = kTorch},
    {.pattern = "aten::indices.", .flag = kSparseMetadata, .reason = kMetadata, .torch = kTorch},
    {.pattern = "aten::values.", .flag = kSparseMetadata, .reason = kMetadata, .torch = kTorch},
    {.pattern = "aten::_nnz.", .flag = kSparseMetadata, .reason = kMetadata, .torch = kTorch},
    {.pattern = "aten::is_coalesced.", .flag = kSparseMetadata, .reason = kMetadata, .torch = kTorch},
    {.pattern = "aten::_coalesced_.", .flag = kSparseMetadata, .reason = kMetadata, .torch = kTorch},
    {.pattern = "aten::sparse_dim.", .flag = kSparseMetadata, .reason = kMetadata, .torch = kTorch},
    {.pattern = "aten::dense_dim.", .flag = kSparseMetadata, .reason = kMetadata, .torch = kTorch},
    {.pattern = "aten::_dimI.", .flag = kSparseMetadata, .reason = kMetadata, .torch = kTorch},
    {.pattern = "aten::_dimV.", .flag = kSparseMetadata, .reason = kMetadata, .torch = kTorch},
    {.pattern = "aten::crow_indices.", .flag = kSparseMetadata, .reason = kMetadata, .torch = kTorch},
    {.pattern = "aten::col_indices.", .flag = kSparseMetadata, .reason = kMetadata, .torch = kTorch},
    {.pattern = "aten::ccol_indices.", .flag = kSparseMetadata, .reason = kMetadata, .torch = kTorch},
    {.pattern = "aten::row_indices.", .flag = kSparseMetadata, .reason = kMetadata, .torch = kTorch},
    {.pattern = "aten::sparse_resize_.", .flag = kSparseMetadata, .reason = kMetadata, .torch = kTorch},
    {.pattern = "aten::sparse_resize_and_clear_.", .flag = kSparseMetadata, .reason = kMetadata, .torch = kTorch},
    {.pattern = "aten::_sparse_coo_tensor_with_dims.", .flag = kSparseMetadata, .reason = kMetadata, .torch = kTorch},
    {.pattern = "aten::_sparse_coo_tensor_with_dims_and_tensors.", .flag = kSparseMetadata, .reason = kMetadata, .torch = kTorch},
    {.pattern = "aten::_sparse_compressed_tensor_unsafe.", .flag = kSparseMetadata, .reason = kMetadata, .torch = kTorch},
    {.pattern = "aten::_sparse_compressed_tensor_with_dims.", .flag = kSparseMetadata, .reason = kMetadata, .torch = kTorch},
    {.pattern = "aten::empty.", .flag = kSparseMetadata, .reason = kMetadata, .torch = kTorch},
    {.pattern = "aten::resize_as_sparse_.", .flag = kSparseMetadata, .reason = kMetadata, .torch = kTorch},
    {.pattern = "aten::resize_.", .flag = kSparseMetadata, .reason = kMetadata, .torch = kTorch},

    {.pattern = "aten::_nested_tensor_size.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::_nested_tensor_strides.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::_nested_tensor_storage_offsets.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::_nested_select_backward.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::_nested_from_padded_and_nested_example.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::_pin_memory.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::_softmax.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::_softmax_backward_data.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::_to_copy.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::abs.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::abs_.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::add.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::add_.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::alias.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::bmm.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::cat.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::chunk.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::clone.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::copy_.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::cos.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::detach.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::div.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::embedding.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::empty_like.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::eq.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::fill_.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::ge.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::gelu.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::gelu_.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::gelu_backward.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::gt.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::is_pinned.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::is_same_size.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::isinf.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::isnan.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::isneginf.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::isposinf.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::linear.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::linear_backward.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::logical_not.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::logical_not_.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::masked_fill.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::matmul.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::matmul_backward.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::mul.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::mul_.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::narrow.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::native_dropout.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::native_dropout_backward.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::neg.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::neg_.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::normal_.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::ones_like.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::relu.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::relu_.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::select.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::sgn.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::sgn_.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::silu.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::silu_.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::silu_backward.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::sin.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::split_with_sizes.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::sqrt.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::squeeze.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::sub.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::tanh.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::tanh_.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::threshold_backward.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::transpose.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::unbind.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::unsqueeze.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::values.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::view.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::where.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},
    {.pattern = "aten::zero_.", .flag = kNestedMetadata, .reason = kComposite, .torch = kTorch},

    {.pattern = "aten::_empty_affine_quantized.", .flag = kQuantizedMetadata, .reason = kMetadata, .torch = kTorch},
    {.pattern = "aten::_empty_per_channel_affine_quantized.", .flag = kQuantizedMetadata, .reason = kMetadata, .torch = kTorch},
    {.pattern = "aten::_reshape_alias.", .flag = kQuantizedMetadata, .reason = kMetadata, .torch = kTorch},
    {.pattern = "aten::as_strided.", .flag = kQuantizedMetadata, .reason = kMetadata, .torch = kTorch},
    {.pattern = "aten::empty.", .flag = kQuantizedMetadata, .reason = kMetadata, .torch = kTorch},
    {.pattern = "aten::empty_like.", .flag = kQuantizedMetadata, .reason = kMetadata, .torch = kTorch},
    {.pattern = "aten::empty_quantized.", .flag = kQuantizedMetadata, .reason = kMetadata, .torch = kTorch},
    {.pattern = "aten::empty_strided.", .flag = kQuantizedMetadata, .reason = kMetadata, .torch = kTorch},
    {.pattern = "aten::q_per_channel_axis.", .flag = kQuantizedMetadata, .reason = kMetadata, .torch = kTorch},
    {.pattern = "aten::q_scale.", .flag = kQuantizedMetadata, .reason = kMetadata, .torch = kTorch},
    {.pattern = "aten::q_zero_point.", .flag = kQuantizedMetadata, .reason = kMetadata, .torch = kTorch},
    {.pattern = "aten::qscheme.", .flag = kQuantizedMetadata, .reason = kMetadata, .torch = kTorch},
    {.pattern = "aten::set_.", .flag = kQuantizedMetadata, .reason = kMetadata, .torch = kTorch},
    {.pattern = "aten::squeeze.", .flag = kQuantizedMetadata, .reason = kMetadata, .torch = kTorch},
    {.pattern = "aten::unfold.", .flag = kQuantizedMetadata, .reason = kMetadata, .torch = kTorch},
    {.pattern = "aten::unsqueeze.", .flag = kQuantizedMetadata, .reason = kMetadata, .torch = kTorch},
    {.pattern = "aten::view.", .flag = kQuantizedMetadata, .reason = kMetadata, .torch = kTorch},

    {.pattern = "aten::convolution", .flag = kChannelsLast, .reason = kMetaChecksDeviceType, .torch = kTorch, .first_argument = 0, .arguments = 2},
    {.pattern = "aten::_convolution", .flag = kChannelsLast, .reason = kMetaChecksDeviceType, .torch = kTorch, .first_argument = 0, .arguments = 2},
    {.pattern = "aten::convolution_backward", .flag = kChannelsLast, .reason = kMetaChecksDeviceType, .torch = kTorch, .first_argument = 1, .arguments = 2},
    {.pattern = "aten::native_channel_shuffle", .flag = kChannelsLast, .reason = kMetaChecksDeviceType, .torch = kTorch, .first_argument = 0, .arguments = 1},
    {.pattern = "aten::channel_shuffle", .flag = kChannelsLast, .reason = kMetaChecksDeviceType, .torch = kTorch, .first_argument = 0, .arguments = 1},
    {.pattern = "aten::pixel_shuffle", .flag = kChannelsLast, .reason = kMetaChecksDeviceType, .torch = kTorch, .first_argument = 0, .arguments = 1},
    {.pattern = "aten::max_unpool2d", .flag = kChannelsLast, .reason = kMetaChecksDeviceType, .torch = kTorch, .first_argument = 0, .arguments = 1},

    {.pattern = "aten::_assert_async.", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::assert_async},
    {.pattern = "aten::histc", .flag = kChecked, .reason = kReadsRange, .torch = kTorch, .check = checks::histc},
    {.pattern = "aten::histc.out", .flag = kChecked, .reason = kReadsRange, .torch = kTorch, .check = checks::histc},
    {.pattern = "aten::_padded_dense_to_jagged_forward", .flag = kChecked, .reason = kReadsOffsets, .torch = kTorch, .check = checks::padded_dense_to_jagged},
    {.pattern = "aten::randperm.generator_out", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::randperm_out},
    {.pattern = "aten::segment_reduce", .flag = kChecked, .reason = kReadsLengths, .torch = kTorch, .check = checks::segment_reduce},
    {.pattern = "aten::segment_reduce.out", .flag = kChecked, .reason = kReadsLengths, .torch = kTorch, .check = checks::segment_reduce},
    {.pattern = "aten::linalg_lu_factor_ex", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::lu_factor},
    {.pattern = "aten::linalg_lu_factor_ex.out", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::lu_factor},
    {.pattern = "aten::linalg_lu", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::lu_factor},
    {.pattern = "aten::linalg_lu.out", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::lu_factor},
    {.pattern = "aten::index_put", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::index_put},
    {.pattern = "aten::index_put.out", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::index_put},
    {.pattern = "aten::index_put_", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::index_put},
    {.pattern = "aten::_index_put_impl", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::index_put},
    {.pattern = "aten::_index_put_impl.out", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::index_put},
    {.pattern = "aten::_index_put_impl_", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::index_put},
    {.pattern = "aten::put", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::put},
    {.pattern = "aten::put.out", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::put},
    {.pattern = "aten::put_", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::put},
    {.pattern = "aten::index_select", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::index_select},
    {.pattern = "aten::index_select.out", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::index_select},
    {.pattern = "aten::multinomial", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::multinomial},
    {.pattern = "aten::multinomial.out", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::multinomial_out},
    {.pattern = "aten::nll_loss_forward", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::nll_loss},
    {.pattern = "aten::nll_loss_forward.output", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::nll_loss},
    {.pattern = "aten::nll_loss2d_forward", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::nll_loss2d},
    {.pattern = "aten::nll_loss2d_forward.output", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::nll_loss2d},
    {.pattern = "aten::nll_loss_backward%", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::nll_loss_backward},
    {.pattern = "aten::nll_loss2d_backward%", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::nll_loss_backward},
    {.pattern = "aten::grid_sampler_2d", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::grid_sampler},
    {.pattern = "aten::grid_sampler_2d.out", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::grid_sampler},
    {.pattern = "aten::grid_sampler_3d", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::grid_sampler},
    {.pattern = "aten::grid_sampler_3d.out", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::grid_sampler},
    {.pattern = "aten::masked_scatter_", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::masked_scatter},
    {.pattern = "aten::masked_fill_.Scalar", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::masked_fill},
    {.pattern = "aten::masked_fill_.Tensor", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::masked_fill},
    {.pattern = "aten::embedding_renorm_", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::embedding_renorm},
    {.pattern = "aten::bucketize.Tensor", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::bucketize},
    {.pattern = "aten::bucketize.Tensor_out", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::bucketize},
    {.pattern = "aten::convolution", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::convolution},
    {.pattern = "aten::convolution.out", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::convolution},
    {.pattern = "aten::_convolution", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::convolution},
    {.pattern = "aten::_convolution.out", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::convolution},
    {.pattern = "aten::addmv", .flag = kChecked, .reason = kWrongMeta, .torch = kTorch, .check = checks::addmv},
    {.pattern = "aten::bmm", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::matrix_product},
    {.pattern = "aten::bmm.out", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::matrix_product},
    {.pattern = "aten::mm", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::matrix_product},
    {.pattern = "aten::mm.out", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::matrix_product},
    {.pattern = "aten::addmm", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::addmm},
    {.pattern = "aten::addmm.out", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::addmm},
    {.pattern = "aten::addmm_", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::addmm},
    {.pattern = "aten::_addmm_activation", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::addmm},
    {.pattern = "aten::_addmm_activation.out", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::addmm},
    {.pattern = "aten::max", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::is_empty},
    {.pattern = "aten::max.unary_out", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::is_empty},
    {.pattern = "aten::min", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::is_empty},
    {.pattern = "aten::min.unary_out", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::is_empty},
    {.pattern = "aten::median.dim_values", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::dimension_is_empty},
    {.pattern = "aten::nanmedian.dim_values", .flag = kChecked, .reason = kMetaChecksLess, .torch = kTorch, .check = checks::dimension_is_empty},

    {.pattern = "aten::relu", .flag = kHasShapeFunction, .reason = kPythonMeta, .torch = kTorch, .shapes = shapes::like_first},
    {.pattern = "aten::native_layer_norm", .flag = kHasShapeFunction, .reason = kPythonMeta, .torch = kTorch, .shapes = shapes::layer_norm},
    {.pattern = "aten::native_layer_norm_backward", .flag = kHasShapeFunction, .reason = kPythonMeta, .torch = kTorch, .shapes = shapes::layer_norm_backward},
    {.pattern = "aten::_scaled_dot_product_flash_attention_for_cpu", .flag = kHasShapeFunction, .reason = kPythonMeta, .torch = kTorch, .shapes = shapes::flash_attention},
    {.pattern = "aten::_scaled_dot_product_flash_attention_for_cpu_backward", .flag = kHasShapeFunction, .reason = kPythonMeta, .torch = kTorch, .shapes = shapes::flash_attention_backward},
    {.pattern = "aten::index_select", .flag = kHasShapeFunction, .reason = kPythonMeta, .torch = kTorch, .shapes = shapes::index_select},
    {.pattern = "aten::embedding_dense_backward", .flag = kHasShapeFunction, .reason = kPythonMeta, .torch = kTorch, .shapes = shapes::embedding_dense_backward},
    {.pattern = "aten::convolution", .flag = kHasShapeFunction, .reason = kPythonMeta, .torch = kTorch, .shapes = shapes::convolution},
    {.pattern = "aten::_convolution", .flag = kHasShapeFunction, .reason = kPythonMeta, .torch = kTorch, .shapes = shapes::convolution},
    {.pattern = "aten::convolution_backward", .flag = kHasShapeFunction, .reason = kPythonMeta, .torch = kTorch, .shapes = shapes::convolution_backward},
    {.pattern = "aten::index_put_", .flag = kHasShapeFunction, .reason = kPythonMeta, .torch = kTorch, .shapes = shapes::in_place},
    {.pattern = "aten::_index_put_impl_", .flag = kHasShapeFunction, .reason = kPythonMeta, .torch = kTorch, .shapes = shapes::in_place},
    {.pattern = "aten::masked_fill_.Scalar", .flag = kHasShapeFunction, .reason = kPythonMeta, .torch = kTorch, .shapes = shapes::in_place},
    {.pattern = "aten::masked_fill_.Tensor", .flag = kHasShapeFunction, .reason = kPythonMeta, .torch = kTorch, .shapes = shapes::in_place},
    {.pattern = "aten::nll_loss2d_forward", .flag = kHasShapeFunction, .reason = kWrongMeta, .torch = kTorch, .shapes = shapes::nll_loss2d},
    {.pattern = "aten::nonzero_static", .flag = kHasShapeFunction, .reason = kPythonMeta, .torch = kTorch, .shapes = shapes::nonzero_static},
    {.pattern = "aten::masked_scatter_", .flag = kHasShapeFunction, .reason = kPythonMeta, .torch = kTorch, .shapes = shapes::in_place},

    {.pattern = "aten::fft_*", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kHalf | dtypes::kComplexHalf},
    {.pattern = "aten::abs%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kBool},
    {.pattern = "aten::histc%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kIntegers},
    {.pattern = "aten::trace%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = kTraceDtypes},
    {.pattern = "aten::avg_pool3d%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kLowFloats},
    {.pattern = "aten::avg_pool3d_backward%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kLowFloats},
    {.pattern = "aten::_upsample_bilinear2d_aa%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kLowFloats},
    {.pattern = "aten::_upsample_bilinear2d_aa_backward%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kLowFloats},
    {.pattern = "aten::multi_margin_loss%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kLowFloats},
    {.pattern = "aten::multi_margin_loss_backward%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kLowFloats},
    {.pattern = "aten::multilabel_margin_loss_forward%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kLowFloats},
    {.pattern = "aten::multilabel_margin_loss_backward%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kLowFloats},
    {.pattern = "aten::rrelu_with_noise%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kHalf},
    {.pattern = "aten::round%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kHalf},
    {.pattern = "aten::polygamma%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kHalf},
    {.pattern = "aten::convolution%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kComplexHalf},
    {.pattern = "aten::_convolution%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kComplexHalf},
    {.pattern = "aten::convolution_backward%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kComplexHalf},
    {.pattern = "aten::acos%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kComplexHalf},
    {.pattern = "aten::acosh%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kComplexHalf},
    {.pattern = "aten::asin%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kComplexHalf},
    {.pattern = "aten::asinh%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kComplexHalf},
    {.pattern = "aten::atan%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kComplexHalf},
    {.pattern = "aten::atanh%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kComplexHalf},
    {.pattern = "aten::cos%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kComplexHalf},
    {.pattern = "aten::cosh%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kComplexHalf},
    {.pattern = "aten::div%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kComplexHalf},
    {.pattern = "aten::exp%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kComplexHalf},
    {.pattern = "aten::log%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kComplexHalf},
    {.pattern = "aten::pow%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kComplexHalf},
    {.pattern = "aten::sin%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kComplexHalf},
    {.pattern = "aten::sinh%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kComplexHalf},
    {.pattern = "aten::tan%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kComplexHalf},
    {.pattern = "aten::tanh%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kComplexHalf},
    {.pattern = "aten::sqrt%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kComplexHalf},
    {.pattern = "aten::lerp%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kComplexHalf},
    {.pattern = "aten::angle%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kComplexHalf},
    {.pattern = "aten::sigmoid%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kComplexHalf},
    {.pattern = "aten::prod%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kComplexHalf},
    {.pattern = "aten::sum%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kComplexHalf},
    {.pattern = "aten::sgn%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kComplexHalf},
    {.pattern = "aten::rsqrt%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kComplexHalf},
    {.pattern = "aten::logaddexp%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kComplexHalf},
    {.pattern = "aten::tanh_backward%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kComplexHalf},
    {.pattern = "aten::sigmoid_backward%", .flag = kUpcast, .reason = kCudaHasDtype, .torch = kTorch, .dtypes = dtypes::kComplexHalf},

    {.pattern = "aten::_convolution", .flag = kChoosesByDevice, .reason = kNoPrivateUse1Kernel, .torch = kTorch},
    {.pattern = "aten::convolution_backward", .flag = kChoosesByDevice, .reason = kNoPrivateUse1Kernel, .torch = kTorch},
    {.pattern = "aten::conj_physical_", .flag = kChoosesByDevice, .reason = kNoPrivateUse1Kernel, .torch = kTorch},
    {.pattern = "aten::ldexp.Tensor", .flag = kChoosesByDevice, .reason = kNoPrivateUse1Kernel, .torch = kTorch},
    {.pattern = "aten::ldexp.out", .flag = kChoosesByDevice, .reason = kNoPrivateUse1Kernel, .torch = kTorch},
    {.pattern = "aten::ldexp_", .flag = kChoosesByDevice, .reason = kNoPrivateUse1Kernel, .torch = kTorch},
    {.pattern = "aten::mode.values", .flag = kChoosesByDevice, .reason = kNoPrivateUse1Kernel, .torch = kTorch},
    {.pattern = "aten::kaiser_window", .flag = kChoosesByDevice, .reason = kNoPrivateUse1Kernel, .torch = kTorch},
    {.pattern = "aten::kaiser_window.periodic", .flag = kChoosesByDevice, .reason = kNoPrivateUse1Kernel, .torch = kTorch},
    {.pattern = "aten::kaiser_window.beta", .flag = kChoosesByDevice, .reason = kNoPrivateUse1Kernel, .torch = kTorch},
};
// clang-format on

}  // namespace

bool OpRule::matches(std::string_view name) const {
  const std::string_view base = name.substr(0, name.find('.'));
  const std::string_view body = pattern.substr(0, pattern.size() - 1);
  switch (pattern.back()) {
    case '.':
      return base == body;
    case '%':
      return base == body || (base.ends_with('_') && base.substr(0, base.size() - 1) == body);
    case '*':
      return pattern.front() == '*' ? name.find(body.substr(1)) != std::string_view::npos
                                    : name.starts_with(body);
    default:
      break;
  }
  return pattern.front() == '~' ? name.starts_with("aten::") && has_token(name, pattern.substr(1))
                                : name == pattern;
}

std::span<const OpRule> op_rules() {
  return kRules;
}

OpRules rules_for(std::string_view name) {
  OpRules found;
  for (const OpRule& rule : kRules) {
    if (!rule.matches(name)) {
      continue;
    }
    found.flags |= uint32_t{1} << static_cast<int>(rule.flag);
    found.dtypes |= rule.dtypes;
    found.check = rule.check != nullptr ? rule.check : found.check;
    found.shapes = rule.shapes != nullptr ? rule.shapes : found.shapes;
    if (rule.flag == kChannelsLast) {
      found.format = &rule;
    }
  }
  return found;
}

std::vector<OpRuleMatches> op_rule_matches() {
  std::vector<OpRuleMatches> all;
  for (const OpRule& rule : kRules) {
    all.push_back({std::string(rule.pattern), rule.reason, rule.torch, 0});
  }
  for (const c10::OperatorName& op : c10::Dispatcher::singleton().getAllOpNames()) {
    const std::string name = c10::toString(op);
    for (size_t i = 0; i < std::size(kRules); ++i) {
      all[i].matches += kRules[i].matches(name) ? 1 : 0;
    }
  }
  return all;
}

}  // namespace openreg
