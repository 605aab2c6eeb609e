// SPDX-License-Identifier: Apache-2.0
// The machine that a job runs on: memory in use and available, threads, the device and the
// communicator that the settings name, and the compute type.
#ifndef BERTH_TRAIN_MACHINE_H
#define BERTH_TRAIN_MACHINE_H

#include "comm/comm.h"
#include "core/error.h"
#include "core/log.h"
#include "device/device.h"
#include "settings/settings.h"

#include <stdint.h>

// Resident memory of this process in bytes: current, and peak. 0 without /proc.
uint64_t machine_resident(void);
uint64_t machine_peak_resident(void);

// The number of bytes that can still be allocated: the minimum of the system's MemAvailable and
// what the cgroup's limit leaves, both without what this process has reserved but not used yet
// (memory_pages_reserved), and what RLIMIT_AS and RLIMIT_DATA leave minus a reserve for libraries
// that do not survive a failed mapping. Sets *limit to the name of the smallest.
// UINT64_MAX if nothing is known.
uint64_t machine_memory_available(const char **limit);

// Checks that the threads of a job can be started, because OpenMP would end the process if they
// cannot: BERTH_CONFIG. If the address space is limited, it starts them: their stacks then count as
// used, and all threads of the process share one heap from then on. Call it before a job's first
// parallel work; machine_device_open does.
enum berth_status machine_start_threads(int threads, struct berth_error *error);

// Opens the device config->device ("auto": a GPU if there is one, else the CPU) with the threads
// and instructions of the config. The ranks of a host have its GPUs in turn, unless the name has an
// index ("cuda:1").
enum berth_status machine_device_open(const struct machine_settings *settings,
                                      const struct comm *comm, const struct berth_log *log,
                                      struct device **device, struct berth_error *error);

// BERTH_CONFIG: a rank has another kind of device than rank 0 or, where each rank keeps its own
// copy of the weights (zero_stage 0), other kernels, unless both give the same bytes in
// `precision`. All ranks call it.
enum berth_status machine_compare_devices(struct comm *comm, const struct device *device,
                                          enum berth_precision precision, int zero_stage,
                                          const struct berth_log *log, struct berth_error *error);

// Opens the communicator config->comm ("auto": that of the launcher), which the caller closes. All
// processes that were started together call this before the job divides its work. `job` is what
// they do: "train squad". BERTH_CONFIG if it or the settings differ (rank_facts.h). Ranks of a
// host that may use the same processors divide them (cores.h). Logs the number of processes. Only
// rank 0 reports: *log becomes silent on the others.
enum berth_status machine_comm_open(const char *job, const struct settings *config,
                                    struct berth_log *log, struct comm **comm,
                                    struct berth_error *error);

// The name that --precision has for it.
const char *machine_precision_name(enum berth_precision precision);

// Sets the dtype to compute in: that of config->precision or, if it is auto, the fast one on the
// devices of all ranks; this choice is logged and stored in config->precision. BERTH_CONFIG if the
// device does not support it. All ranks call it.
enum berth_status machine_compute_dtype(struct machine_settings *settings, struct comm *comm,
                                        const struct device *device, const struct berth_log *log,
                                        enum dtype *compute, struct berth_error *error);
// The same for inference, whose weights may be int8 (config->precision BERTH_INT8): everything else
// is f32 then. machine_compute_dtype refuses int8, which is BERTH_CONFIG.
enum berth_status machine_inference_dtype(struct machine_settings *settings, struct comm *comm,
                                          const struct device *device, const struct berth_log *log,
                                          enum dtype *compute, struct berth_error *error);

// Peak FLOP/s of fused multiply-adds in a dtype: the best of `readings` short measurements. NaN if
// the device cannot measure it.
double machine_peak_flops(struct device *device, enum dtype dtype, int readings);

// Model FLOPs utilization: `flops` / `seconds` / peak. NaN for less than two seconds, too short to
// measure throughput.
double machine_mfu(struct device *device, enum dtype dtype, double flops, double seconds);

// The number of threads to use: config->threads, or that of cores_threads.
int machine_threads(const struct machine_settings *settings);

#endif
