// SPDX-License-Identifier: Apache-2.0
// One function for each schedule, from the number of an update to a factor of the learning rate,
// and the table that names them. The training loop asks for the rate of each update; the formulas
// are those of the programs that the names come from.
#include "train/optimizer/schedule.h"

#include "core/portable_math.h"

#include <math.h>
#include <string.h>

static double fraction_done(const struct schedule *s, int64_t step) {
    return s->total_steps > 0 ? (double)step / (double)s->total_steps : 1.0;
}

static double at_least_zero(double value) {
    return value > 0 ? value : 0;
}

static double rate_linear(const struct schedule *s, int64_t step) {
    double x = fraction_done(s, step);
    double factor = x < s->warmup ? x / s->warmup : at_least_zero(1 - x) / (1 - s->warmup);
    return s->peak * (s->warmup < 1 || x < s->warmup ? factor : 1);
}

// In NVIDIA's and Habana's programs the scheduler steps before the update.
static double rate_linear_ahead(const struct schedule *s, int64_t step) {
    return rate_linear(s, step + 1);
}

static double rate_bertadam(const struct schedule *s, int64_t step) {
    double x = fraction_done(s, step);
    return s->peak * (x < s->warmup ? x / s->warmup : at_least_zero(1 - x));
}

static double rate_google(const struct schedule *s, int64_t step) {
    if (step < s->warmup_steps) {
        return s->peak * (double)step / (double)s->warmup_steps;
    }
    return s->peak * at_least_zero(1 - fraction_done(s, step));
}

static double rate_poly(const struct schedule *s, int64_t step) {
    double p = fraction_done(s, step + 1);
    return s->peak * (p < s->warmup ? p / s->warmup : sqrt(at_least_zero(1 - p)));
}

static double rate_constant(const struct schedule *s, int64_t step) {
    return s->peak;
}

static double rate_constant_warmup(const struct schedule *s, int64_t step) {
    double x = fraction_done(s, step);
    return s->peak * (x < s->warmup ? x / s->warmup : 1);
}

static double rate_cosine(const struct schedule *s, int64_t step) {
    double x = fraction_done(s, step);
    if (x < s->warmup) {
        return s->peak * x / s->warmup;
    }
    double rest = s->warmup < 1 ? (x - s->warmup) / (1 - s->warmup) : 1;
    return s->peak * 0.5 * (1 + math_cosine_pi(rest < 1 ? rest : 1));
}

// The schedule of transformers with its defaults: power 1 and a final rate of 1e-7.
static double rate_polynomial(const struct schedule *s, int64_t step) {
    const double end = fmin(1e-7, s->peak);
    const int64_t length = s->total_steps - s->warmup_steps;
    if (step < s->warmup_steps) {
        return s->peak * (double)step / (double)s->warmup_steps;
    }
    const double left = length > 0 ? 1 - (double)(step - s->warmup_steps) / (double)length : 0;
    return end + (s->peak - end) * at_least_zero(left);
}

// The schedule of transformers with its default: the time scale is the warm-up, or 10,000 updates
// without one.
static double rate_inverse_sqrt(const struct schedule *s, int64_t step) {
    const double scale = s->warmup_steps > 0 ? (double)s->warmup_steps : 10000;
    if (step < s->warmup_steps) {
        return s->peak * (double)step / scale;
    }
    return s->peak / sqrt(1 + (double)(step - s->warmup_steps) / scale);
}

// DeepSpeed steps its schedules after an update, so update `step` has the rate of step - 1, and the
// first update the minimum. Its warm-up has at least two steps.
static int64_t warmup_of_deepspeed(const struct schedule *s) {
    return s->warmup_steps > 2 ? s->warmup_steps : 2;
}

static int is_warming(const struct schedule *s, int64_t step) {
    return step - 1 < warmup_of_deepspeed(s);
}

static double gamma_log(const struct schedule *s, int64_t step) {
    return step < 1 ? 0 : math_log((double)step) / math_log((double)warmup_of_deepspeed(s));
}

static double gamma_linear(const struct schedule *s, int64_t step) {
    return step < 1 ? 0 : (double)(step - 1) / (double)warmup_of_deepspeed(s);
}

