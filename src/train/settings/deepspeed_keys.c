// SPDX-License-Identifier: Apache-2.0
#include "train/settings/deepspeed_keys.h"

#include "core/options.h"

#include <stdio.h>
#include <string.h>

#define ZERO "zero_optimization"

const struct deepspeed_key deepspeed_keys[] = {
    {"", "train_batch_size", KEY_INTEGER, KEY_READ},
    {"", "train_micro_batch_size_per_gpu", KEY_INTEGER, KEY_READ},
    {"", "gradient_accumulation_steps", KEY_INTEGER, KEY_READ},
    {"", "steps_per_print", KEY_INTEGER, KEY_READ},
    {"", "gradient_clipping", KEY_REAL, KEY_READ},
    {"", "wall_clock_breakdown", KEY_BOOLEAN, KEY_READ},
    {"", "optimizer", KEY_OBJECT, KEY_SECTION},
    {"", "scheduler", KEY_OBJECT, KEY_SECTION},
    {"", "fp16", KEY_OBJECT, KEY_SECTION},
    {"", "bf16", KEY_OBJECT, KEY_SECTION},
    {"", "bfloat16", KEY_OBJECT, KEY_SECTION},
    {"", "tensorboard", KEY_OBJECT, KEY_SECTION},
    {"", ZERO, KEY_OBJECT, KEY_SECTION},
    {"", "prescale_gradients", KEY_BOOLEAN, KEY_PROCESSES},
    {"", "gradient_predivide_factor", KEY_REAL, KEY_PROCESSES},
    {"", "communication_data_type", KEY_TEXT, KEY_PROCESSES},
    {"", "sparse_gradients", KEY_BOOLEAN, KEY_PROCESSES},
    {"", "disable_allgather", KEY_BOOLEAN, KEY_PROCESSES},
    {"", "allreduce_always_fp32", KEY_BOOLEAN, KEY_PROCESSES},
    {"", "comms_logger", KEY_OBJECT, KEY_PROCESSES},
    {"", "elasticity", KEY_OBJECT, KEY_PROCESSES},
    {"", "zero_allow_untested_optimizer", KEY_BOOLEAN, KEY_PROCESSES},
    {"", "zero_force_ds_cpu_optimizer", KEY_BOOLEAN, KEY_PROCESSES},
    {"", "seq_parallel_communication_data_type", KEY_TEXT, KEY_PROCESSES},
    {"", "gradient_allreduce_op", KEY_TEXT, KEY_PROCESSES},
    {"", "dump_state", KEY_BOOLEAN, KEY_WITHOUT},
    {"", "disable_python_gc", KEY_BOOLEAN, KEY_WITHOUT},
    {"", "torch_autocast", KEY_OBJECT, KEY_WITHOUT},
    {"", "dataloader_drop_last", KEY_BOOLEAN, KEY_WITHOUT},
    {"", "log_level", KEY_TEXT, KEY_WITHOUT},
    {"", "memory_breakdown", KEY_BOOLEAN, KEY_WITHOUT},
    {"", "amp", KEY_OBJECT, KEY_WITHOUT},
    {"", "activation_checkpointing", KEY_OBJECT, KEY_WITHOUT},
    {"", "progressive_layer_drop", KEY_OBJECT, KEY_WITHOUT},
    {"", "sparse_attention", KEY_OBJECT, KEY_WITHOUT},
    {"", "wandb", KEY_OBJECT, KEY_WITHOUT},
    {"", "csv_monitor", KEY_OBJECT, KEY_WITHOUT},
    {"", "flops_profiler", KEY_OBJECT, KEY_WITHOUT},
    {"", "autotuning", KEY_OBJECT, KEY_WITHOUT},
    {"", "curriculum_learning", KEY_OBJECT, KEY_WITHOUT},
    {"", "data_efficiency", KEY_OBJECT, KEY_WITHOUT},
    {"", "checkpoint", KEY_OBJECT, KEY_WITHOUT},
    {"", "data_types", KEY_OBJECT, KEY_WITHOUT},
    {"", "aio", KEY_OBJECT, KEY_WITHOUT},

    {"optimizer", "type", KEY_TEXT, KEY_READ},
    {"optimizer", "params", KEY_OBJECT, KEY_SECTION},
    {"optimizer", "legacy_fusion", KEY_BOOLEAN, KEY_WITHOUT},
    {"optimizer.params", "lr", KEY_REAL, KEY_READ},
    {"optimizer.params", "betas", KEY_PAIR, KEY_READ},
    {"optimizer.params", "eps", KEY_REAL, KEY_READ},
    {"optimizer.params", "weight_decay", KEY_REAL, KEY_READ},
    {"optimizer.params", "bias_correction", KEY_BOOLEAN, KEY_READ},
    {"optimizer.params", "adam_w_mode", KEY_BOOLEAN, KEY_READ},
    {"optimizer.params", "max_coeff", KEY_REAL, KEY_READ},
    {"optimizer.params", "min_coeff", KEY_REAL, KEY_READ},
    {"optimizer.params", "eps_inside_sqrt", KEY_BOOLEAN, KEY_READ},
    {"optimizer.params", "torch_adam", KEY_BOOLEAN, KEY_WITHOUT},
    {"optimizer.params", "amsgrad", KEY_BOOLEAN, KEY_WITHOUT},

    {"scheduler", "type", KEY_TEXT, KEY_READ},
    {"scheduler", "params", KEY_OBJECT, KEY_SECTION},
    {"scheduler.params", "warmup_min_lr", KEY_REAL, KEY_READ},
    {"scheduler.params", "warmup_max_lr", KEY_REAL, KEY_READ},
    {"scheduler.params", "warmup_min_ratio", KEY_REAL, KEY_READ},
    {"scheduler.params", "cos_min_ratio", KEY_REAL, KEY_READ},
    {"scheduler.params", "warmup_num_steps", KEY_INTEGER, KEY_READ},
    {"scheduler.params", "warmup_type", KEY_TEXT, KEY_READ},
    {"scheduler.params", "total_num_steps", KEY_INTEGER, KEY_READ},
    {"scheduler.params", "last_batch_iteration", KEY_INTEGER, KEY_WITHOUT},

    {"fp16", "enabled", KEY_BOOLEAN, KEY_READ},
    {"fp16", "auto_cast", KEY_BOOLEAN, KEY_WITHOUT},
    {"fp16", "loss_scale", KEY_REAL, KEY_READ},
    {"fp16", "initial_scale_power", KEY_INTEGER, KEY_READ},
    {"fp16", "loss_scale_window", KEY_INTEGER, KEY_READ},
    {"fp16", "hysteresis", KEY_INTEGER, KEY_READ},
    {"fp16", "consecutive_hysteresis", KEY_BOOLEAN, KEY_READ},
    {"fp16", "min_loss_scale", KEY_REAL, KEY_READ},
    {"fp16", "fp16_master_weights_and_grads", KEY_BOOLEAN, KEY_WITHOUT},
    {"bf16", "enabled", KEY_BOOLEAN, KEY_READ},
    {"bf16", "immediate_grad_update", KEY_BOOLEAN, KEY_WITHOUT},
    {"bf16", "check_grad_overflow", KEY_BOOLEAN, KEY_WITHOUT},
    {"bf16", "bf16_master_weights_and_grads", KEY_BOOLEAN, KEY_WITHOUT},
    {"bf16", "bf16_optimizer_states", KEY_BOOLEAN, KEY_WITHOUT},
    {"bfloat16", "enabled", KEY_BOOLEAN, KEY_READ},

    {"tensorboard", "enabled", KEY_BOOLEAN, KEY_READ},
    {"tensorboard", "output_path", KEY_TEXT, KEY_READ},
    {"tensorboard", "job_name", KEY_TEXT, KEY_READ},

    {ZERO, "stage", KEY_INTEGER, KEY_PROCESSES},
    {ZERO, "allgather_partitions", KEY_BOOLEAN, KEY_PROCESSES},
    {ZERO, "allgather_bucket_size", KEY_REAL, KEY_PROCESSES},
    {ZERO, "overlap_comm", KEY_BOOLEAN, KEY_PROCESSES},
    {ZERO, "reduce_scatter", KEY_BOOLEAN, KEY_PROCESSES},
    {ZERO, "reduce_bucket_size", KEY_REAL, KEY_PROCESSES},
    {ZERO, "contiguous_gradients", KEY_BOOLEAN, KEY_PROCESSES},
    {ZERO, "cpu_offload", KEY_BOOLEAN, KEY_PROCESSES},
    {ZERO, "offload_optimizer", KEY_ANY, KEY_PROCESSES},
    {ZERO, "offload_param", KEY_ANY, KEY_PROCESSES},
    {ZERO, "sub_group_size", KEY_REAL, KEY_PROCESSES},
    {ZERO, "round_robin_gradients", KEY_BOOLEAN, KEY_PROCESSES},
    {ZERO, "ignore_unused_parameters", KEY_BOOLEAN, KEY_PROCESSES},
    {ZERO, "elastic_checkpoint", KEY_BOOLEAN, KEY_PROCESSES},
    {ZERO, "load_from_fp32_weights", KEY_BOOLEAN, KEY_PROCESSES},
    {ZERO, "stage3_max_live_parameters", KEY_REAL, KEY_PROCESSES},
    {ZERO, "stage3_max_reuse_distance", KEY_REAL, KEY_PROCESSES},
    {ZERO, "stage3_prefetch_bucket_size", KEY_REAL, KEY_PROCESSES},
    {ZERO, "stage3_param_persistence_threshold", KEY_REAL, KEY_PROCESSES},
    {ZERO, "stage3_module_granularity_threshold", KEY_REAL, KEY_PROCESSES},
    {ZERO, "stage3_use_all_reduce_for_fetch_params", KEY_BOOLEAN, KEY_PROCESSES},
    {ZERO, "stage3_allgather_sequential", KEY_BOOLEAN, KEY_PROCESSES},
    {ZERO, "legacy_stage1", KEY_BOOLEAN, KEY_PROCESSES},
    {ZERO, "cpu_offload_param", KEY_BOOLEAN, KEY_PROCESSES},
    {ZERO, "cpu_offload_use_pin_memory", KEY_BOOLEAN, KEY_PROCESSES},
    {ZERO, "model_persistence_threshold", KEY_REAL, KEY_PROCESSES},
    {ZERO, "stage3_model_persistence_threshold", KEY_REAL, KEY_PROCESSES},
    {ZERO, "use_multi_rank_bucket_allreduce", KEY_BOOLEAN, KEY_PROCESSES},
    {ZERO, "zero_hpz_partition_size", KEY_REAL, KEY_PROCESSES},
    {ZERO, "zero_quantized_weights", KEY_BOOLEAN, KEY_PROCESSES},
    {ZERO, "zero_quantized_nontrainable_weights", KEY_BOOLEAN, KEY_PROCESSES},
    {ZERO, "zero_quantized_gradients", KEY_BOOLEAN, KEY_PROCESSES},
    {ZERO, "mics_shard_size", KEY_REAL, KEY_PROCESSES},
    {ZERO, "mics_hierarchical_params_gather", KEY_BOOLEAN, KEY_PROCESSES},
    {ZERO, "memory_efficient_linear", KEY_BOOLEAN, KEY_PROCESSES},
    {ZERO, "pipeline_loading_checkpoint", KEY_BOOLEAN, KEY_PROCESSES},
    {ZERO, "override_module_apply", KEY_BOOLEAN, KEY_PROCESSES},
    {ZERO, "log_trace_cache_warnings", KEY_BOOLEAN, KEY_PROCESSES},
    {ZERO, "stage3_gather_16bit_weights_on_model_save", KEY_BOOLEAN, KEY_PROCESSES},
    {ZERO, "stage3_gather_fp16_weights_on_model_save", KEY_BOOLEAN, KEY_PROCESSES},
};
const size_t deepspeed_key_count = sizeof deepspeed_keys / sizeof deepspeed_keys[0];

