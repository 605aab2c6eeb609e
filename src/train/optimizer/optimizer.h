// SPDX-License-Identifier: Apache-2.0
// The optimizers, by the names of the programs that users come from. A row describes how an
// optimizer clips, corrects bias and scales updates, and which parameters do not decay. Other
// differences are settings (betas, epsilon, ...); a negative or absent setting is taken from the
// row.
//
// With g the clipped gradient, m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2, m^ and v^ the
// corrected moments (or m and v), d the weight decay of the parameter's group:
//
//   adamw, adam         p -= lr (m^ / (sqrt(v^) + eps) + d p)     adam_w_mode off: g += d p instead
//   adam_weight_decay   the same without correction, eps 1e-6     Google's, and Intel's
//   bertadam            the same, every tensor clipped by its own norm
//   nvlamb              u = m^ / (sqrt(v^) + eps) + d p; p -= lr |p| / |u| u per tensor where d is
//                       not 0, else p -= lr u                     NVIDIA's, and Habana's
//   lamb                u = m / (sqrt(v) + eps) + d p;
//                       p -= lr' c u, c = |p| / |u| cut to [min_coeff, max_coeff], every tensor;
//                       lr' = lr sqrt(1 - b2^t) / (1 - b1^t) with correction     DeepSpeed's
//
// Leaves out: optimizers with compressed communication, Adagrad, Lion, SGD.
#ifndef BERTH_TRAIN_OPTIMIZER_H
#define BERTH_TRAIN_OPTIMIZER_H

#include "core/error.h"
#include "model/params.h"
#include "settings/optimizer.h"

#include <stddef.h>
#include <stdint.h>

// Bits: if both are set, global clipping comes first.
enum optimizer_clip { CLIP_GLOBAL = 1, CLIP_TENSOR = 2 };

// Which updates are scaled by |p| / |u|.
enum optimizer_trust { TRUST_NONE, TRUST_DECAYED, TRUST_ALL };

struct optimizer_row {
    const char *name;
    const char *before, *after; // the formula of an update around its quotient; NULL: nothing
    const char *no_decay;       // name of the list of parameters that do not decay
    const char *clip_by;        // "global" or "tensor"
    double epsilon, weight_decay;
    int bias_correction;
    int exact_clip;       // clips to max_grad_norm / norm, without adding 1e-6
    int corrects_rate;    // the correction is part of the rate; the moments are unchanged
    int has_coefficients; // min_coeff and max_coeff apply
    int has_adam_w_mode;  // adam_w_mode may be off
    enum optimizer_trust trust;
};

extern const struct optimizer_row optimizer_rows[];
extern const size_t optimizer_row_count;

// The optimizer of a run, with all its numbers.
struct optimizer {
    const struct optimizer_row *row;
    double beta1, beta2, epsilon, weight_decay, max_grad_norm, min_coeff, max_coeff;
    int bias_correction, l2_mode, epsilon_inside_root;
    unsigned clips;       // enum optimizer_clip
    const char *no_decay; // comma-separated substrings of names
    int own_list;         // no_decay was given by the user
    struct param_frozen frozen;
};

// Replaces unset settings by the row's values. An unknown name is BERTH_USAGE, a setting that the
// optimizer does not support BERTH_CONFIG; errors name the known ones.
enum berth_status optimizer_settle(struct optimizer_settings *settings, struct berth_error *error);

// The optimizer of settings that optimizer_settle has completed.
struct optimizer optimizer_of(const struct optimizer_settings *settings);
// "m^/(sqrt(v^)+eps) + d p": what is subtracted from a parameter, times the rate. For the plan.
void optimizer_print_formula(const struct optimizer *optimizer, char *text, size_t size);

// The substrings in an original program's list ("nvidia"); NULL: there is no list of this name.
const char *optimizer_no_decay_list(const char *name);
// Whether weight decay applies to the parameter: its name contains no substring in no_decay.
int optimizer_decays(const struct optimizer *optimizer, const char *parameter);

// Whether the parameter is frozen.
int optimizer_freezes(const struct optimizer *optimizer, const char *parameter);

// Whether the parameter's update is scaled by its own trust ratio.
int optimizer_scales(const struct optimizer *optimizer, const char *parameter);

// Whether an update needs norms of single tensors, for coefficients or clipping.
int optimizer_needs_tensor_norms(const struct optimizer *optimizer);

// BERTH_CONFIG if a substring in the user's no_decay occurs in no parameter's name, or more layers
// are frozen than the model has.
enum berth_status optimizer_check(const struct optimizer *optimizer,
                                  const struct param_table *table, struct berth_error *error);

#endif
