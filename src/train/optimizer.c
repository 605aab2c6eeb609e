// SPDX-License-Identifier: Apache-2.0
#include "train/optimizer.h"

#include "core/options.h"

#include <math.h>
#include <string.h>

// --- rows ---------------------------------------------------------------------------------------

const struct optimizer_row optimizer_rows[] = {
    {.name = "adamw",
     .formula = "m^/(sqrt(v^)+eps) + d p",
     .no_decay = "deepspeed",
     .clip_by = "global",
     .epsilon = 1e-8,
     .weight_decay = 0.01,
     .bias_correction = 1,
     .has_adam_w_mode = 1},
    {.name = "adam",
     .formula = "m^/(sqrt(v^)+eps) + d p",
     .no_decay = "deepspeed",
     .clip_by = "global",
     .epsilon = 1e-8,
     .weight_decay = 0.01,
     .bias_correction = 1,
     .has_adam_w_mode = 1},
    {.name = "adam_weight_decay",
     .formula = "m/(sqrt(v)+eps) + d p",
     .no_decay = "google",
     .clip_by = "global",
     .epsilon = 1e-6,
     .weight_decay = 0.01,
     .exact_clip = 1},
    {.name = "bertadam",
     .formula = "m/(sqrt(v)+eps) + d p",
     .no_decay = "deepspeed",
     .clip_by = "tensor",
     .epsilon = 1e-6,
     .weight_decay = 0.01},
    {.name = "nvlamb",
     .formula = "|p|/|u| u, u = m^/(sqrt(v^)+eps) + d p; u alone where d = 0",
     .no_decay = "nvidia",
     .clip_by = "global",
     .epsilon = 1e-6,
     .weight_decay = 0.01,
     .bias_correction = 1,
     .exact_clip = 1,
     .trust = TRUST_DECAYED},
    {.name = "lamb",
     .formula = "c u, u = m/(sqrt(v)+eps) + d p, c = |p|/|u| in [min_coeff, max_coeff]",
     .no_decay = "deepspeed",
     .clip_by = "global",
     .epsilon = 1e-8,
     .bias_correction = 1,
     .corrects_rate = 1,
     .has_coefficients = 1,
     .trust = TRUST_ALL},
};
const size_t optimizer_row_count = sizeof optimizer_rows / sizeof optimizer_rows[0];

// The lists of the original programs: parts of the names of what does not decay.
static const struct name_list {
    const char *name, *parts;
} lists[] = {
    {"deepspeed", "bias,LayerNorm.bias,LayerNorm.weight,attn_nw,attn_nb,norm_w,norm_b,attn_qkvb,"
                  "attn_ob,inter_b,output_b"},
    {"google", "LayerNorm,layer_norm,bias"},
    {"nvidia", "bias,gamma,beta,LayerNorm"},
    {"none", ""},
};

static const struct optimizer_row *find(const char *name) {
    for (size_t i = 0; i < optimizer_row_count; i++) {
        if (strcmp(optimizer_rows[i].name, name) == 0) {
            return &optimizer_rows[i];
        }
    }
    return NULL;
}

static const struct name_list *find_list(const char *name) {
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        if (strcmp(lists[i].name, name) == 0) {
            return &lists[i];
        }
    }
    return NULL;
}

// --- settings -----------------------------------------------------------------------------------

static const struct optimizer_row *row_of(const struct berth_config *config) {
    return find(config->optimizer != NULL ? config->optimizer : optimizer_rows[0].name);
}

enum berth_status optimizer_settle(struct berth_config *config, struct berth_error *error) {
    TRY(option_check_choice(config, "optimizer", error));
    const struct optimizer_row *row = row_of(config);
    if (!config->adam_w_mode && !row->has_adam_w_mode) {
        return error_set(error, BERTH_CONFIG,
                         "--adam_w_mode false is for the optimizers adam and adamw; %s has no such "
                         "form",
                         row->name);
    }
    if (config->min_coeff > config->max_coeff) {
        return error_set(error, BERTH_CONFIG, "--min_coeff %g is above --max_coeff %g",
                         config->min_coeff, config->max_coeff);
    }
    config->optimizer = row->name;
    config->adam_epsilon = config->adam_epsilon < 0 ? row->epsilon : config->adam_epsilon;
    config->weight_decay = config->weight_decay < 0 ? row->weight_decay : config->weight_decay;
    if (config->bias_correction < 0) {
        config->bias_correction = row->bias_correction;
    }
    config->no_decay = config->no_decay != NULL ? config->no_decay : row->no_decay;
    config->clip_by = config->clip_by != NULL ? config->clip_by : row->clip_by;
    return BERTH_OK;
}

