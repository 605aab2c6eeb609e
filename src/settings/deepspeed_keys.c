// SPDX-License-Identifier: Apache-2.0
// The keys that a DeepSpeed JSON may have, with the type of each and what Berth does with those
// that are no settings: nothing, a note, or an error. deepspeed.c has the file checked here before
// it reads any value, so that no key is overlooked.
#include "settings/deepspeed_keys.h"

#include "core/text_util.h"
#include "settings/settings.h"

#include <stdio.h>
#include <string.h>

#define ZERO "zero_optimization"

// Reasons why a key has no effect.
#define EXACT "gradients are divided before they are added, in fp32"
#define FUSED "there is one implementation of each optimizer"
#define MASTER "weights, gradients and moments are fp32"
#define NOT_SUPPORTED "not supported"
#define OFFLOAD "a device keeps everything in its own memory"
#define STAGE_3 "for stage 3, which is not supported"

const struct deepspeed_keys deepspeed_keys[] = {
    {"", KEY_OBJECT, KEY_SECTION, "optimizer scheduler fp16 bf16 bfloat16 tensorboard " ZERO, NULL},
    {"", KEY_BOOLEAN, KEY_NEVER, "prescale_gradients allreduce_always_fp32 fp32_allreduce", EXACT},
    {"", KEY_REAL, KEY_NEVER, "gradient_predivide_factor", EXACT},
    {"", KEY_TEXT, KEY_NEVER, "gradient_allreduce_op", EXACT},
    {"", KEY_BOOLEAN, KEY_NEVER, "sparse_gradients", "the gradients of embeddings are dense"},
    {"", KEY_BOOLEAN, KEY_NEVER, "disable_allgather", "every process needs the weights"},
    {"", KEY_BOOLEAN, KEY_ALWAYS, "managed_gradient_accumulation",
     "the run adds up the gradients of an update and applies them itself"},
    {"", KEY_BOOLEAN, KEY_NEVER, "zero_allow_untested_optimizer",
     "ZeRO works with every optimizer here"},
    {"", KEY_BOOLEAN, KEY_NEVER, "zero_force_ds_cpu_optimizer", OFFLOAD},
    {"", KEY_TEXT, KEY_NEVER, "seq_parallel_communication_data_type",
     "sequences are not divided among processes"},
    {"", KEY_OBJECT, KEY_NEVER, "comms_logger",
     "comm_exposed_seconds, comm_hidden_seconds and comm_bytes are always logged"},
    {"", KEY_OBJECT, KEY_NEVER, "elasticity",
     "any number of processes can resume a checkpoint; train_batch_size stays"},
    {"", KEY_BOOLEAN, KEY_NEVER, "dump_state", "the plan shows all settings"},
    {"", KEY_BOOLEAN, KEY_NEVER, "disable_python_gc", "there is no garbage collector"},
    {"", KEY_BOOLEAN, KEY_NEVER, "memory_breakdown", "the plan shows the memory"},
    {"", KEY_OBJECT, KEY_NEVER, "torch_autocast amp", "bf16 and fp16 decide the precision"},
    {"", KEY_OBJECT, KEY_NEVER, "activation_checkpointing",
     "gradient_checkpointing decides whether activations are recomputed"},
    {"", KEY_OBJECT, KEY_NEVER, "wandb csv_monitor comet",
     "json_summary and logging_dir write records to files"},
    {"", KEY_OBJECT, KEY_NEVER, "flops_profiler timers",
     "use profile, wall_clock_breakdown or berth bench"},
    {"", KEY_OBJECT, KEY_NEVER,
     "progressive_layer_drop sparse_attention autotuning curriculum_learning data_efficiency "
     "compression_training weight_quantization",
     NOT_SUPPORTED},
    {"", KEY_OBJECT, KEY_NEVER, "compile", "every operation is compiled already"},
    {"", KEY_OBJECT, KEY_NEVER, "hybrid_engine", "BERT generates no text"},
    {"", KEY_ANY, KEY_NEVER, "pipeline tensor_parallel expert_parallel",
     "processes divide updates, not the model"},
    {"", KEY_BOOLEAN, KEY_NEVER, "use_data_before_expert_parallelism",
     "processes divide updates, not the model"},
    {"", KEY_OBJECT, KEY_NEVER, "datastates_ckpt",
     "async_save writes checkpoints in the background"},
    {"", KEY_INTEGER, KEY_NEVER, "vocabulary_size", "the model has its own"},
    {"", KEY_OBJECT, KEY_NEVER, "checkpoint aio",
     "all processes write their parts of one checkpoint"},
    {"", KEY_OBJECT, KEY_NEVER, "data_types", "gradients are added in fp32"},
    {"", KEY_TEXT, KEY_NEVER, "log_level", "quiet and log_format decide what is logged"},
    {"optimizer", KEY_OBJECT, KEY_SECTION, "params", NULL},
    {"optimizer", KEY_BOOLEAN, KEY_NEVER, "legacy_fusion", FUSED},
    {"optimizer.params", KEY_PAIR, KEY_READ, "betas", NULL},
    {"optimizer.params", KEY_BOOLEAN, KEY_NEVER, "torch_adam", FUSED},
    {"optimizer.params", KEY_BOOLEAN, KEY_NEVER, "amsgrad", NOT_SUPPORTED},
    {"scheduler", KEY_OBJECT, KEY_SECTION, "params", NULL},
    {"scheduler.params", KEY_INTEGER, KEY_READ, "total_num_steps", NULL},
    {"scheduler.params", KEY_REAL, KEY_READ, "warmup_max_lr warmup_min_ratio", NULL},
    {"scheduler.params", KEY_TEXT, KEY_READ, "warmup_type", NULL},
    {"scheduler.params", KEY_INTEGER, KEY_NEVER, "last_batch_iteration",
     "a checkpoint stores the progress of its schedule"},
    {"fp16", KEY_BOOLEAN, KEY_READ, "enabled", NULL},
    {"fp16", KEY_INTEGER, KEY_READ, "initial_scale_power", NULL},
    {"fp16", KEY_REAL, KEY_READ, "loss_scale", NULL},
    {"fp16", KEY_BOOLEAN, KEY_NEVER, "auto_cast", "inputs are integers"},
    {"fp16", KEY_BOOLEAN, KEY_NEVER, "fp16_master_weights_and_grads", MASTER},
    {"bf16", KEY_BOOLEAN, KEY_READ, "enabled", NULL},
    {"bf16", KEY_BOOLEAN, KEY_NEVER, "bf16_master_weights_and_grads bf16_optimizer_states", MASTER},
    {"bf16", KEY_BOOLEAN, KEY_ALWAYS, "immediate_grad_update", "gradients are added at once"},
    {"bf16", KEY_BOOLEAN, KEY_ALWAYS, "check_grad_overflow",
     "an update whose gradient is not finite is never applied"},
    {"bfloat16", KEY_BOOLEAN, KEY_READ, "enabled", NULL},
    {"tensorboard", KEY_BOOLEAN, KEY_READ, "enabled", NULL},
    {"tensorboard", KEY_TEXT, KEY_READ, "output_path job_name", NULL},
    {ZERO, KEY_REAL, KEY_READ, "allgather_bucket_size reduce_bucket_size", NULL},
    {ZERO, KEY_BOOLEAN, KEY_ALWAYS, "allgather_partitions",
     "each process sends its part of the weights to all"},
    {ZERO, KEY_BOOLEAN, KEY_ALWAYS, "reduce_scatter",
     "sums of gradients go only to the processes that need them"},
    {ZERO, KEY_BOOLEAN, KEY_ALWAYS, "contiguous_gradients", "gradients are one block of memory"},
    {ZERO, KEY_BOOLEAN, KEY_ALWAYS, "ignore_unused_parameters",
     "a parameter that a task does not use has a gradient of 0"},
    {ZERO, KEY_BOOLEAN, KEY_ALWAYS, "load_from_fp32_weights",
     "a checkpoint has the fp32 master weights"},
    {ZERO, KEY_BOOLEAN, KEY_ALWAYS, "elastic_checkpoint",
     "any number of processes can resume a checkpoint"},
    {ZERO, KEY_BOOLEAN, KEY_ALWAYS, "compute_grad_norm", "every update has its norm"},
    {ZERO, KEY_BOOLEAN, KEY_NEVER, "parameter_alignment",
     "the weights are one block of memory, whose parts are aligned"},
    {ZERO, KEY_BOOLEAN, KEY_NEVER, "enable_sanity_checks",
     "replica_check_steps checks weights and moments"},
    {ZERO, KEY_BOOLEAN, KEY_NEVER, "round_robin_gradients",
     "every layer's gradients are divided among all processes"},
    {ZERO, KEY_BOOLEAN, KEY_NEVER, "legacy_stage1 use_multi_rank_bucket_allreduce",
     "there is one implementation"},
    {ZERO, KEY_ANY, KEY_NEVER, "offload_optimizer offload_param zenflow", OFFLOAD},
    {ZERO, KEY_BOOLEAN, KEY_NEVER, "cpu_offload cpu_offload_param cpu_offload_use_pin_memory",
     OFFLOAD},
    {ZERO, KEY_REAL, KEY_NEVER, "sub_group_size", OFFLOAD},
    {ZERO, KEY_BOOLEAN, KEY_NEVER,
     "zero_quantized_weights zero_quantized_nontrainable_weights zero_quantized_gradients",
     "communication_data_type decides in which type gradients travel, weights in that of "
     "computing"},
    {ZERO, KEY_BOOLEAN, KEY_NEVER,
     "stage3_use_all_reduce_for_fetch_params stage3_allgather_sequential "
     "mics_hierarchical_params_gather memory_efficient_linear pipeline_loading_checkpoint "
     "override_module_apply log_trace_cache_warnings stage3_gather_16bit_weights_on_model_save "
     "stage3_gather_fp16_weights_on_model_save use_all_reduce_for_fetch_params "
     "allgather_sequential gather_16bit_weights_on_model_save save_muon_momentum_buffer_in_memory",
     STAGE_3},
    {ZERO, KEY_OBJECT, KEY_NEVER, "leaf_module", STAGE_3},
    {ZERO, KEY_REAL, KEY_NEVER,
     "stage3_max_live_parameters stage3_max_reuse_distance stage3_prefetch_bucket_size "
     "stage3_param_persistence_threshold stage3_module_granularity_threshold "
     "model_persistence_threshold stage3_model_persistence_threshold zero_hpz_partition_size "
     "mics_shard_size max_live_parameters max_reuse_distance prefetch_bucket_size "
     "param_persistence_threshold module_granularity_threshold",
     STAGE_3},
};
const size_t deepspeed_keys_count = sizeof deepspeed_keys / sizeof *deepspeed_keys;

