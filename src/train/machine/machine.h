// SPDX-License-Identifier: Apache-2.0
// What training asks of the machine: a clock that never jumps, memory in use, memory to be had, and
// the device that the settings name.
#ifndef BERTH_TRAIN_MACHINE_H
#define BERTH_TRAIN_MACHINE_H

#include "core/comm.h"
#include "core/device.h"
#include "core/error.h"
#include "core/log.h"

#include <stdint.h>

// Seconds of the monotonic clock; only differences mean anything.
double machine_seconds(void);

// Resident memory of this process in bytes: now, and the most so far. 0 where /proc is missing.
uint64_t machine_resident(void);
uint64_t machine_peak_resident(void);

// What can still be taken: the least of the system's MemAvailable, the rest of the cgroup's limit
// and the rests of RLIMIT_AS and RLIMIT_DATA, of which a part is reserved for libraries that do not
// survive a mapping that fails. *limit names the one that binds. UINT64_MAX when nothing is known.
uint64_t machine_memory_available(const char **limit);

// Starts the threads that a job is going to use, where the address space is limited: their stacks
// then count as used, and all threads of the process share one heap from here on. BERTH_CONFIG
// where the stacks do not fit, which would end the process within OpenMP. Called before a job's
// first parallel work.
enum berth_status machine_start_threads(const struct berth_config *config,
                                        struct berth_error *error);

// The device of config->device ("auto": a GPU when there is one, else the CPU), with the threads
// and instructions of the config.
enum berth_status machine_device_open(const struct berth_config *config,
                                      const struct berth_log *log, struct device **device,
                                      struct berth_error *error);

// The communicator of config->comm ("auto": as the launcher says), which all processes that were
// started together open; the caller closes it. The log is told of several processes.
enum berth_status machine_comm_open(const struct berth_config *config, const struct berth_log *log,
                                    struct comm **comm, struct berth_error *error);

// The dtype to compute in: what config->precision says, or where that is auto, the device's fast
// one, which the log is told. config->precision then names it. BERTH_CONFIG: the device lacks it.
enum berth_status machine_compute_dtype(struct berth_config *config, const struct device *device,
                                        const struct berth_log *log, enum dtype *compute,
                                        struct berth_error *error);

// FLOP/s of multiply-adds in that dtype: the best of some short readings; NaN when the device
// cannot tell.
double machine_peak_flops(struct device *device, enum dtype dtype, int readings);

// The share of that peak that `flops` in `seconds` are; NaN for less than two seconds, which say
// nothing about throughput.
double machine_mfu(struct device *device, enum dtype dtype, double flops, double seconds);

// The threads that host work may use: config->threads, or all that the process may run on.
int machine_threads(const struct berth_config *config);

#endif
