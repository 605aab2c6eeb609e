// SPDX-License-Identifier: Apache-2.0
// The jobs of berth.h: work on files, with a name.
#ifndef BERTH_API_JOB_H
#define BERTH_API_JOB_H

#include "api/result.h"

struct job;
struct job_row {
    struct berth_job_row about;
    unsigned jobs;                 // whose settings it has (core/options.h)
    const struct option_row *rows; // its own settings, offsets in struct job_settings; NULL: none
    size_t row_count;
    enum berth_status (*run)(struct job *job, struct berth_error *error);
};
extern const struct job_row job_rows[];
extern const size_t job_row_count;

#endif