static const char *const sections[] = {
    "",     "optimizer", "optimizer.params", "scheduler",   "scheduler.params",
    "fp16", "bf16",      "bfloat16",         "tensorboard", ZERO};

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
        root = json_is_object_value(root) ? json_member(root, part) : NULL;
        path += length + (path[length] == '.');
    }
    return root;
}

static int is_auto(const json *value) {
    return json_is_text(value) && strcmp(json_text(value), "auto") == 0;
}

int deepspeed_is_auto(const json *root, const char *path) {
    return is_auto(at(root, path));
}

int deepspeed_has_auto(const json *root) {
    for (size_t i = 0; i < deepspeed_key_count; i++) {
        const json *object = at(root, deepspeed_keys[i].section);
        if (json_is_object_value(object) && is_auto(json_member(object, deepspeed_keys[i].name))) {
            return 1;
        }
    }
    return 0;
}

const json *deepspeed_value(const json *root, const char *path) {
    const json *value = at(root, path);
    return value == NULL || is_auto(value) || json_is_null_value(value) ? NULL : value;
}

static const struct deepspeed_key *find(const char *section, const char *name) {
    for (size_t i = 0; i < deepspeed_key_count; i++) {
        if (strcmp(deepspeed_keys[i].section, section) == 0 &&
            strcmp(deepspeed_keys[i].name, name) == 0) {
            return &deepspeed_keys[i];
        }
    }
    return NULL;
}

