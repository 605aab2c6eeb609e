// SPDX-License-Identifier: Apache-2.0
// The order in which the modules of other programs register their parameters. Their optimizers
// number the states of parameters in this order.
#ifndef BERTH_MODEL_MODULE_ORDER_H
#define BERTH_MODEL_MODULE_ORDER_H

// Compares two parameters by their names in any dialect of names.h, as strcmp does.
int module_order_compare(const char *left, const char *right);

#endif
