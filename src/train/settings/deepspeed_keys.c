// SPDX-License-Identifier: Apache-2.0
#include "train/settings/deepspeed_keys.h"

#include "core/options.h"

#include <stdio.h>
#include <string.h>

#define ZERO "zero_optimization"

const struct deepspeed_keys deepspeed_keys[] = {
    {"", KEY_OBJECT, KEY_SECTION, "optimizer scheduler fp16 bf16 bfloat16 tensorboard " ZERO},
    {"", KEY_BOOLEAN, KEY_PROCESSES,
     "prescale_gradients sparse_gradients disable_allgather allreduce_always_fp32 "
     "zero_allow_untested_optimizer zero_force_ds_cpu_optimizer"},
    {"", KEY_OBJECT, KEY_PROCESSES, "comms_logger elasticity"},
    {"", KEY_REAL, KEY_PROCESSES, "gradient_predivide_factor"},
    {"", KEY_TEXT, KEY_PROCESSES, "seq_parallel_communication_data_type gradient_allreduce_op"},
    {"", KEY_BOOLEAN, KEY_WITHOUT,
     "dump_state disable_python_gc dataloader_drop_last memory_breakdown"},
    {"", KEY_OBJECT, KEY_WITHOUT,
     "torch_autocast amp activation_checkpointing progressive_layer_drop sparse_attention wandb "
     "csv_monitor flops_profiler autotuning curriculum_learning data_efficiency checkpoint "
     "data_types aio"},
    {"", KEY_TEXT, KEY_WITHOUT, "log_level"},
    {"optimizer", KEY_OBJECT, KEY_SECTION, "params"},
    {"optimizer", KEY_BOOLEAN, KEY_WITHOUT, "legacy_fusion"},
    {"optimizer.params", KEY_PAIR, KEY_READ, "betas"},
    {"optimizer.params", KEY_BOOLEAN, KEY_WITHOUT, "torch_adam amsgrad"},
    {"scheduler", KEY_OBJECT, KEY_SECTION, "params"},
    {"scheduler.params", KEY_INTEGER, KEY_READ, "total_num_steps"},
    {"scheduler.params", KEY_REAL, KEY_READ, "warmup_max_lr warmup_min_ratio"},
    {"scheduler.params", KEY_TEXT, KEY_READ, "warmup_type"},
    {"scheduler.params", KEY_INTEGER, KEY_WITHOUT, "last_batch_iteration"},
    {"fp16", KEY_BOOLEAN, KEY_READ, "enabled"},
    {"fp16", KEY_INTEGER, KEY_READ, "initial_scale_power"},
    {"fp16", KEY_REAL, KEY_READ, "loss_scale"},
    {"fp16", KEY_BOOLEAN, KEY_WITHOUT, "auto_cast fp16_master_weights_and_grads"},
    {"bf16", KEY_BOOLEAN, KEY_READ, "enabled"},
    {"bf16", KEY_BOOLEAN, KEY_WITHOUT,
     "immediate_grad_update check_grad_overflow bf16_master_weights_and_grads "
     "bf16_optimizer_states"},
    {"bfloat16", KEY_BOOLEAN, KEY_READ, "enabled"},
    {"tensorboard", KEY_BOOLEAN, KEY_READ, "enabled"},
    {"tensorboard", KEY_TEXT, KEY_READ, "output_path job_name"},
    {ZERO, KEY_ANY, KEY_PROCESSES, "offload_optimizer offload_param"},
    {ZERO, KEY_BOOLEAN, KEY_PROCESSES,
     "allgather_partitions overlap_comm reduce_scatter contiguous_gradients cpu_offload "
     "round_robin_gradients ignore_unused_parameters elastic_checkpoint load_from_fp32_weights "
     "stage3_use_all_reduce_for_fetch_params stage3_allgather_sequential legacy_stage1 "
     "cpu_offload_param cpu_offload_use_pin_memory use_multi_rank_bucket_allreduce "
     "zero_quantized_weights zero_quantized_nontrainable_weights zero_quantized_gradients "
     "mics_hierarchical_params_gather memory_efficient_linear pipeline_loading_checkpoint "
     "override_module_apply log_trace_cache_warnings stage3_gather_16bit_weights_on_model_save "
     "stage3_gather_fp16_weights_on_model_save"},
    {ZERO, KEY_REAL, KEY_PROCESSES,
     "allgather_bucket_size reduce_bucket_size sub_group_size stage3_max_live_parameters "
     "stage3_max_reuse_distance stage3_prefetch_bucket_size stage3_param_persistence_threshold "
     "stage3_module_granularity_threshold model_persistence_threshold "
     "stage3_model_persistence_threshold zero_hpz_partition_size mics_shard_size"},
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
static const json *at(const json *root, const char *path) {
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
    return is_auto(at(root, path));
}

int deepspeed_has_auto(const json *root) {
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        struct json_walk walk = {.object = at(root, sections[i])};
        while (json_is_object_value(walk.object) && json_walk_next(&walk)) {
            if (is_auto(walk.value)) {
                return 1;
            }
        }
    }
    return 0;
}