static unsigned clips_of(const struct berth_config *config) {
    if (config->max_grad_norm <= 0) {
        return 0;
    }
    int both = strcmp(config->clip_by, "both") == 0;
    return (both || strcmp(config->clip_by, "global") == 0 ? CLIP_GLOBAL : 0u) |
           (both || strcmp(config->clip_by, "tensor") == 0 ? CLIP_TENSOR : 0u);
}

struct optimizer optimizer_of(const struct berth_config *config) {
    const struct name_list *list = find_list(config->no_decay);
    return (struct optimizer){
        .row = row_of(config),
        .beta1 = config->adam_beta1,
        .beta2 = config->adam_beta2,
        .epsilon = config->adam_epsilon,
        .weight_decay = config->weight_decay,
        .max_grad_norm = config->max_grad_norm,
        .min_coeff = config->min_coeff,
        .max_coeff = config->max_coeff,
        .bias_correction = config->bias_correction,
        .l2_mode = !config->adam_w_mode,
        .epsilon_inside_root = config->eps_inside_sqrt,
        .clips = clips_of(config),
        .no_decay = list != NULL ? list->parts : config->no_decay,
        .own_list = list == NULL,
    };
}

// --- groups -------------------------------------------------------------------------------------

// The next part of a list; NULL at its end.
static const char *next_part(const char **list, size_t *length) {
    *list += strspn(*list, ", ");
    *length = strcspn(*list, ", ");
    const char *part = *list;
    *list += *length;
    return *length > 0 ? part : NULL;
}

static int has_part(const char *name, const char *part, size_t length) {
    return memmem(name, strlen(name), part, length) != NULL;
}

int optimizer_decays(const struct optimizer *optimizer, const char *parameter) {
    const char *list = optimizer->no_decay, *part;
    size_t length;
    while ((part = next_part(&list, &length)) != NULL) {
        if (has_part(parameter, part, length)) {
            return 0;
        }
    }
    return 1;
}

enum berth_status optimizer_check(const struct optimizer *optimizer,
                                  const struct param_table *table, struct berth_error *error) {
    const char *list = optimizer->own_list ? optimizer->no_decay : "", *part;
    size_t length;
    while ((part = next_part(&list, &length)) != NULL) {
        size_t found = 0;
        while (found < table->count && !has_part(table->params[found].name, part, length)) {
            found++;
        }
        if (found == table->count) {
            return error_set(error, BERTH_CONFIG,
                             "--no_decay: no parameter has \"%.*s\" in its name; `berth inspect` "
                             "lists the names",
                             (int)length, part);
        }
    }
    return BERTH_OK;
}

// --- one update ---------------------------------------------------------------------------------

// What is the same for every tensor of a step.
struct step {
    const struct optimizer *optimizer;
    const struct state *state;
    struct adamw_args common;
};

static double clip_factor(const struct optimizer *optimizer, double norm) {
    return fmin(1.0, optimizer->max_grad_norm / (norm + (optimizer->row->exact_clip ? 0 : 1e-6)));
}

static struct adamw_args common_args(const struct optimizer *optimizer, const struct state *state,
                                     const struct optimizer_step *step) {
    const double t = (double)step->number + 1;
    const double rest1 = optimizer->bias_correction ? 1 - pow(optimizer->beta1, t) : 1;
    const double rest2 = optimizer->bias_correction ? 1 - pow(optimizer->beta2, t) : 1;
    const int in_rate = optimizer->row->corrects_rate;
    const int tensors = (optimizer->clips & CLIP_TENSOR) != 0;
    // By both: the global clipping is part of the scale that the tensors' norms are taken with.
    const int both = tensors && (optimizer->clips & CLIP_GLOBAL) != 0;
    return (struct adamw_args){
        .learning_rate = step->learning_rate * (in_rate ? sqrt(rest2) / rest1 : 1),
        .beta1 = optimizer->beta1,
        .beta2 = optimizer->beta2,
        .epsilon = optimizer->epsilon,
        .correction1 = in_rate ? 1 : rest1,
        .correction2 = in_rate ? 1 : rest2,
        .gradient_scale =
            step->gradient_scale * (both ? clip_factor(optimizer, step->grad_norm) : 1),
        .max_grad_norm = optimizer->clips != 0 ? optimizer->max_grad_norm : 0,
        .exact_clip = optimizer->row->exact_clip,
        .epsilon_inside_root = optimizer->epsilon_inside_root,
        .l2_mode = optimizer->l2_mode,
        .stats = state->stats,
    };
}

