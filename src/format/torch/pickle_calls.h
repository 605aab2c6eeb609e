// SPDX-License-Identifier: Apache-2.0
// The opcodes that name something or call it, for the table in pickle.c. Nothing is run: a name is
// a text, and a row of pickle_names.c says what the result of a call would be.
#ifndef BERTH_FORMAT_PICKLE_CALLS_H
#define BERTH_FORMAT_PICKLE_CALLS_H

#include "format/torch/pickle_machine.h"

typedef enum berth_status pickle_operation(struct machine *machine);

pickle_operation pickle_run_name;         // a module and a name in it, each a line
pickle_operation pickle_run_stacked_name; // the same from the stack
pickle_operation pickle_run_call;
pickle_operation pickle_run_new_object;
pickle_operation pickle_run_build;
pickle_operation pickle_run_storage; // a block of numbers outside the pickle

#endif
