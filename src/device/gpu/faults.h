// SPDX-License-Identifier: Apache-2.0
// What the error numbers of gpu_api.h mean to a user: a status and a remedy. An Xid is the number
// with which NVIDIA's driver logs a fault in the system's log.
#ifndef BERTH_GPU_FAULTS_H
#define BERTH_GPU_FAULTS_H

#include "berth.h"
#include "device/gpu/gpu_api.h"

struct fault {
    int code;
    enum berth_status status;
    const char *text; // used if the GPU's library has none
    const char *remedy;
};

#define GPU_ATTENTION_VARIABLE "BERTH_GPU_ATTENTION" // own, wgmma or cudnn

#define FAULT_BUG                                                                                  \
    "this is a bug in Berth: please report it with this message; checkpoints are intact; "         \
    "device cpu avoids the GPU"
#define FAULT_MPS                                                                                  \
    "restart NVIDIA's MPS control daemon, or run without it (CUDA_MPS_PIPE_DIRECTORY); "           \
    "checkpoints are intact, resume_from_checkpoint auto continues"
#define FAULT_DRIVER "install or update the GPU's driver, or use device cpu"
#define FAULT_HARDWARE(xid)                                                                        \
    "the GPU is faulty (" xid                                                                      \
    " in the system's log): take it out of use; checkpoints are intact, "                          \
    "resume_from_checkpoint auto continues on another one"
#define FAULT_PROGRAM(xid)                                                                         \
    "this is a bug in Berth or in the driver (" xid " in the system's log); checkpoints are "      \
    "intact, resume_from_checkpoint auto continues"

// The last row is for all other errors.
static const struct fault faults[] = {
    {1, BERTH_INTERNAL, "invalid argument", FAULT_BUG},
    {GPU_OUT_OF_MEMORY, BERTH_NO_MEMORY, "out of memory",
     "use smaller batches, or stop other programs that use the GPU"},
    {GPU_NO_DRIVER, BERTH_UNAVAILABLE, "the driver is missing or too old", FAULT_DRIVER},
    {3, BERTH_UNAVAILABLE, "the driver cannot be initialized",
     "a process that was forked after its parent used the GPU cannot use it: start a new process "
     "instead (Python's "
     "multiprocessing: spawn); otherwise " FAULT_DRIVER},
    {46, BERTH_UNAVAILABLE, "the GPU is busy or unavailable",
     "stop the program that uses it, choose another GPU (cuda:N), or use device cpu"},
    {GPU_NO_DEVICE, BERTH_UNAVAILABLE, "no GPU is visible to this process",
     "check CUDA_VISIBLE_DEVICES or HIP_VISIBLE_DEVICES, or use device cpu"},
    {GPU_WRONG_INDEX, BERTH_UNAVAILABLE, "no such GPU", "choose another one"},
    {209, BERTH_UNAVAILABLE, "the module has no code for this GPU",
     "build it with the GPU's compute capability in BERTH_CUDA_ARCHITECTURES"},
    {214, BERTH_UNAVAILABLE, "uncorrectable ECC error", FAULT_HARDWARE("Xid 48, 63, 64 or 95")},
    {220, BERTH_UNAVAILABLE, "uncorrectable NVLink error", FAULT_HARDWARE("Xid 74")},
    {222, BERTH_UNAVAILABLE, "the driver is too old for the module's code",
     "update the GPU's driver, or build with the GPU's compute capability in "
     "BERTH_CUDA_ARCHITECTURES"},
    {226, BERTH_UNAVAILABLE, "contained memory error", FAULT_HARDWARE("Xid 94")},
    {GPU_NO_LIBRARY, BERTH_UNAVAILABLE, "a library of the GPU cannot be loaded",
     "install it (ROCm's package hipblaslt), or use device cpu"},
    {GPU_WRONG_HANDLE, BERTH_INTERNAL, "a handle belongs to another GPU", FAULT_BUG},
    {700, BERTH_INTERNAL, "illegal memory access", FAULT_PROGRAM("Xid 31")},
    {702, BERTH_UNAVAILABLE, "a kernel ran longer than this GPU allows",
     "use a GPU that drives no display (Xid 8 in the system's log)"},
    {714, BERTH_INTERNAL, "hardware stack error", FAULT_PROGRAM("Xid 13")},
    {715, BERTH_INTERNAL, "illegal instruction", FAULT_PROGRAM("Xid 13")},
    {716, BERTH_INTERNAL, "misaligned address", FAULT_PROGRAM("Xid 13")},
    {717, BERTH_INTERNAL, "wrong address space", FAULT_PROGRAM("Xid 13")},
    {718, BERTH_INTERNAL, "invalid program counter", FAULT_PROGRAM("Xid 13")},
    {GPU_KERNEL_FAILED, BERTH_INTERNAL, "a kernel failed",
     FAULT_PROGRAM("Xid 13, or 79 where the GPU is lost")},
    {GPU_NOT_SUPPORTED, BERTH_UNAVAILABLE, "not supported", "use device cpu"},
    {802, BERTH_UNAVAILABLE, "the system's GPUs are not ready",
     "start the fabric manager, or use device cpu"},
    {803, BERTH_UNAVAILABLE, "driver and library versions do not match", FAULT_DRIVER},
    {804, BERTH_UNAVAILABLE, "the driver is too old for this GPU", FAULT_DRIVER},
    {805, BERTH_UNAVAILABLE, "MPS does not answer", FAULT_MPS},
    {806, BERTH_UNAVAILABLE, "MPS failed", FAULT_MPS},
    {807, BERTH_UNAVAILABLE, "MPS is not ready", FAULT_MPS},
    {808, BERTH_UNAVAILABLE, "MPS has too many clients",
     "use fewer processes on the GPU, or stop others that use it"},
    {GPU_PEERS, BERTH_UNAVAILABLE, "it failed",
     "look for the error of another rank, or of the network between GPUs; checkpoints are intact, "
     "resume_from_checkpoint auto continues; gpu_exchange mpi avoids NCCL"},
    {GPU_CUDNN, BERTH_UNAVAILABLE, "cuDNN failed",
     "use Berth's own kernels (" GPU_ATTENTION_VARIABLE
     "=own); on NVIDIA's GPUs, install cuDNN 9.15 or later of CUDA's major version "
     "(libcudnn.so.9)"},
    {GPU_PRODUCT, BERTH_UNAVAILABLE, "the library of matrix products failed",
     "install the release of the library that Berth was built with (cuBLAS, or ROCm's hipblaslt), "
     "or use device cpu; checkpoints are intact, resume_from_checkpoint auto continues"},
    {0, BERTH_INTERNAL, "unknown error",
     "look for an Xid in the system's log; checkpoints are intact, "
     "resume_from_checkpoint auto continues"},
};

static inline const struct fault *fault_of(int code) {
    const struct fault *fault = faults;
    while (fault->code != code && fault->code != 0) {
        fault++;
    }
    return fault;
}

#endif