// A key of the file.
struct key {
    const char *section, *name;
    enum key_type type;
    enum key_use use;
};

static const char *const sections[] = {
    "",     "optimizer", "optimizer.params", "scheduler",   "scheduler.params",
    "fp16", "bf16",      "bfloat16",         "tensorboard", ZERO};

static int is_auto(const json *value) {
    return json_is_text(value) && strcmp(json_text(value), "auto") == 0;
}

// The elements of an array that is "auto" are "auto".
static const json *member(const json *value, const char *name) {
    const size_t index = (size_t)(name[0] - '0');
    if (index > 9) {
        return json_is_object_value(value) ? json_member(value, name) : NULL;
    }
    return json_is_array_value(value) && index < json_length(value) ? json_at(value, index)
           : is_auto(value)                                         ? value
                                                                    : NULL;
}

// The object or value at a dotted path, including "auto".
static const json *lookup(const json *root, const char *path) {
    char part[64];
    while (path[0] != '\0' && root != NULL) {
        size_t length = strcspn(path, ".");
        if (length >= sizeof part) {
            return NULL;
        }
        memcpy(part, path, length);
        part[length] = '\0';
        root = member(root, part);
        path += length + (path[length] == '.');
    }
    return root;
}

int deepspeed_is_auto(const json *root, const char *path) {
    return is_auto(lookup(root, path));
}