static const char *nearest(const char *section, const char *name) {
    const char *best = "";
    unsigned least = ~0u;
    for (size_t i = 0; i < deepspeed_key_count; i++) {
        if (strcmp(deepspeed_keys[i].section, section) != 0) {
            continue;
        }
        unsigned distance = option_distance(name, deepspeed_keys[i].name);
        if (distance < least) {
            least = distance;
            best = deepspeed_keys[i].name;
        }
    }
    return best;
}

static void join(char full[160], const char *section, const char *name) {
    snprintf(full, 160, "%.64s%s%.80s", section, section[0] != '\0' ? "." : "", name);
}

static enum berth_status unknown(const char *path, const char *section, const char *name,
                                 struct berth_error *error) {
    char full[160];
    join(full, section, name);
    if (strcmp(full, "optimizer.params.max_grad_norm") == 0) {
        return error_set(
            error, BERTH_CONFIG,
            "%s: key \"%s\" is not allowed; use \"gradient_clipping\" at the top level", path,
            full);
    }
    return error_set(error, BERTH_CONFIG, "%s: unknown key \"%s\"; the nearest known one is \"%s\"",
                     path, full, nearest(section, name));
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

static enum berth_status check_type(const char *path, const struct deepspeed_key *key,
                                    const json *value, struct berth_error *error) {
    static const char *const names[] = {"true or false",           "an integer", "a number", "text",
                                        "an array of two numbers", "an object",  "a value"};
    if (has_type(value, key->type) || json_is_null_value(value) ||
        (is_auto(value) && key->type != KEY_OBJECT)) {
        return BERTH_OK;
    }
    char full[160];
    join(full, key->section, key->name);
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
        const struct deepspeed_key *key = find(section, walk.key);
        if (key == NULL) {
            return unknown(path, section, walk.key, error);
        }
        TRY(check_type(path, key, walk.value, error));
        char full[160];
        join(full, section, walk.key);
        if (key->use == KEY_PROCESSES && asks(walk.value)) {
            add_note(notes->processes, full);
        } else if (key->use == KEY_WITHOUT && asks(walk.value)) {
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
        log_note(log, "%s: no effect in a single process: %s", path, notes.processes);
    }
    if (notes.without[0] != '\0') {
        log_note(log, "%s: accepted without effect: %s", path, notes.without);
    }
    return BERTH_OK;
}
