// SPDX-License-Identifier: Apache-2.0
// The table of optimizers, and which parameters decay, are frozen or scaled by their tensor's
// norms. The job settles the settings by a row; optimizer_plan.c applies the rules to the buffers
// through the operations of a device.
#include "train/optimizer/optimizer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// --- rows ---------------------------------------------------------------------------------------

const struct optimizer_row optimizer_rows[] = {
    {.name = "adamw",
     .no_decay = "deepspeed",
     .clip_by = "global",
     .epsilon = 1e-8,
     .weight_decay = 0.01,
     .bias_correction = 1,
     .has_adam_w_mode = 1},
    {.name = "adam",
     .no_decay = "deepspeed",
     .clip_by = "global",
     .epsilon = 1e-8,
     .weight_decay = 0.01,
     .bias_correction = 1,
     .has_adam_w_mode = 1},
    {.name = "adam_weight_decay",
     .no_decay = "google",
     .clip_by = "global",
     .epsilon = 1e-6,
     .weight_decay = 0.01,
     .exact_clip = 1},
    {.name = "bertadam",
     .no_decay = "deepspeed",
     .clip_by = "tensor",
     .epsilon = 1e-6,
     .weight_decay = 0.01},
    {.name = "nvlamb",
     .before = "|p|/|u| u, u = ",
     .after = "; u alone where d = 0",
     .no_decay = "nvidia",
     .clip_by = "global",
     .epsilon = 1e-6,
     .weight_decay = 0.01,
     .bias_correction = 1,
     .exact_clip = 1,
     .trust = TRUST_DECAYED},
    {.name = "lamb",
     .before = "c u, u = ",
     .after = ", c = |p|/|u| in [min_coeff, max_coeff]",
     .no_decay = "deepspeed",
     .clip_by = "global",
     .epsilon = 1e-8,
     .bias_correction = 1,
     .corrects_rate = 1,
     .has_coefficients = 1,
     .trust = TRUST_ALL},
};
const size_t optimizer_row_count = sizeof optimizer_rows / sizeof optimizer_rows[0];

// The lists of the original programs: substrings of the names of parameters that do not decay.
static const struct {
    const char *name, *patterns;
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

const char *optimizer_no_decay_list(const char *name) {
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        if (strcmp(lists[i].name, name) == 0) {
            return lists[i].patterns;
        }
    }
    return NULL;
}

// --- settings -----------------------------------------------------------------------------------

enum berth_status optimizer_settle(struct optimizer_settings *settings, struct berth_error *error) {
    const struct optimizer_row *row = find(settings->optimizer);
    if (!settings->adam_w_mode && !row->has_adam_w_mode) {
        return error_set(
            error, BERTH_CONFIG,
            "adam_w_mode false applies only to the optimizers adam and adamw, not to %s",
            row->name);
    }
    if (settings->min_coeff > settings->max_coeff) {
        return error_set(error, BERTH_CONFIG, "min_coeff %g is above max_coeff %g",
                         settings->min_coeff, settings->max_coeff);
    }
    settings->optimizer = row->name;
    settings->adam_epsilon = isnan(settings->adam_epsilon) ? row->epsilon : settings->adam_epsilon;
    settings->weight_decay =
        isnan(settings->weight_decay) ? row->weight_decay : settings->weight_decay;
    if (settings->bias_correction < 0) {
        settings->bias_correction = row->bias_correction;
    }
    settings->no_decay = settings->no_decay != NULL ? settings->no_decay : row->no_decay;
    settings->clip_by = settings->clip_by != NULL ? settings->clip_by : row->clip_by;
    return BERTH_OK;
}

void optimizer_print_formula(const struct optimizer *optimizer, char *text, size_t size) {
    const struct optimizer_row *row = optimizer->row;
    const char *hat = optimizer->bias_correction && !row->corrects_rate ? "^" : "";
    const int inside = optimizer->epsilon_inside_root;
    snprintf(text, size, "%sm%s/%ssqrt(v%s%s%s%s%s", row->before != NULL ? row->before : "", hat,
             inside ? "" : "(", hat, inside ? "+eps)" : ")+eps)",
             optimizer->l2_mode ? ", g += d p" : " + d p", row->after != NULL ? row->after : "",
             optimizer->bias_correction && row->corrects_rate
                 ? ", lr times sqrt(1-beta2^t)/(1-beta1^t)"
                 : "");
}

