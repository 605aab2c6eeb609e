// SPDX-License-Identifier: Apache-2.0
// Machine facts for training: a monotonic clock, memory in use, memory available, and the device
// that the settings name.
#ifndef BERTH_TRAIN_MACHINE_H
#define BERTH_TRAIN_MACHINE_H

#include "core/comm.h"
#include "core/device.h"
#include "core/error.h"
#include "core/log.h"

#include <stdint.h>

// Resident memory of this process in bytes: current, and peak. 0 without /proc.
uint64_t machine_resident(void);
uint64_t machine_peak_resident(void);

// The number of bytes that can still be allocated: the minimum of the system's MemAvailable, the
// rest of the cgroup's limit, and the rests of RLIMIT_AS and RLIMIT_DATA minus a reserve for
// libraries that do not survive a failed mapping. *limit names the smallest. UINT64_MAX if nothing
// is known.
uint64_t machine_memory_available(const char **limit);

// Starts the threads that a job will use, if the address space is limited: their stacks then count
// as used, and all threads of the process share one heap from then on. BERTH_CONFIG if the stacks
// do not fit, because OpenMP would end the process. Call it before a job's first parallel work.
enum berth_status machine_start_threads(const struct berth_config *config,
                                        struct berth_error *error);

// Opens the device config->device ("auto": a GPU if there is one, else the CPU) with the threads
// and instructions of the config. The ranks of a host have its GPUs in turn, unless the name has an
// index ("cuda:1").
enum berth_status machine_device_open(const struct berth_config *config, const struct comm *comm,
                                      const struct berth_log *log, struct device **device,
                                      struct berth_error *error);

// BERTH_CONFIG: a rank has another kind of device than the first one. All ranks call it.
enum berth_status machine_compare_devices(struct comm *comm, const struct device *device,
                                          struct berth_error *error);

// The communicator of config->comm ("auto": as the launcher says), which all processes that were
// started together open, before a job divides its work among them; the caller closes it. `job` says
// what they are to do, "train squad". BERTH_CONFIG: it or the settings differ (rank_settings.h).
// Ranks of a host that may use the same processors each keep to a part of them from then on
// (cores.h). Logs how many processes there are. Only the first one reports: *log becomes silent in
// the others.
enum berth_status machine_comm_open(const char *job, const struct berth_config *config,
                                    struct berth_log *log, struct comm **comm,
                                    struct berth_error *error);

// As --precision names it.
const char *machine_precision_name(enum berth_precision precision);

// The dtype to compute in: what config->precision says, or where that is auto, the one that is fast
// on the devices of all ranks, which is logged. config->precision then names it. BERTH_CONFIG: the
// device lacks it. All ranks call it.
enum berth_status machine_compute_dtype(struct berth_config *config, struct comm *comm,
                                        const struct device *device, const struct berth_log *log,
                                        enum dtype *compute, struct berth_error *error);
// The same for inference, which may have its weights in int8. BERTH_CONFIG also for int8 of what
// machine_compute_dtype is for: training.
enum berth_status machine_inference_dtype(struct berth_config *config, struct comm *comm,
                                          const struct device *device, const struct berth_log *log,
                                          enum dtype *compute, int *is_int8,
                                          struct berth_error *error);

// Peak FLOP/s of multiply-adds in that dtype: the best of `readings` short measurements; NaN if the
// device cannot measure it.
double machine_peak_flops(struct device *device, enum dtype dtype, int readings);

// The fraction of that peak that `flops` in `seconds` achieve; NaN for less than two seconds, which
// are too short to measure throughput.
double machine_mfu(struct device *device, enum dtype dtype, double flops, double seconds);

// The number of threads to work with: config->threads, or what cores.h finds.
int machine_threads(const struct berth_config *config);

#endif
