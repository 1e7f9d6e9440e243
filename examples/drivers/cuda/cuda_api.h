// The functions of CUDA that this driver calls, declared here: it builds without CUDA's headers, and loads
// the libraries at run time.
//
// Another chip: its user-mode driver library. With headers that can be shipped, include them instead.
#pragma once

#include <cstddef>
#include <cstdint>

using CUresult = int;  // 0: success
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphExec = struct CUgraphExec_st*;
using CUhostFn = void (*)(void*);
struct CUipcHandle {  // CUipcMemHandle and CUipcEventHandle
  char bytes[64];
};
using nvrtcProgram = struct _nvrtcProgram*;
using cublasHandle_t = struct cublasContext*;

namespace nv {

// X(member, symbol, parameters)
#define NV_CUDA_FUNCTIONS(X)                                                                             \
  X(init, "cuInit", (unsigned))                                                                          \
  X(error_name, "cuGetErrorName", (CUresult, const char**))                                              \
  X(error_string, "cuGetErrorString", (CUresult, const char**))                                          \
  X(device_count, "cuDeviceGetCount", (int*))                                                            \
  X(device_get, "cuDeviceGet", (CUdevice*, int))                                                         \
  X(device_name, "cuDeviceGetName", (char*, int, CUdevice))                                              \
  X(device_memory, "cuDeviceTotalMem_v2", (size_t*, CUdevice))                                           \
  X(device_attribute, "cuDeviceGetAttribute", (int*, int, CUdevice))                                     \
  X(context_retain, "cuDevicePrimaryCtxRetain", (CUcontext*, CUdevice))                                  \
  X(context_release, "cuDevicePrimaryCtxRelease_v2", (CUdevice))                                         \
  X(context_get, "cuCtxGetCurrent", (CUcontext*))                                                        \
  X(context_set, "cuCtxSetCurrent", (CUcontext))                                                         \
  X(memory_alloc, "cuMemAlloc_v2", (CUdeviceptr*, size_t))                                               \
  X(memory_free, "cuMemFree_v2", (CUdeviceptr))                                                          \
  X(memory_info, "cuMemGetInfo_v2", (size_t*, size_t*))                                                  \
  X(host_alloc, "cuMemHostAlloc", (void**, size_t, unsigned))                                            \
  X(host_free, "cuMemFreeHost", (void*))                                                                 \
  X(copy, "cuMemcpyAsync", (CUdeviceptr, CUdeviceptr, size_t, CUstream))                                 \
  X(fill, "cuMemsetD8Async", (CUdeviceptr, unsigned char, size_t, CUstream))                             \
  X(stream_create, "cuStreamCreateWithPriority", (CUstream*, unsigned, int))                             \
  X(stream_destroy, "cuStreamDestroy_v2", (CUstream))                                                    \
  X(stream_query, "cuStreamQuery", (CUstream))                                                           \
  X(stream_synchronize, "cuStreamSynchronize", (CUstream))                                               \
  X(stream_wait_event, "cuStreamWaitEvent", (CUstream, CUevent, unsigned))                               \
  X(launch_host, "cuLaunchHostFunc", (CUstream, CUhostFn, void*))                                        \
  X(event_create, "cuEventCreate", (CUevent*, unsigned))                                                 \
  X(event_destroy, "cuEventDestroy_v2", (CUevent))                                                       \
  X(event_record, "cuEventRecord", (CUevent, CUstream))                                                  \
  X(event_query, "cuEventQuery", (CUevent))                                                              \
  X(event_synchronize, "cuEventSynchronize", (CUevent))                                                  \
  X(event_elapsed, "cuEventElapsedTime", (float*, CUevent, CUevent))                                     \
  X(ipc_get, "cuIpcGetMemHandle", (CUipcHandle*, CUdeviceptr))                                           \
  X(ipc_open, "cuIpcOpenMemHandle_v2", (CUdeviceptr*, CUipcHandle, unsigned))                            \
  X(ipc_close, "cuIpcCloseMemHandle", (CUdeviceptr))                                                     \
  X(ipc_get_event, "cuIpcGetEventHandle", (CUipcHandle*, CUevent))                                       \
  X(ipc_open_event, "cuIpcOpenEventHandle", (CUevent*, CUipcHandle))                                     \
  X(capture_begin, "cuStreamBeginCapture_v2", (CUstream, int))                                           \
  X(capture_end, "cuStreamEndCapture", (CUstream, CUgraph*))                                             \
  X(graph_instantiate, "cuGraphInstantiateWithFlags", (CUgraphExec*, CUgraph, unsigned long long))       \
  X(graph_launch, "cuGraphLaunch", (CUgraphExec, CUstream))                                              \
  X(graph_destroy, "cuGraphDestroy", (CUgraph))                                                          \
  X(graph_exec_destroy, "cuGraphExecDestroy", (CUgraphExec))                                             \
  X(module_load, "cuModuleLoadData", (CUmodule*, const void*))                                           \
  X(module_unload, "cuModuleUnload", (CUmodule))                                                         \
  X(module_function, "cuModuleGetFunction", (CUfunction*, CUmodule, const char*))                        \
  X(launch, "cuLaunchKernel",                                                                            \
    (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void**, \
     void**))

#define NV_NVRTC_FUNCTIONS(X)                                                               \
  X(create, "nvrtcCreateProgram",                                                           \
    (nvrtcProgram*, const char*, const char*, int, const char* const*, const char* const*)) \
  X(destroy, "nvrtcDestroyProgram", (nvrtcProgram*))                                        \
  X(compile, "nvrtcCompileProgram", (nvrtcProgram, int, const char* const*))                \
  X(log_size, "nvrtcGetProgramLogSize", (nvrtcProgram, size_t*))                            \
  X(log, "nvrtcGetProgramLog", (nvrtcProgram, char*))                                       \
  X(cubin_size, "nvrtcGetCUBINSize", (nvrtcProgram, size_t*))                               \
  X(cubin, "nvrtcGetCUBIN", (nvrtcProgram, char*))                                          \
  X(ptx_size, "nvrtcGetPTXSize", (nvrtcProgram, size_t*))                                   \
  X(ptx, "nvrtcGetPTX", (nvrtcProgram, char*))                                              \
  X(arch_count, "nvrtcGetNumSupportedArchs", (int*))                                        \
  X(archs, "nvrtcGetSupportedArchs", (int*))

#define NV_CUBLAS_FUNCTIONS(X)                                                                            \
  X(create, "cublasCreate_v2", (cublasHandle_t*))                                                         \
  X(destroy, "cublasDestroy_v2", (cublasHandle_t))                                                        \
  X(set_stream, "cublasSetStream_v2", (cublasHandle_t, CUstream))                                         \
  X(set_workspace, "cublasSetWorkspace_v2", (cublasHandle_t, void*, size_t))                              \
  X(gemm, "cublasGemmStridedBatchedEx",                                                                   \
    (cublasHandle_t, int, int, int, int, int, const void*, const void*, int, int, long long, const void*, \
     int, int, long long, const void*, void*, int, int, long long, int, int, int))

#define NV_MEMBER(member, symbol, parameters) int(*member) parameters;
struct Cuda {
  NV_CUDA_FUNCTIONS(NV_MEMBER)
};
struct Nvrtc {
  NV_NVRTC_FUNCTIONS(NV_MEMBER)
};
struct Cublas {
  NV_CUBLAS_FUNCTIONS(NV_MEMBER)
};
#undef NV_MEMBER

/// Valid after load_cuda succeeded, which `init` calls.
extern Cuda cuda;

/// Load the library once; NULL, and `why` says which file is missing or broken.
bool load_cuda(const char** why);
const Nvrtc* load_nvrtc(const char** why);
const Cublas* load_cublas(const char** why);

// Values of CUDA's enumerations.
enum : int {
  kSuccess = 0,
  kErrorInvalidValue = 1,
  kErrorOutOfMemory = 2,
  kErrorNotInitialized = 3,
  kErrorNoDevice = 100,
  kErrorInvalidImage = 200,
  kErrorNoBinary = 209,
  kErrorInvalidPtx = 218,
  kErrorUnsupportedPtx = 222,
  kErrorNotFound = 500,
  kErrorNotReady = 600,
  kErrorNotPermitted = 800,
  kErrorNotSupported = 801,
  kErrorFirstOfCapture = 900,
  kErrorLastOfCapture = 908,

  kAttributeProcessors = 16,
  kAttributeMajor = 75,
  kAttributeMinor = 76,

  kStreamNonBlocking = 1,
  kEventDisableTiming = 2,
  kEventInterprocess = 4,
  kIpcLazyPeerAccess = 1,
  kHostPortable = 1,
  kCaptureRelaxed = 2,

  kNvrtcInvalidOption = 5,

  kBlasTranspose = 1,
  kBlasCompute32 = 68,
  kBlasCompute64 = 70,
  kBlasDefaultAlgorithm = -1,
  kBlasFloat32 = 0,
  kBlasFloat64 = 1,
  kBlasFloat16 = 2,
  kBlasBfloat16 = 14,
};

}  // namespace nv
