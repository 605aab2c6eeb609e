// SPDX-License-Identifier: Apache-2.0
// The device, the threads and the processes of a job. Read by train/machine and the jobs
// (dev/check_dependencies.py). Texts are borrowed from who sets them.
#ifndef BERTH_SETTINGS_MACHINE_H
#define BERTH_SETTINGS_MACHINE_H

#include <stdint.h>

/* BERTH_PRECISION_AUTO, the default: fp32 for the tasks embed, hidden and
 * fill, whose numbers are compared and stored; otherwise the faster precision of the
 * opened device, and the log says which one it is. */
/* BERTH_INT8: only for inference on a CPU; everything but matrix products is in the device's faster
 * precision. */
enum berth_precision { BERTH_FP32, BERTH_BF16, BERTH_FP16, BERTH_INT8, BERTH_PRECISION_AUTO };

struct machine_settings {
    const char *device;       /* "auto", "cpu", "cuda", "cuda:1", "hip", "emulated" */
    int64_t threads;          /* 0: all that the process may use */
    const char *instructions; /* "auto", "generic", "fma", "avx2", ... */
    int tf32;                 /* round the operands of fp32 products to TF32, on devices that do */
    enum berth_precision precision;
    const char *comm;      /* "openmpi", "mpich"; "self": none, refused in one of several that
                              a launcher started; "auto": as the launcher says */
    int64_t comm_timeout;  /* seconds to wait for another process; see start_timeout */
    int64_t start_timeout; /* seconds until all processes of a job have come, from the call of the
                              first job; then the process ends with BERTH_UNAVAILABLE. 0: none */
    const char *topology;  /* file that says which rack each host is in; NULL: none */
    const char *workers;   /* "synchronous": they divide each update; "independent": each trains a
                              model of its own */
};

#endif
