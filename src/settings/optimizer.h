// SPDX-License-Identifier: Apache-2.0
// The learning rate, the optimizer and the loss scale. Read by train/optimizer and the jobs
// (dev/check_dependencies.py). Texts are borrowed from who sets them.
#ifndef BERTH_SETTINGS_OPTIMIZER_H
#define BERTH_SETTINGS_OPTIMIZER_H

#include <stddef.h>
#include <stdint.h>

struct optimizer_settings {
    double learning_rate;
    const char *lr_scaling; /* factor of learning_rate by the number K of processes: "none", "sqrt"
                               (of K) or "linear" (K) */
    const char *schedule;   /* see `berth finetune squad --help all` */
    double warmup_proportion;
    int64_t warmup_steps; /* > 0: overrides warmup_proportion; 0: no warm-up if it was set by
                             settings_set, and warmup_proportion was not */
    int warmup_round_up;  /* the number of updates that warmup_proportion makes is rounded up */
    double warmup_min_lr;
    double lr_offset;  /* added to the learning rate of every update */
    double decay_rate; /* of schedules EE and LE */
    int64_t decay_step;
    double cos_min_ratio;  /* of schedules warmup_cosine_...: final fraction of the rate */
    int rewarmup;          /* on resume, restart the schedule */
    const char *optimizer; /* see `berth finetune squad --help all` */
    double weight_decay;   /* NaN: the optimizer's default */
    double adam_beta1, adam_beta2;
    double adam_epsilon; /* NaN: the optimizer's default */
    int eps_inside_sqrt;
    int bias_correction; /* -1: the optimizer's default */
    int adam_w_mode;
    const char *no_decay;        /* name of a list, or parts of parameter names; NULL: the
                                    optimizer's default */
    int64_t freeze_layers;       /* number of layers, the lowest first, that are not trained */
    int freeze_embeddings;       /* do not train the embeddings and their layer norm */
    double max_grad_norm;        /* 0: no clipping */
    const char *clip_by;         /* "global", "tensor" or "both"; NULL: the optimizer's default */
    double max_coeff, min_coeff; /* of lamb */
    const char *loss_scale;      /* "none", "dynamic" (also "0"), "static" (init_loss_scale) or a
                                    number */
    const char *loss_scaler;     /* "zero" or "plain": rule of a dynamic loss scale */
    double init_loss_scale, min_loss_scale;
    int64_t loss_scale_window, hysteresis;
    int consecutive_hysteresis;
};

// The loss scale, which by default is "dynamic" where the precision fp16 is asked for, else "none".
static inline const char *loss_scale_text(const struct optimizer_settings *settings, int is_fp16) {
    return settings->loss_scale != NULL ? settings->loss_scale : is_fp16 ? "dynamic" : "none";
}

#endif