const json *deepspeed_value(const json *root, const char *path) {
    const json *value = at(root, path);
    return value == NULL || is_auto(value) || json_is_null_value(value) ? NULL : value;
}

int deepspeed_lies_in(const char *path, const char *section, const char **name) {
    const size_t length = strlen(section);
    if (path == NULL || strncmp(path, section, length) != 0 ||
        (length > 0 && path[length] != '.')) {
        return 0;
    }
    *name = path + length + (length > 0);
    return strchr(*name, '.') == NULL;
}

static int is_among(const char *name, const char *names) {
    char other[OPTION_NAME_SIZE];
    while (option_next_name(&names, other)) {
        if (strcmp(name, other) == 0) {
            return 1;
        }
    }
    return 0;
}

// 0 where the key is unknown.
static int find(struct key *key) {
    static const enum key_type types[] = {[OPTION_INTEGER] = KEY_INTEGER,
                                          [OPTION_REAL] = KEY_REAL,
                                          [OPTION_FLAG] = KEY_BOOLEAN,
                                          [OPTION_TEXT] = KEY_TEXT};
    for (size_t i = 0; i < deepspeed_keys_count; i++) {
        const struct deepspeed_keys *keys = &deepspeed_keys[i];
        if (strcmp(keys->section, key->section) == 0 && is_among(key->name, keys->names)) {
            key->type = keys->type;
            key->use = keys->use;
            return 1;
        }
    }
    for (size_t i = 0; i < option_row_count; i++) {
        const char *name;
        if (deepspeed_lies_in(option_rows[i].deepspeed, key->section, &name) &&
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
        if (deepspeed_lies_in(option_rows[i].deepspeed, key->section, &name)) {
            option_nearer(key->name, name, nearest);
        }
    }
}

static void join(char full[160], const struct key *key) {
    snprintf(full, 160, "%.64s%s%.80s", key->section, key->section[0] != '\0' ? "." : "",
             key->name);
}

static enum berth_status unknown(const char *path, const struct key *key,
                                 struct berth_error *error) {
    struct option_spelling nearest;
    char full[160];
    join(full, key);
    find_nearest(key, &nearest);
    if (strcmp(full, "optimizer.params.max_grad_norm") == 0) {
        return error_set(
            error, BERTH_CONFIG,
            "%s: key \"%s\" is not allowed; use \"gradient_clipping\" at the top level", path,
            full);
    }
    return error_set(error, BERTH_CONFIG, "%s: unknown key \"%s\"; the nearest known one is \"%s\"",
                     path, full, nearest.text);
}

static int is_pair(const json *value) {
    return json_is_array_value(value) && json_length(value) == 2 &&
           json_is_number_value(json_at(value, 0)) && json_is_number_value(json_at(value, 1));
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
        return is_pair(value);
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
    return error_set(error, BERTH_CONFIG, "%s: key \"%s\": expected %s", path, full,
                     names[key->type]);
}

// Disabled features request nothing and need no message.
static int asks(const json *value) {
    if (json_is_object_value(value)) {
        const json *enabled = json_member(value, "enabled");
        return enabled == NULL ? json_length(value) > 0 : json_truth(enabled);
    }
    return json_is_boolean(value) ? json_truth(value) : !json_is_null_value(value);
}

struct notes {
    char processes[512], without[512];
};

static void add_note(char text[512], const char *name) {
    size_t used = strlen(text);
    snprintf(text + used, 512 - used, "%s%s", used > 0 ? ", " : "", name);
}

static enum berth_status check_section(const json *root, const char *path, const char *section,
                                       struct notes *notes, struct berth_error *error) {
    struct json_walk walk = {.object = at(root, section)};
    while (walk.object != NULL && json_walk_next(&walk)) {
        struct key key = {.section = section, .name = walk.key};
        if (!find(&key)) {
            return unknown(path, &key, error);
        }
        TRY(check_type(path, &key, walk.value, error));
        char full[160];
        join(full, &key);
        if (key.use == KEY_PROCESSES && asks(walk.value)) {
            add_note(notes->processes, full);
        } else if (key.use == KEY_WITHOUT && asks(walk.value)) {
            add_note(notes->without, full);
        }
    }
    return BERTH_OK;
}

enum berth_status deepspeed_check(const json *root, const char *path, const struct berth_log *log,
                                  struct berth_error *error) {
    if (!json_is_object_value(root)) {
        return error_set(error, BERTH_CONFIG, "%s: expected a JSON object", path);
    }
    struct notes notes = {0};
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        TRY(check_section(root, path, sections[i], &notes, error));
    }
    if (notes.processes[0] != '\0') {
        log_note(log, "%s: no effect with one process: %s", path, notes.processes);
    }
    if (notes.without[0] != '\0') {
        log_note(log, "%s: accepted without effect: %s", path, notes.without);
    }
    return BERTH_OK;
}
