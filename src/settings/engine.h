// SPDX-License-Identifier: Apache-2.0
// The batches of an update, and how ranks share it. Read by train/engine and the jobs
// (dev/check_dependencies.py). Texts are borrowed from who sets them.
#ifndef BERTH_SETTINGS_ENGINE_H
#define BERTH_SETTINGS_ENGINE_H

#include <stdint.h>

struct engine_settings {
    int64_t train_batch_size;            /* sequences per update over all processes */
    int64_t per_device_train_batch_size; /* sequences per micro-batch; 0: derived */
    int64_t gradient_accumulation_steps; /* micro-batches per update; 0: derived */
    int gradient_checkpointing;          /* recompute activations instead of keeping them */
    double num_train_epochs;
    int64_t max_steps; /* > 0: stop after this many updates */
    int64_t max_steps_per_epoch;
    const char *steps_rule;   /* what num_train_epochs means for the schedule: "run", "epochs" or
                                 "examples" */
    int dataloader_drop_last; /* leave out the incomplete update at the end of an epoch */
    const char *loss_average; /* "update" or "micro" */
    int64_t zero_stage;       /* what they divide: 1 moments and master weights, 2 gradients too */
    int64_t virtual_ranks;    /* parts of an update, added in a fixed order; 0: one for each rank */
    const char *shard_order;  /* of pre-training: "global", one stream; "rank", files by process */
    const char *reduce; /* who adds gradients: "exact", Berth; "native", MPI or NCCL; "auto" */
    const char *communication_data_type; /* of exchanged gradients: "fp32", "bf16", "fp16"; NULL:
                                            bf16 with the precision bf16, else fp32 */
    int overlap_comm;                    /* 0: computing waits for every exchange */
    int64_t reduce_bucket_size;    /* elements of gradients exchanged at a time, at most; 0: as
                                      many as the memory for exchanges holds */
    int64_t allgather_bucket_size; /* the same of weights */
    int64_t replica_check_steps;   /* updates between comparisons of the processes' weights and
                                      moments; 0: no checks of them at all */
    const char *gpu_exchange; /* of ranks on GPUs: "nccl", "mpi"; "auto": NCCL where it can be */
};

#endif