static unsigned clips_of(const struct optimizer_settings *settings) {
    if (settings->max_grad_norm <= 0) {
        return 0;
    }
    int both = strcmp(settings->clip_by, "both") == 0;
    return (both || strcmp(settings->clip_by, "global") == 0 ? CLIP_GLOBAL : 0u) |
           (both || strcmp(settings->clip_by, "tensor") == 0 ? CLIP_TENSOR : 0u);
}

struct optimizer optimizer_of(const struct optimizer_settings *settings) {
    const char *known = optimizer_no_decay_list(settings->no_decay);
    return (struct optimizer){
        .row = find(settings->optimizer),
        .beta1 = settings->adam_beta1,
        .beta2 = settings->adam_beta2,
        .epsilon = settings->adam_epsilon,
        .weight_decay = settings->weight_decay,
        .max_grad_norm = settings->max_grad_norm,
        .min_coeff = settings->min_coeff,
        .max_coeff = settings->max_coeff,
        .bias_correction = settings->bias_correction,
        .l2_mode = !settings->adam_w_mode,
        .epsilon_inside_root = settings->eps_inside_sqrt,
        .clips = clips_of(settings),
        .no_decay = known != NULL ? known : settings->no_decay,
        .own_list = known == NULL,
        .frozen = {settings->freeze_layers, settings->freeze_embeddings},
    };
}

// --- parameter groups ---------------------------------------------------------------------------

// The next substring of a list; NULL at the end.
static const char *next_pattern(const char **list, size_t *length) {
    *list += strspn(*list, ", ");
    *length = strcspn(*list, ", ");
    const char *pattern = *list;
    *list += *length;
    return *length > 0 ? pattern : NULL;
}

static int matches(const char *name, const char *pattern, size_t length) {
    return memmem(name, strlen(name), pattern, length) != NULL;
}

int optimizer_decays(const struct optimizer *optimizer, const char *parameter) {
    const char *list = optimizer->no_decay, *pattern;
    size_t length;
    while ((pattern = next_pattern(&list, &length)) != NULL) {
        if (matches(parameter, pattern, length)) {
            return 0;
        }
    }
    return 1;
}

enum berth_status optimizer_check(const struct optimizer *optimizer,
                                  const struct param_table *table, struct berth_error *error) {
    const char *list = optimizer->own_list ? optimizer->no_decay : "", *pattern;
    size_t length;
    while ((pattern = next_pattern(&list, &length)) != NULL) {
        size_t found = 0;
        while (found < table->count && !matches(table->params[found].name, pattern, length)) {
            found++;
        }
        if (found == table->count) {
            return error_set(error, BERTH_CONFIG,
                             "no_decay: no parameter has \"%.*s\" in its name; `berth inspect` "
                             "lists the names",
                             (int)length, pattern);
        }
    }
    return optimizer->frozen.layers <= table->layer_count
               ? BERTH_OK
               : error_set(error, BERTH_CONFIG, "freeze_layers %lld: the model has %lld layers",
                           (long long)optimizer->frozen.layers, (long long)table->layer_count);
}

int optimizer_freezes(const struct optimizer *optimizer, const char *parameter) {
    const int64_t layer = param_layer_of(parameter, NULL);
    return layer >= 0
               ? layer < optimizer->frozen.layers
               : optimizer->frozen.embeddings && strncmp(parameter, "bert.embeddings", 15) == 0;
}

int optimizer_scales(const struct optimizer *optimizer, const char *parameter) {
    return optimizer->row->trust == TRUST_ALL ||
           (optimizer->row->trust == TRUST_DECAYED && optimizer_decays(optimizer, parameter) &&
            optimizer->weight_decay > 0);
}

int optimizer_needs_tensor_norms(const struct optimizer *optimizer) {
    return optimizer->row->trust != TRUST_NONE || (optimizer->clips & CLIP_TENSOR) != 0;
}
