/*
 * The watchdog: reports streams that make no progress.
 *
 * While it is on, the runtime keeps the submitted work of each stream, and a thread looks for streams whose
 * next operation has not finished within a time. A report names the operation, the line of the program that
 * submitted it, and what the stream waits for: an event of another stream or of another process, or the
 * operation itself. It works with every driver. While it is off, it costs nothing.
 *
 * Work that was submitted before the watchdog was switched on is not seen. A report is made once for each
 * operation.
 *
 * Note [Failing streams]
 * With `fail_streams`, the streams of a report fail after it: work that has not started is dropped, waits are
 * abandoned, a hang of a fault rule ends, and the next synchronization returns orErrorKernelFailed with the
 * report. Work that is running cannot be ended, nor can a deferred kernel: others may use its memory. Its
 * stream fails when it has finished. Without orDriver.stream_abort, only hangs of fault rules end.
 *
 * Thread safety: all functions may be called from any thread.
 */
#ifndef OPENREG_WATCHDOG_H_
#define OPENREG_WATCHDOG_H_

#include "openreg/openreg.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct orWatchdogOptions {
  uint32_t struct_size;
  int32_t fail_streams; /* not 0: streams fail after their report; see Note [Failing streams] */
  uint64_t limit_ns;    /* time without progress; 0: the watchdog is off */
} orWatchdogOptions;

/* Switches the watchdog on or off, or changes its options. `before` (may be NULL) gets the previous options;
 * the caller sets its struct_size. */
OR_API orError_t orWatchdogSet(const orWatchdogOptions* options, orWatchdogOptions* before);

/* Functions of the program. All are optional, and must not throw. */
typedef struct orWatchdogHooks {
  uint32_t struct_size;
  /* On a thread that submits work, which may hold locks: writes the line of the program, such as
   * "train.py:12", zero-terminated. */
  void (*site)(char* buffer, size_t size);
  /* As `site`: writes the arguments of the work, such as "float32[4, 4]". */
  void (*arguments)(char* buffer, size_t size);
  /* On the thread of the watchdog, which holds no lock. Without it: the report goes to stderr. */
  void (*report)(const char* text);
} orWatchdogHooks;

/* Copied. NULL removes the hooks. */
OR_API orError_t orWatchdogSetHooks(const orWatchdogHooks* hooks);

#ifdef __cplusplus
}
#endif

#endif /* OPENREG_WATCHDOG_H_ */
