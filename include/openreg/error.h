/*
 * The one table of errors: code, name, class, text.
 *
 * A code's number never changes and is never used again. The class says what the program may still do; the
 * text is what the code means in general. What happened in particular, with the values, is
 * orGetLastErrorMessage().
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
#define OR_ERRORS(X)                                                                                        \
  X(orSuccess, 0, orClassNone, "no error")                                                                  \
  X(orErrorInvalidValue, 1, orClassOperationFailed, "an argument has a value that is not allowed")          \
  X(orErrorInvalidDevice, 2, orClassOperationFailed, "there is no such device")                             \
  X(orErrorInvalidPointer, 3, orClassOperationFailed, "the pointer is not in a live allocation")            \
  X(orErrorInvalidHandle, 4, orClassOperationFailed, "the handle is not, or no longer, alive")              \
  X(orErrorNotSupported, 5, orClassOperationFailed, "the device cannot do this")                            \
  X(orErrorNotReady, 6, orClassRetry, "the work is not finished yet")                                       \
  X(orErrorOutOfMemory, 7, orClassOutOfMemory, "the device has no block of that size left")                 \
  X(orErrorOutOfHostMemory, 8, orClassOutOfMemory, "the host has no memory of that size left")              \
  X(orErrorKernelFailed, 9, orClassStreamPoisoned, "a kernel failed")                                       \
  X(orErrorSystem, 10, orClassOperationFailed, "a call of the operating system failed")                     \
  X(orErrorForked, 11, orClassDeviceLost, "the device was in use before fork, and the child cannot use it") \
  X(orErrorDeviceLost, 12, orClassDeviceLost, "the device no longer answers")                               \
  X(orErrorNotPermitted, 13, orClassOperationFailed, "the call is not allowed here")                        \
  X(orErrorDriver, 14, orClassDeviceLost, "the driver does not fit this runtime")                           \
  X(orErrorCapture, 15, orClassOperationFailed, "the call does not fit the capture of a stream")            \
  X(orErrorCaptureInvalidated, 16, orClassOperationFailed, "the capture was invalidated by an earlier call")

/* What a program may still do after an error. */
typedef enum orErrorClass OR_INT_ENUM {
  orClassNone = 0,            /* nothing went wrong */
  orClassRetry = 1,           /* ask again later */
  orClassOutOfMemory = 2,     /* free something, then try again */
  orClassOperationFailed = 3, /* this call did nothing; everything else is as it was */
  orClassStreamPoisoned =
      4,                /* work behind the failure was dropped; the stream goes on once it was reported */
  orClassDeviceLost = 5 /* the device is of no more use to this process */
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
