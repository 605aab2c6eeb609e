// SPDX-License-Identifier: Apache-2.0
// Fuzzes the config.json reader: an accepted config gives a parameter table of computable size,
// survives a round trip, is readable in Google's form, and does not change when its own text is
// merged into it.
#include "core/file.h"
#include "format/json/json.h"
#include "input.h"
#include "model/config.h"
#include "model/params.h"

static char folder[64];

static void remove_folder(void) {
    dir_remove(folder, NULL);
}

static void check_table(const struct bert_config *config) {
    struct param_table table;
    if (config->num_hidden_layers > 64) {
        return; // building the table would be slow
    }
    if (param_table_init(&table, config, PARAM_HEAD_SPAN, NULL) == BERTH_OK) {
        require(table.parameter_count > 0 && table.total >= table.parameter_count &&
                table.total <= INT64_MAX / 4);
        param_table_done(&table);
    }
}

static int same_shape(const struct bert_config *a, const struct bert_config *b) {
    return a->vocab_size == b->vocab_size && a->hidden_size == b->hidden_size &&
           a->num_hidden_layers == b->num_hidden_layers &&
           a->num_attention_heads == b->num_attention_heads &&
           a->intermediate_size == b->intermediate_size &&
           a->max_position_embeddings == b->max_position_embeddings &&
           a->type_vocab_size == b->type_vocab_size && a->hidden_act == b->hidden_act &&
           a->layer_norm_eps == b->layer_norm_eps && a->pad_token_id == b->pad_token_id;
}

// Written to a file, a config reads back the same.
static void check_rewrite(const struct bert_config *config) {
    struct bert_config again;
    char path[96];
    if (folder[0] == '\0') {
        fuzz_make_folder(folder, remove_folder);
    }
    snprintf(path, sizeof path, "%s/config.json", folder);
    require(bert_config_write(config, "BertModel", path, NULL) == BERTH_OK);
    require(bert_config_read(path, &again, NULL) == BERTH_OK && same_shape(config, &again));
    bert_config_done(&again);
    require(bert_config_write_google(config, path, NULL) == BERTH_OK);
    require(bert_config_read(path, &again, NULL) == BERTH_OK);
    bert_config_done(&again);
}

static void check_merge(struct bert_config *config, const char *text, size_t size) {
    const struct bert_config before = *config; // its numbers
    json *object;
    require(json_read_memory("fuzz", text, size, &object, NULL) == BERTH_OK);
    require(bert_config_merge(config, object, NULL) != BERTH_OK || same_shape(config, &before));
    json_free(object);
}

// A short input is also tried as the name of a built-in shape.
static void check_builtin(const uint8_t *data, size_t size) {
    struct bert_config config;
    char name[16] = "";
    if (size >= sizeof name) {
        return;
    }
    memcpy(name, data, size);
    if (bert_config_builtin(name, &config, NULL) == BERTH_OK) {
        check_table(&config);
        check_rewrite(&config);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    check_builtin(data, size);
    struct bert_config config;
    struct berth_error error;
    if (bert_config_read_memory("fuzz", (const char *)data, size, &config, &error) == BERTH_OK) {
        // The file of an experiment leaves the size to the vocabulary, and is not merged.
        const int is_experiment = config.vocab_size == 0;
        check_table(&config);
        config.vocab_size = is_experiment ? 1000 : config.vocab_size;
        check_rewrite(&config);
        if (!is_experiment) {
            check_merge(&config, (const char *)data, size);
        }
    }
    bert_config_done(&config);
    return 0;
}
