// SPDX-License-Identifier: Apache-2.0
// The optimizer's state of one of Berth's checkpoints, for targets that hold it: master weights and
// moments in fp32, under the names and in the order in which the target's program numbers its
// parameters.
#ifndef BERTH_API_CONVERT_OPTIMIZER_H
#define BERTH_API_CONVERT_OPTIMIZER_H

#include "api/conversion.h"
#include "train/progress/run_facts.h"

#include <stddef.h>

#define CONVERT_OPTIMIZER_FILE "optimizer.safetensors"

enum { CONVERT_WEIGHTS, CONVERT_EXP_AVG, CONVERT_EXP_AVG_SQ, CONVERT_ROWS };

struct convert_optimizer {
    struct run_facts facts;
    struct outgoing
        rows[CONVERT_ROWS]; // the same names, those of the group with weight decay first
    size_t decaying;
};

// BERTH_NO_INPUT if the source is no checkpoint of Berth. convert_optimizer_done frees, also after
// a failure.
enum berth_status convert_optimizer_read(const struct conversion *conversion,
                                         struct convert_optimizer *optimizer,
                                         struct berth_error *error);
void convert_optimizer_done(struct convert_optimizer *optimizer);

// optimizer_decays by the target's name of a tensor.
int convert_optimizer_decays(const struct optimizer *optimizer, const char *theirs);

#endif
