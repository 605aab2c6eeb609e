// SPDX-License-Identifier: Apache-2.0
// The order in which the modules of other programs register their parameters. Their optimizers
// number the states of parameters in this order.
#ifndef BERTH_MODEL_MODULE_ORDER_H
#define BERTH_MODEL_MODULE_ORDER_H

#include <stddef.h>

struct weights; // weights.h

// Parts of names, in the order of the modules, up to a NULL; of those in a name the first counts.
// architectures.c has one for each way in which an architecture registers its modules.
struct module_order {
    const char *parts[17];
};

// The place of a parameter in a module.
struct module_place {
    const char *name;
    size_t part, in_layer;
    long layer;
    int is_bias;
};
// `name` is ours, or, with BERT's order, one in a dialect of names.h; not TensorFlow's, whose
// optimizers do not number them. `is_tied`: the decoder of a head for masked words is the word
// table, which counts where its first name is.
struct module_place module_place_of(const struct module_order *order, const char *name,
                                    int is_tied);
// Compares two places of the same order, and returns what strcmp would.
int module_place_compare(const struct module_place *left, const struct module_place *right);

// Whether the model has a head for masked words whose decoder is the word table.
int module_order_ties(const struct weights *weights);

// Compares the places of two names in BERT's order.
int module_order_compare(const char *left, const char *right);

#endif
