// SPDX-License-Identifier: Apache-2.0
// An encoder whose work is divided among the ranks of a job. With comm_self it is the encoder of
// berth.h.
#ifndef BERTH_TASK_ENCODER_H
#define BERTH_TASK_ENCODER_H

#include "core/calls.h"
#include "core/comm.h"
#include "core/error.h"

// Texts that had more tokens than the model reads.
struct encoder_cut {
    size_t count;
    size_t first; // its index in the whole list
};

struct encoder_texts {
    const char *const *texts; // [count]
    size_t count;
    size_t before; // number of texts before these in the whole list, for messages
    // Only texts in the same group of this many neighbours share a batch; 0: any texts.
    size_t group;
    struct berth_embedding how;
    struct encoder_cut *cut; // these texts are added; NULL: not wanted
};

// As berth_encoder_open. Borrows `comm`.
enum berth_status encoder_open(const struct berth_config *config, struct comm *comm,
                               const struct berth_log *log, struct berth_encoder **encoder,
                               struct berth_error *error);
// All ranks compare the models that they read from `folder`; errors as rank_facts_compare.
enum berth_status encoder_compare_ranks(const struct berth_encoder *encoder, const char *folder,
                                        struct berth_error *error);

// BERTH_USAGE if it is not a value of enum berth_pooling.
enum berth_status encoder_check_pooling(int pooling, struct berth_error *error);

// As berth_encoder_embed: an embedding that is not finite is BERTH_FAILURE. Called by all ranks
// with the same texts; the first one gets the embeddings. All get the same status (comm_settle).
enum berth_status encoder_embed(const struct berth_encoder *encoder,
                                const struct encoder_texts *texts, float *embeddings,
                                struct berth_error *error);

#endif
