// SPDX-License-Identifier: Apache-2.0
// Translates the settings of several owners into what the engine takes: the rules of an update, the
// request for batch sizes, and how the ranks divide the state. Below this, no room but train/job
// reads the settings of a whole job.
#include "train/job/rules.h"

#include <math.h>
#include <string.h>

struct batching_request batching_request_of(const struct settings *config) {
    return (struct batching_request){.settings = &config->engine,
                                     .seed = (uint64_t)config->run.seed,
                                     .has_total = settings_is_chosen(config, "train_batch_size")};
}

// f16 only if it is asked for: a sum over ranks may overflow it though no rank's gradient does.
static enum dtype wire_of(const struct engine_settings *settings, enum dtype compute) {
    const char *name = settings->communication_data_type;
    if (name == NULL) {
        return compute == DTYPE_BF16 ? DTYPE_BF16 : DTYPE_F32;
    }
    return strcmp(name, "bf16") == 0   ? DTYPE_BF16
           : strcmp(name, "fp16") == 0 ? DTYPE_F16
                                       : DTYPE_F32;
}

static enum range_exchange_mode exchange_mode_of(const struct engine_settings *settings) {
    const char *name = settings->gpu_exchange;
    return strcmp(name, "auto") == 0   ? RANGE_EXCHANGE_AUTO
           : strcmp(name, "nccl") == 0 ? RANGE_EXCHANGE_DIRECT
                                       : RANGE_EXCHANGE_MIRRORED;
}

struct update_rules update_rules_of(const struct settings *config, const struct bert_config *shape,
                                    enum param_head head, enum dtype compute) {
    double hidden = config->model.hidden_dropout_prob;
    hidden = isnan(hidden) ? shape->hidden_dropout_prob : hidden;
    double attention = config->model.attention_probs_dropout_prob;
    return (struct update_rules){
        .optimizer = optimizer_of(&config->optimizer),
        .micro_average = strcmp(config->engine.loss_average, "micro") == 0,
        .seed = (uint64_t)config->run.seed,
        .hidden_dropout = hidden,
        .attention_dropout = isnan(attention) ? shape->attention_probs_dropout_prob : attention,
        .head_dropout = param_head_dropout(head, shape, hidden),
        .label_smoothing = config->task.label_smoothing_factor,
        .positive_weight = config->task.positive_weight,
        .parts = (int)config->engine.virtual_ranks,
        .exchange = {.wire = wire_of(&config->engine, compute),
                     .blocking = !config->engine.overlap_comm,
                     .mode = exchange_mode_of(&config->engine),
                     .gradient_bucket = config->engine.reduce_bucket_size,
                     .weight_bucket = config->engine.allgather_bucket_size},
        .check_every = config->engine.replica_check_steps,
    };
}

enum berth_status sharding_of(const struct settings *config, const struct comm *comm,
                              struct state_sharding *sharding, struct berth_error *error) {
    const struct optimizer optimizer = optimizer_of(&config->optimizer);
    *sharding =
        (struct state_sharding){.rank = comm->rank,
                                .size = comm->size,
                                .stage = comm->size > 1 ? (int)config->engine.zero_stage : 0,
                                .by_tensor = optimizer_needs_tensor_norms(&optimizer),
                                .keeps_gradients = config->engine.virtual_ranks > 0};
    return sharding->stage < 3 ? BERTH_OK
                               : error_set(error, BERTH_CONFIG,
                                           "zero_stage 3 would divide the weights among the "
                                           "processes, which is not supported: use zero_stage 2");
}