int deepspeed_has_auto(const json *root) {
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        struct json_walk walk = {.object = lookup(root, sections[i])};
        while (json_is_object_value(walk.object) && json_walk_next(&walk)) {
            if (is_auto(walk.value)) {
                return 1;
            }
        }
    }
    return 0;
}

const json *deepspeed_value(const json *root, const char *path) {
    const json *value = lookup(root, path);
    return value == NULL || is_auto(value) || json_is_null_value(value) ? NULL : value;
}

int deepspeed_is_in_section(const char *path, const char *section, const char **name) {
    const size_t length = strlen(section);
    if (path == NULL || strncmp(path, section, length) != 0 ||
        (length > 0 && path[length] != '.')) {
        return 0;
    }
    *name = path + length + (length > 0);
    return strchr(*name, '.') == NULL;
}

// Fills in type and use; returns 0 if the key is unknown.
static int find(struct key *key) {
    static const enum key_type types[] = {[OPTION_INTEGER] = KEY_INTEGER,
                                          [OPTION_REAL] = KEY_REAL,
                                          [OPTION_FLAG] = KEY_BOOLEAN,
                                          [OPTION_TEXT] = KEY_TEXT};
    for (size_t i = 0; i < deepspeed_keys_count; i++) {
        const struct deepspeed_keys *keys = &deepspeed_keys[i];
        if (strcmp(keys->section, key->section) == 0 &&
            words_contain(keys->names, ' ', key->name)) {
            key->type = keys->type;
            key->use = keys->use;
            return 1;
        }
    }
    for (size_t i = 0; i < option_row_count; i++) {
        const char *name;
        if (deepspeed_is_in_section(option_rows[i].deepspeed, key->section, &name) &&
            strcmp(name, key->name) == 0) {
            key->type = types[option_rows[i].type];
            key->use = KEY_READ;
            return 1;
        }
    }
    return 0;
}

