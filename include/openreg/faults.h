/*
 * Fault injection: rules that make calls of the runtime fail, for tests of programs.
 *
 * A rule selects calls by the name of the function, device, stream, size and kernel, and among these by
 * number or at random. The rules are applied in front of the driver, so they work with every driver. Without
 * rules, calls cost what they cost without this header.
 *
 *   orFaultRule rule = orFaultRuleDefault();
 *   rule.call = "orMalloc";
 *   rule.nth = 3;
 *   rule.action = orFaultActionError;
 *   rule.code = orErrorOutOfMemory;
 *   orFaultsAdd(&rule, 1, &id);
 *
 * Rules of all sets apply, in the order in which they were added. Every rule counts the calls that it
 * matches; the first that fires acts. The message of an error names the rule, the number of the match and,
 * with a hook, the line of the program. Functions of this header and calls without a runtime (orGetLastError,
 * orSetDriver, ranges) are not subject to rules.
 *
 * Note [Faults of work]
 * For a call that submits work to a stream, a delay, a hang or a kernel failure applies to the stream: the
 * call returns, and the work is late, does not start, or is dropped. For other calls it applies to the call.
 * In a capture, the fault becomes a node of the graph, and every launch of the graph has it; a hang, until
 * it is released once.
 *
 * Note [Lost devices]
 * After orFaultActionLoseDevice, every call that uses the device returns orErrorDeviceLost, until
 * orFaultsRestoreDevice or orDeviceReset. Objects can still be destroyed, and their properties read. Memory
 * keeps its contents. Removing the rule does not restore the device.
 *
 * Thread safety: all functions may be called from any thread.
 */
#ifndef OPENREG_FAULTS_H_
#define OPENREG_FAULTS_H_

#include "openreg/openreg.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum orFaultAction OR_INT_ENUM {
  orFaultActionCount = 0,         /* none: counts the calls that it matches */
  orFaultActionError = 1,         /* the call returns `code` and has no effect */
  orFaultActionDelay = 2,         /* late by `delay_ns`; see Note [Faults of work] */
  orFaultActionHang = 3,          /* does not continue before orFaultsRelease or orFaultsRemove */
  orFaultActionKernelFailure = 4, /* work fails with `message`; only for calls that run work */
  orFaultActionCorruptCopy = 5,   /* one bit of the destination is flipped; only for copies */
  orFaultActionLoseDevice = 6     /* orErrorDeviceLost; see Note [Lost devices] */
} orFaultAction;

/* Start from orFaultRuleDefault(), which matches every call and has no effect. Strings are copied. */
typedef struct orFaultRule {
  uint32_t struct_size;
  int32_t device;     /* index; -1: any */
  int64_t stream;     /* as orStreamGetId returns it; -1: any, also calls without a stream */
  const char* call;   /* pattern of names, as fnmatch: "orMalloc", "orMemcpy*" */
  const char* kernel; /* pattern of names of kernels; NULL: any, also calls without a kernel */
  uint64_t min_size;  /* bytes allocated, copied or set */
  uint64_t max_size;  /* UINT64_MAX: any */
  uint64_t nth;       /* fires at this match, counted from 1; 0: at all */
  uint64_t every;     /* fires at every such match: 3, 6, 9, ...; 0: at all */
  uint64_t times;     /* fires at most so often; 0: without a limit */
  double probability; /* of each match that is left; the draws follow from `seed` and the match */
  uint64_t seed;
  orFaultAction action;
  orError_t code;      /* of orFaultActionError */
  uint64_t delay_ns;   /* of orFaultActionDelay */
  const char* message; /* of errors and kernel failures; NULL: the general text of the code */
  int64_t bit;         /* of orFaultActionCorruptCopy: the flipped bit, modulo the size; -1: from `seed` */
} orFaultRule;

/* Not a function of the library, so that struct_size is that of the caller. */
static inline orFaultRule orFaultRuleDefault(void) {
  const orFaultRule rule = {(uint32_t)sizeof(orFaultRule),
                            -1,
                            -1,
                            "*",
                            NULL,
                            0,
                            UINT64_MAX,
                            0,
                            0,
                            0,
                            1.0,
                            0,
                            orFaultActionCount,
                            orSuccess,
                            0,
                            NULL,
                            -1};
  return rule;
}

/* Adds a set of rules. Invalid rules return orErrorInvalidValue, and none is added. Each rule has struct_size
 * bytes. Does not start the runtime. */
OR_API orError_t orFaultsAdd(const orFaultRule* rules, size_t count, uint64_t* id);
/* Removes a set, and releases what its rules hold. */
OR_API orError_t orFaultsRemove(uint64_t id);
/* Removes all sets, and releases everything that hangs. */
OR_API orError_t orFaultsClear(void);
/* How many calls a rule of a set has matched, and how often it has fired. */
OR_API orError_t orFaultsGetCounts(uint64_t id, size_t rule, uint64_t* matched, uint64_t* fired);
/* Continues what hangs by a rule that has fired before this call, also work that has not yet reached the
 * hang. `forever` is not 0: later hangs end immediately, too; for the end of a process. */
OR_API orError_t orFaultsRelease(int forever);
/* While suspended, no rule matches and the watchdog does not watch: for work that is not the program's, such
 * as that of a library at the end of the process. Calls nest. */
OR_API orError_t orFaultsSuspend(int suspended);
/* Ends the loss of a device; no effect on other devices. */
OR_API orError_t orFaultsRestoreDevice(int device);
/* The names of the functions to which rules apply, by index from 0; NULL after the last. */
OR_API_VALUE const char* orFaultsGetCallName(size_t index);

/* A rule that has fired. Strings are valid during the hook. */
typedef struct orFaultRecord {
  uint32_t struct_size;
  orFaultAction action;
  uint64_t set;
  size_t rule;      /* index in the set */
  uint64_t match;   /* number of the match */
  const char* call; /* name of the function */
  const char* site; /* from orFaultHooks.site; "" without it */
  int32_t device;   /* -1: none */
} orFaultRecord;

/* Functions of the program that the runtime calls when a rule fires, on the calling thread. All are optional.
 * They must not throw, and no lock of the runtime is held. */
typedef struct orFaultHooks {
  uint32_t struct_size;
  /* Writes the line of the program, such as "train.py:12", zero-terminated. */
  void (*site)(char* buffer, size_t size);
  /* Around a hang of the calling thread. `leave_wait` gets the result of `enter_wait`. */
  void* (*enter_wait)(void);
  void (*leave_wait)(void* state);
  /* Called before the rule acts. */
  void (*fired)(const orFaultRecord* record);
} orFaultHooks;

/* Copied. NULL removes the hooks. */
OR_API orError_t orFaultsSetHooks(const orFaultHooks* hooks);

#ifdef __cplusplus
}
#endif

#endif /* OPENREG_FAULTS_H_ */
