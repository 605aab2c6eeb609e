// SPDX-License-Identifier: Apache-2.0
// The rules by which the loss scale rises and falls, as functions of a small state that is saved
// with the run (progress.c). The training loop reports each update here and skips those that
// overflowed; the update multiplies by the scale and the optimizer divides by it.
#include "train/optimizer/loss_scale.h"

#include "core/number.h"

#include <string.h>

int loss_scale_is_dynamic(const struct loss_scale *scale) {
    return scale->kind == LOSS_SCALE_ZERO || scale->kind == LOSS_SCALE_PLAIN;
}

static enum loss_scale_kind dynamic_kind(const struct optimizer_settings *settings) {
    return strcmp(settings->loss_scaler, "plain") == 0 ? LOSS_SCALE_PLAIN : LOSS_SCALE_ZERO;
}

// Sets *fixed to the scale if it is static.
static enum berth_status read_kind(const struct optimizer_settings *settings, int is_fp16,
                                   enum loss_scale_kind *kind, double *fixed,
                                   struct berth_error *error) {
    const char *text = loss_scale_text(settings, is_fp16);
    *fixed = 1;
    if (strcmp(text, "none") == 0) {
        *kind = LOSS_SCALE_NONE;
    } else if (strcmp(text, "dynamic") == 0) {
        *kind = dynamic_kind(settings);
    } else if (strcmp(text, "static") == 0) {
        *kind = LOSS_SCALE_STATIC;
        *fixed = settings->init_loss_scale;
    } else if (!number_parse_real(text, fixed) || *fixed < 0 || *fixed > 0x1p126) {
        return error_set(error, BERTH_USAGE,
                         "option loss_scale: expected none, static, dynamic or a number from 0 "
                         "(dynamic) to 2^126, found \"%s\"",
                         text);
    } else {
        *kind = *fixed > 0 ? LOSS_SCALE_STATIC : dynamic_kind(settings);
    }
    return BERTH_OK;
}

enum berth_status loss_scale_settle(struct loss_scale *scale,
                                    const struct optimizer_settings *settings, int is_fp16,
                                    struct berth_error *error) {
    double fixed;
    TRY(read_kind(settings, is_fp16, &scale->kind, &fixed, error));
    scale->minimum = settings->min_loss_scale;
    scale->window = settings->loss_scale_window;
    scale->hysteresis = settings->hysteresis;
    scale->consecutive = settings->consecutive_hysteresis;
    if (!loss_scale_is_dynamic(scale)) {
        scale->scale = fixed;
        return BERTH_OK;
    }
    if (settings->init_loss_scale < settings->min_loss_scale) {
        return error_set(error, BERTH_CONFIG, "init_loss_scale %g is below min_loss_scale %g",
                         settings->init_loss_scale, settings->min_loss_scale);
    }
    if (!scale->restored) {
        scale->scale = settings->init_loss_scale;
        scale->updates = 0;
        scale->last_overflow = -1;
        scale->hysteresis_left = scale->hysteresis;
    }
    return BERTH_OK;
}

enum berth_status loss_scale_check(const struct optimizer_settings *settings, int is_fp16,
                                   struct berth_error *error) {
    struct loss_scale scale = {0};
    return loss_scale_settle(&scale, settings, is_fp16, error);
}

static void lower(struct loss_scale *scale) {
    scale->scale = scale->scale / 2 > scale->minimum ? scale->scale / 2 : scale->minimum;
}

static enum loss_scale_event overflow_zero(struct loss_scale *scale) {
    if (scale->hysteresis > 1 && scale->hysteresis_left > 1) {
        scale->hysteresis_left--;
        return SCALE_TOLERATED;
    }
    if (scale->scale <= scale->minimum) {
        return SCALE_EXHAUSTED;
    }
    lower(scale);
    return SCALE_LOWERED;
}

static enum loss_scale_event clean_zero(struct loss_scale *scale) {
    int full = (scale->updates - scale->last_overflow) % scale->window == 0;
    if (full || scale->consecutive) {
        scale->hysteresis_left = scale->hysteresis;
    }
    scale->scale *= full ? 2 : 1;
    return full ? SCALE_RAISED : SCALE_KEPT;
}

static enum loss_scale_event count_overflow(struct loss_scale *scale) {
    return ++scale->stuck < LOSS_SCALE_STUCK_LIMIT ? SCALE_TOLERATED : SCALE_EXHAUSTED;
}

static enum loss_scale_event overflow_plain(struct loss_scale *scale) {
    if (scale->scale <= scale->minimum) {
        return count_overflow(scale);
    }
    lower(scale);
    return SCALE_LOWERED;
}

static enum loss_scale_event clean_plain(struct loss_scale *scale) {
    int64_t between = scale->updates - scale->last_overflow - 1;
    int full = between > 0 && between % scale->window == 0;
    scale->scale *= full ? 2 : 1;
    return full ? SCALE_RAISED : SCALE_KEPT;
}

enum loss_scale_event loss_scale_update(struct loss_scale *scale, int overflow) {
    scale->stuck = overflow ? scale->stuck : 0;
    if (scale->kind == LOSS_SCALE_STATIC) {
        return overflow ? count_overflow(scale) : SCALE_KEPT;
    }
    int zero = scale->kind == LOSS_SCALE_ZERO;
    enum loss_scale_event event;
    if (overflow) {
        event = zero ? overflow_zero(scale) : overflow_plain(scale);
        scale->last_overflow = scale->updates;
    } else {
        event = zero ? clean_zero(scale) : clean_plain(scale);
    }
    scale->updates++;
    return event;
}