static void find_nearest(const struct key *key, struct option_spelling *nearest) {
    const char *name;
    *nearest = (struct option_spelling){.distance = ~0u};
    for (size_t i = 0; i < deepspeed_keys_count; i++) {
        if (strcmp(deepspeed_keys[i].section, key->section) == 0) {
            option_nearer(key->name, deepspeed_keys[i].names, nearest);
        }
    }
    for (size_t i = 0; i < option_row_count; i++) {
        if (deepspeed_is_in_section(option_rows[i].deepspeed, key->section, &name)) {
            option_nearer(key->name, name, nearest);
        }
    }
}

static void join(char full[160], const struct key *key) {
    snprintf(full, 160, "%.64s%s%.80s", key->section, key->section[0] != '\0' ? "." : "",
             key->name);
}

static int has_type(const json *value, enum key_type type) {
    switch (type) {
    case KEY_BOOLEAN:
        return json_is_boolean(value);
    case KEY_INTEGER:
        return json_is_integer_value(value);
    case KEY_REAL:
        return json_is_number_value(value);
    case KEY_TEXT:
        return json_is_text(value);
    case KEY_PAIR:
        return json_is_array_value(value) && json_length(value) == 2 &&
               json_is_number_value(json_at(value, 0)) && json_is_number_value(json_at(value, 1));
    case KEY_OBJECT:
        return json_is_object_value(value);
    case KEY_ANY:
        return 1;
    }
    return 0;
}