// WarmupDecayLR: linear decay to zero after the warm-up.
static double gamma_decay(const struct schedule *s, int64_t step) {
    int64_t steps = warmup_of_deepspeed(s);
    int64_t length = s->total_steps > steps ? s->total_steps - steps : 1;
    return at_least_zero((double)(s->total_steps - (step - 1)) / (double)length);
}

static double interpolate(const struct schedule *s, double gamma) {
    return s->minimum + (s->peak - s->minimum) * gamma;
}

static double rate_warmup_log(const struct schedule *s, int64_t step) {
    return interpolate(s, is_warming(s, step) ? gamma_log(s, step) : 1);
}

static double rate_warmup_linear(const struct schedule *s, int64_t step) {
    return interpolate(s, is_warming(s, step) ? gamma_linear(s, step) : 1);
}

static double rate_warmup_decay_log(const struct schedule *s, int64_t step) {
    return interpolate(s, is_warming(s, step) ? gamma_log(s, step) : gamma_decay(s, step));
}

static double rate_warmup_decay_linear(const struct schedule *s, int64_t step) {
    return interpolate(s, is_warming(s, step) ? gamma_linear(s, step) : gamma_decay(s, step));
}

// WarmupCosineLR: a cosine down to a fraction of the rate. Its first update has the rate 0,
// whatever the minimum is.
static double cosine_decay(const struct schedule *s, int64_t step) {
    int64_t steps = warmup_of_deepspeed(s);
    int64_t length = s->total_steps > steps ? s->total_steps - steps : 1;
    double done = fmin(1, (double)(step - steps) / (double)length);
    return s->peak * (s->cosine_minimum + (1 - s->cosine_minimum) * (1 + math_cosine_pi(done)) / 2);
}

static double rate_warmup_cosine_log(const struct schedule *s, int64_t step) {
    return !is_warming(s, step) ? cosine_decay(s, step)
           : step > 0           ? interpolate(s, gamma_log(s, step))
                                : 0;
}

static double rate_warmup_cosine_linear(const struct schedule *s, int64_t step) {
    return !is_warming(s, step) ? cosine_decay(s, step)
           : step > 0           ? interpolate(s, gamma_linear(s, step))
                                : 0;
}

// BingBert's schedules. Without a warm-up they decay from the first update on (the originals stay
// at 1).
static double exponential(const struct schedule *s, int64_t step) {
    double end = s->warmup * (double)s->total_steps;
    return math_power(s->decay_rate, ((double)step - end) / (double)s->decay_steps);
}

static double rate_ee(const struct schedule *s, int64_t step) {
    double x = fraction_done(s, step);
    return s->peak * (x < s->warmup ? math_power(x / s->warmup, 2) : exponential(s, step));
}

static double rate_le(const struct schedule *s, int64_t step) {
    double x = fraction_done(s, step);
    return s->peak * (x < s->warmup ? x / s->warmup : exponential(s, step));
}

static double rate_ep(const struct schedule *s, int64_t step) {
    double x = fraction_done(s, step);
    double factor =
        x < s->warmup ? math_power(x / s->warmup, 1.5) : math_power(at_least_zero(1 - x), 2);
    return s->peak * factor;
}

