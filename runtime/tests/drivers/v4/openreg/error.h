/*
 * The table of errors: name, number, class, text.
 *
 * The number of a code never changes and is never reused. The class says how a program can recover. The text
 * is the general meaning of the code; orGetLastErrorMessage() has the message of one error, with its values.
 */
#ifndef OPENREG_ERROR_H_
#define OPENREG_ERROR_H_

/* In C an enum holds any int. In C++ it does so only with a fixed type; a value that a later version has
 * added is then valid in an older program. */
#if defined(__cplusplus)
#define OR_INT_ENUM : int
#else
#define OR_INT_ENUM
#endif

/* X(name, number, class, text) */
#define OR_ERRORS(X)                                                                                       \
  X(orSuccess, 0, orClassNone, "no error")                                                                 \
  X(orErrorInvalidValue, 1, orClassOperationFailed, "invalid argument")                                    \
  X(orErrorInvalidDevice, 2, orClassOperationFailed, "invalid device ordinal")                             \
  X(orErrorInvalidPointer, 3, orClassOperationFailed, "invalid pointer: not inside a live allocation")     \
  X(orErrorInvalidHandle, 4, orClassOperationFailed, "invalid resource handle")                            \
  X(orErrorNotSupported, 5, orClassOperationFailed, "operation not supported")                             \
  X(orErrorNotReady, 6, orClassRetry, "device not ready")                                                  \
  X(orErrorOutOfMemory, 7, orClassOutOfMemory, "out of memory")                                            \
  X(orErrorOutOfHostMemory, 8, orClassOutOfMemory, "out of host memory")                                   \
  X(orErrorKernelFailed, 9, orClassStreamPoisoned, "kernel execution failed")                              \
  X(orErrorSystem, 10, orClassOperationFailed, "operating system call failed")                             \
  X(orErrorForked, 11, orClassDeviceLost, "the device was used before fork; a forked child cannot use it") \
  X(orErrorDeviceLost, 12, orClassDeviceLost, "the device does not respond")                               \
  X(orErrorNotPermitted, 13, orClassOperationFailed, "operation not permitted")                            \
  X(orErrorDriver, 14, orClassDeviceLost, "incompatible driver, or an invalid result of the driver")       \
  X(orErrorCapture, 15, orClassOperationFailed, "invalid operation in this capture state")                 \
  X(orErrorCaptureInvalidated, 16, orClassOperationFailed,                                                 \
    "operation failed due to a previous error during capture")

/* How a program can recover from an error. */
typedef enum orErrorClass OR_INT_ENUM {
  orClassNone = 0,            /* no error */
  orClassRetry = 1,           /* not finished; query again later */
  orClassOutOfMemory = 2,     /* free memory, then retry */
  orClassOperationFailed = 3, /* the call had no effect; the device is still usable */
  orClassStreamPoisoned = 4,  /* queued work was dropped; the stream is usable after this report */
  orClassDeviceLost = 5       /* this process cannot use the device any more */
} orErrorClass;

#define OR_DEFINE_ERROR(name, number, class_, text) name = number,
typedef enum orError_t OR_INT_ENUM { OR_ERRORS(OR_DEFINE_ERROR) } orError_t;
#undef OR_DEFINE_ERROR

#if defined(__cplusplus)
#define OR_NODISCARD [[nodiscard]]
#elif defined(__GNUC__)
#define OR_NODISCARD __attribute__((warn_unused_result))
#else
#define OR_NODISCARD
#endif

#endif /* OPENREG_ERROR_H_ */