static enum berth_status check_type(const char *path, const struct key *key, const json *value,
                                    struct berth_error *error) {
    static const char *const names[] = {
        "true or false",           "an integer", "a number", "a string",
        "an array of two numbers", "an object",  "a value"};
    if (has_type(value, key->type) || json_is_null_value(value) ||
        (is_auto(value) && key->type != KEY_OBJECT)) {
        return BERTH_OK;
    }
    char full[160];
    join(full, key);
    return error_key(error, BERTH_CONFIG, path, full, "expected %s", names[key->type]);
}

static enum berth_status check_section(const json *root, const char *path, const char *section,
                                       struct berth_error *error) {
    struct json_walk walk = {.object = lookup(root, section)};
    while (walk.object != NULL && json_walk_next(&walk)) {
        struct key key = {.section = section, .name = walk.key};
        if (!find(&key)) {
            struct option_spelling nearest;
            char full[160];
            join(full, &key);
            find_nearest(&key, &nearest);
            if (strcmp(full, "optimizer.params.max_grad_norm") == 0) {
                return error_set(
                    error, BERTH_CONFIG,
                    "%s: key \"%s\" is not allowed; use \"gradient_clipping\" at the top level",
                    path, full);
            }
            if (!option_is_near(key.name, nearest.distance) &&
                strncmp(nearest.text, key.name, strlen(key.name)) != 0) {
                return error_set(
                    error, BERTH_CONFIG,
                    "%s: unknown key \"%s\"; no known key has a similar name: remove it", path,
                    full);
            }
            return error_set(error, BERTH_CONFIG,
                             "%s: unknown key \"%s\"; the nearest known one is \"%s\"", path, full,
                             nearest.text);
        }
        TRY(check_type(path, &key, walk.value, error));
    }
    return BERTH_OK;
}

static int requests(const json *value);

// Whether a value requests something: disabled features need no message.
static int requests(const json *value) {
    // A section counts if it is enabled, or any section in it if it has no "enabled".
    if (json_is_object_value(value)) {
        const json *enabled = json_member(value, "enabled");
        struct json_walk walk = {.object = value};
        int found = 0;
        while (enabled == NULL && !found && json_walk_next(&walk)) {
            found = requests(walk.value);
        }
        return enabled != NULL ? json_truth(enabled) : found;
    }
    return json_is_boolean(value) ? json_truth(value) : !json_is_null_value(value);
}

static int needs_note(enum key_use use, const json *value) {
    return use == KEY_ALWAYS ? json_is_boolean(value) && !json_truth(value)
                             : use == KEY_NEVER && requests(value);
}

// Logs the file's keys in this row of the table that have no effect.
static void note(const json *root, const char *path, const struct deepspeed_keys *keys,
                 const struct berth_log *log) {
    const char *names = keys->names;
    char name[OPTION_NAME_SIZE], full[160], found[1024] = "";
    while (option_next_name(&names, name)) {
        const struct key key = {.section = keys->section, .name = name};
        join(full, &key);
        const json *value = lookup(root, full);
        if (value != NULL && needs_note(keys->use, value)) {
            words_add(found, sizeof found, full);
        }
    }
    if (found[0] != '\0') {
        log_note(log, "%s: %s: no effect: %s", path, found, keys->why);
    }
}

enum berth_status deepspeed_check(const json *root, const char *path, const struct berth_log *log,
                                  struct berth_error *error) {
    if (!json_is_object_value(root)) {
        return error_set(error, BERTH_CONFIG, "%s: expected a JSON object", path);
    }
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        TRY(check_section(root, path, sections[i], error));
    }
    for (size_t i = 0; i < deepspeed_keys_count; i++) {
        note(root, path, &deepspeed_keys[i], log);
    }
    return BERTH_OK;
}