const struct schedule_row schedule_rows[] = {
    {"linear", "x < w: x/w, else (1-x)/(1-w)", rate_linear, WARMUP_CEIL},
    {"linear_ahead", "p < w: p/w, else (1-p)/(1-w)", rate_linear_ahead, WARMUP_FLOOR},
    {"bertadam", "x < w: x/w, else 1-x", rate_bertadam, WARMUP_CEIL},
    {"google", "step < n: step/n, else 1-x", rate_google, WARMUP_FLOOR},
    {"poly", "p < w: p/w, else (1-p)^0.5", rate_poly, WARMUP_FLOOR},
    {"constant", "1", rate_constant, WARMUP_NONE},
    {"constant_warmup", "x < w: x/w, else 1", rate_constant_warmup, WARMUP_CEIL},
    {"cosine", "x < w: x/w, else (1 + cos(pi (x-w)/(1-w))) / 2", rate_cosine, WARMUP_CEIL},
    {"polynomial", "step < n: step/n, else 1-(step-n)/(T-n), down to 1e-7", rate_polynomial,
     WARMUP_CEIL},
    {"inverse_sqrt", "step < n: step/n, else (n/step)^0.5", rate_inverse_sqrt, WARMUP_CEIL},
    {"EE", "x < w: (x/w)^2, else r^((step - w T)/k)", rate_ee, WARMUP_CEIL},
    {"LE", "x < w: x/w, else r^((step - w T)/k)", rate_le, WARMUP_CEIL},
    {"EP", "x < w: (x/w)^1.5, else (1-x)^2", rate_ep, WARMUP_CEIL},
    {"warmup_log", "DeepSpeed WarmupLR, ln(step)/ln(n)", rate_warmup_log, WARMUP_CEIL},
    {"warmup_linear", "DeepSpeed WarmupLR, (step-1)/n", rate_warmup_linear, WARMUP_CEIL},
    {"warmup_decay_log", "DeepSpeed WarmupDecayLR, ln(step)/ln(n)", rate_warmup_decay_log,
     WARMUP_CEIL},
    {"warmup_decay_linear", "DeepSpeed WarmupDecayLR, (step-1)/n", rate_warmup_decay_linear,
     WARMUP_CEIL},
    {"warmup_cosine_log", "DeepSpeed WarmupCosineLR, ln(step)/ln(n)", rate_warmup_cosine_log,
     WARMUP_CEIL},
    {"warmup_cosine_linear", "DeepSpeed WarmupCosineLR, (step-1)/n", rate_warmup_cosine_linear,
     WARMUP_CEIL},
};
const size_t schedule_row_count = sizeof schedule_rows / sizeof schedule_rows[0];

static const struct schedule_row *find(const char *name) {
    for (size_t i = 0; i < schedule_row_count; i++) {
        if (strcmp(schedule_rows[i].name, name) == 0) {
            return &schedule_rows[i];
        }
    }
    return NULL;
}

static void set_warmup(struct schedule *schedule, const struct optimizer_settings *settings) {
    int64_t total_steps = schedule->total_steps;
    double exact_steps = (double)total_steps * settings->warmup_proportion;
    const int64_t whole = settings->warmup_steps > 0  ? settings->warmup_steps
                          : settings->warmup_round_up ? (int64_t)ceil(exact_steps)
                                                      : 0;
    if (schedule->row->warmup == WARMUP_NONE) {
        schedule->warmup_steps = 0;
        schedule->warmup = 0;
    } else if (whole > 0) {
        schedule->warmup_steps = whole;
        schedule->warmup = total_steps > 0 ? (double)whole / (double)total_steps : 0;
    } else {
        schedule->warmup = settings->warmup_proportion;
        schedule->warmup_steps =
            (int64_t)(schedule->row->warmup == WARMUP_FLOOR ? exact_steps : ceil(exact_steps));
    }
}

double schedule_factor(const char *rule, int processes) {
    return strcmp(rule, "sqrt") == 0     ? sqrt(processes)
           : strcmp(rule, "linear") == 0 ? processes
                                         : 1;
}

struct schedule schedule_of(const struct optimizer_settings *settings, double factor,
                            int64_t total_steps) {
    struct schedule schedule = {.row = find(settings->schedule),
                                .peak = settings->learning_rate * factor,
                                .minimum = settings->warmup_min_lr * factor,
                                .offset = settings->lr_offset,
                                .decay_rate = settings->decay_rate,
                                .decay_steps = settings->decay_step,
                                .cosine_minimum = settings->cos_min_ratio,
                                .total_steps = total_steps};
    set_warmup(&schedule, settings);
    return schedule;
}

void schedule_restart(struct schedule *schedule, const struct optimizer_settings *settings,
                      int64_t first) {
    schedule->total_steps += schedule->first - first;
    schedule->first = first;
    set_warmup(schedule, settings);
}

double schedule_rate(const struct schedule *schedule, int64_t step) {
    return schedule->row->rate(schedule, step - schedule->first) + schedule->offset;
}

int schedule_is_zero(const struct schedule *schedule, int64_t updates) {
    if (schedule->peak <= 0 && schedule->minimum <= 0 && schedule->offset <= 0) {
        return updates > 0;
    }
    for (int64_t step = 0; step < updates; step++) {
        if (schedule_rate(schedule, step) > 0) {
            return 0;
        }
    }
    return updates > 0;
}