static struct adamw_args range_args(const struct step *step, int64_t first, int64_t count,
                                    int decays) {
    const struct state *state = step->state;
    struct adamw_args args = step->common;
    args.parameters = state->master + first;
    args.gradients = state->gradients + first;
    args.first_moment = state->moment1 + first;
    args.second_moment = state->moment2 + first;
    args.count = count;
    args.weight_decay = decays ? step->optimizer->weight_decay : 0;
    if (state->copy != NULL && first < state->table->matrix_count) {
        char *copy = (char *)state->copy + (size_t)first * dtype_size(state->compute);
        args.compute = mat_of(copy, 1, count, state->compute);
    }
    return args;
}

static int64_t end_of(const struct param *param) {
    return param->offset + param->rows * param->cols;
}

static int is_scaled(const struct optimizer *optimizer, int decays) {
    return optimizer->row->trust == TRUST_ALL ||
           (optimizer->row->trust == TRUST_DECAYED && decays && optimizer->weight_decay > 0);
}

int optimizer_scales(const struct optimizer *optimizer, const char *parameter) {
    return is_scaled(optimizer, optimizer_decays(optimizer, parameter));
}

static int is_alone(const struct optimizer *optimizer, int decays) {
    return (optimizer->clips & CLIP_TENSOR) != 0 || is_scaled(optimizer, decays);
}

// A tensor by itself: with its own norm, or its own coefficient.
static void step_tensor(const struct step *step, size_t index, int decays) {
    const struct optimizer *optimizer = step->optimizer;
    const struct state *state = step->state;
    struct device *device = state->device;
    const struct param *param = &state->table->params[index];
    struct adamw_args args = range_args(step, param->offset, end_of(param) - param->offset, decays);
    if ((optimizer->clips & CLIP_TENSOR) != 0) {
        struct grad_stats *own = &state->stats[1 + index];
        device->grad_norm(device, own, args.gradients, args.count, args.gradient_scale);
        args.stats = own;
    }
    if (!is_scaled(optimizer, decays)) {
        device->adamw(device, &args);
        return;
    }
    const int cut = optimizer->row->has_coefficients;
    device->lamb(device, &(struct lamb_args){.adam = args,
                                             .min_coeff = cut ? optimizer->min_coeff : 0,
                                             .max_coeff = cut ? optimizer->max_coeff : INFINITY,
                                             .result = &state->lamb[index]});
}

// The end of the tensors from `first` on that may go together: one group, with or without a
// compute copy all of them. The gaps between them stay zero.
static size_t run_end(const struct step *step, size_t first, int decays) {
    const struct param_table *table = step->state->table;
    const int copied = table->params[first].offset < table->matrix_count;
    size_t end = first + 1;
    while (end < table->count && (table->params[end].offset < table->matrix_count) == copied &&
           optimizer_decays(step->optimizer, table->params[end].name) == decays) {
        end++;
    }
    return end;
}

void optimizer_step(const struct optimizer *optimizer, const struct state *state,
                    const struct optimizer_step *args) {
    const struct param_table *table = state->table;
    const struct step step = {optimizer, state, common_args(optimizer, state, args)};
    for (size_t i = 0; i < table->count;) {
        const int decays = optimizer_decays(optimizer, table->params[i].name);
        if (is_alone(optimizer, decays)) {
            step_tensor(&step, i++, decays);
            continue;
        }
        const size_t end = run_end(&step, i, decays);
        const int64_t first = table->params[i].offset;
        const struct adamw_args range =
            range_args(&step, first, end_of(&table->params[end - 1]) - first, decays);
        state->device->adamw(state->device, &range);
        i = end;
    }
}
