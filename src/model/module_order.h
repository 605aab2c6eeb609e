// SPDX-License-Identifier: Apache-2.0
// The order in which the modules of other programs register their parameters. Their optimizers
// number the states of parameters in this order.
#ifndef BERTH_MODEL_MODULE_ORDER_H
#define BERTH_MODEL_MODULE_ORDER_H

// Compares two parameters as strcmp does, by their names in a dialect of names.h; not TensorFlow's,
// whose optimizers do not number them.
int module_order_compare(const char *left, const char *right);

#endif
