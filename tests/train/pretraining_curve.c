// SPDX-License-Identifier: Apache-2.0
// Prints the losses of pre-training in fp32 without dropout on a shard's instances in file order,
// for comparison with PyTorch (bench/pretrain_pytorch.py --compare).
//
//   pretraining_curve MODEL_FOLDER SHARD.hdf5 UPDATES SEQUENCES LEARNING_RATE
//
// Every update uses the next SEQUENCES instances, with AdamW at a constant rate. Prints one loss
// per line.
#include "core/file.h"
#include "core/memory.h"
#include "core/number.h"
#include "data/pretraining/instances.h"
#include "data/pretraining/pretraining_file.h"
#include "model/folder.h"
#include "settings/settings.h"
#include "train/engine/update.h"
#include "train/job/rules.h"

#include <stdio.h>

struct curve {
    const char *folder, *shard;
    int64_t updates, sequences;
    double learning_rate;
    struct bert_config config;
    struct param_table table;
    struct instances instances;
    struct packer_source source;
    struct device *device;
    struct state state;
    struct engine engine;
    struct updater updater;
    uint32_t *order;
};

static enum berth_status read_all(struct curve *curve, struct berth_error *error) {
    char *path = path_join(curve->folder, "config.json");
    TRY(bert_config_read(path, &curve->config, error));
    memory_free(path);
    TRY(param_table_init(&curve->table, &curve->config, PARAM_HEAD_PRETRAINING, error));
    TRY(pretraining_read_hdf5(curve->shard, (int32_t)curve->config.vocab_size, 0, &curve->instances,
                              error));
    const size_t wanted = (size_t)(curve->updates * curve->sequences);
    if (curve->instances.count < wanted) {
        return error_set(error, BERTH_BAD_DATA, "%s: %zu instances, %zu are needed", curve->shard,
                         curve->instances.count, wanted);
    }
    curve->source = instance_source(&curve->instances);
    curve->order = memory_array(wanted, sizeof *curve->order);
    for (size_t i = 0; i < wanted; i++) {
        curve->order[i] = (uint32_t)i;
    }
    return BERTH_OK;
}

static enum berth_status load(struct curve *curve, struct berth_error *error) {
    const struct device_options options = {0};
    struct folder_report report = {0};
    TRY(device_cpu_open(&options, &curve->device, error));
    TRY(state_init(&curve->state, curve->device, &curve->table, DTYPE_F32, 1, error));
    TRY(folder_read_weights(curve->folder, &curve->config, &curve->table, 0, curve->state.master,
                            &report, error));
    folder_report_done(&report);
    state_set_weights(&curve->state, curve->state.master);
    return BERTH_OK;
}

static enum berth_status prepare(struct curve *curve, struct berth_error *error) {
    struct settings settings;
    settings_init(&settings);
    settings.model.hidden_dropout_prob = settings.model.attention_probs_dropout_prob = 0;
    settings.optimizer.optimizer = "adamw";
    settings.optimizer.adam_epsilon = 1e-6;
    settings.optimizer.weight_decay = 0.01;
    settings.optimizer.max_grad_norm = 1;
    TRY(optimizer_settle(&settings.optimizer, error));
    struct update_rules rules =
        update_rules_of(&settings, &curve->config, curve->table.head, DTYPE_F32);
    struct engine_shape shape = {.train = {.sequences = curve->sequences}};
    for (size_t i = 0; i < curve->instances.count; i++) {
        const struct instance *item = &curve->instances.items[i];
        const struct batch_extent own = {.masked = item->prediction_count,
                                         .max_length = item->length};
        shape.train = batch_extent_larger(&shape.train, &own);
    }
    shape.train.tokens = shape.train.max_length * curve->sequences;
    shape.train.masked *= curve->sequences;
    TRY(engine_init(&curve->engine, &curve->state, comm_self(), &curve->config, &shape, error));
    return updater_init(&curve->updater, &curve->engine, &rules, curve->sequences, error);
}

static enum berth_status run(struct curve *curve, struct berth_error *error) {
    const struct batching whole = {.micro = {INT64_MAX, curve->sequences, INT64_MAX, 0}};
    TRY(read_all(curve, error));
    TRY(load(curve, error));
    TRY(prepare(curve, error));
    for (int64_t step = 0; step < curve->updates; step++) {
        struct update_args args = {.batching = &whole,
                                   .source = &curve->source,
                                   .order = curve->order + step * curve->sequences,
                                   .count = (size_t)curve->sequences,
                                   .step = step,
                                   .rate = curve->learning_rate};
        struct update_result result;
        TRY(update_run(&curve->updater, &args, &result, error));
        printf("%.9g\n", result.loss);
    }
    return BERTH_OK;
}

int main(int argc, char **argv) {
    struct curve curve = {0};
    struct berth_error error = {.message = ""};
    if (argc != 6 || !number_parse_integer(argv[3], &curve.updates) ||
        !number_parse_integer(argv[4], &curve.sequences) ||
        !number_parse_real(argv[5], &curve.learning_rate)) {
        fputs("pretraining_curve MODEL_FOLDER SHARD.hdf5 UPDATES SEQUENCES LEARNING_RATE\n",
              stderr);
        return 2;
    }
    curve.folder = argv[1];
    curve.shard = argv[2];
    if (run(&curve, &error) != BERTH_OK) {
        fprintf(stderr, "pretraining_curve: %s\n", error.message);
        return 1;
    }
    return 0;
}
