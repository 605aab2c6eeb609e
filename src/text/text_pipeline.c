// SPDX-License-Identifier: Apache-2.0
// Reads tokenizer.json and runs its components: finds added tokens in the text as it is written,
// normalizes what is between them, finds those that are written so in the normalized text, cuts the
// rest into pieces, and has the model make tokens of each. tokenizer.c calls it for every folder
// whose tokenizer is none of BERT's.
#include "text/text_pipeline.h"

#include "core/memory.h"
#include "core/utf8.h"
#include "format/json/json.h"
#include "text/components.h"
#include "text/tokenizer.h"
#include "text/unicode.h"
#include "text/vocabulary.h"

#include <stdio.h>
#include <string.h>

struct added {
    const char *text; // of the vocabulary
    char *
        normalized; // what is looked for in the normalized text; NULL: it is found as it is written
    int32_t id;
    unsigned flags;
    int is_special;
};

// Added tokens that are found in one of the two texts: trie ids are indices of added tokens.
struct added_set {
    struct trie trie;
    unsigned char first[256]; // whether one begins with the byte
    size_t count;
};

struct text_pipeline {
    struct vocabulary vocabulary;
    struct component_list normalizers, pre_tokenizers, decoders;
    struct word_model *model;
    size_t model_words; // ids below are the model's
    struct added *added;
    size_t added_count;
    struct added_set written, normalized;
    struct text_pipeline_inputs inputs;
};

// --- the post-processor -------------------------------------------------------------------------

// The id of a token that is [text, id], or that special_tokens lists with one id; -1: none.
static int32_t pair_id(const json *pair) {
    const json *id = json_at(pair, 1);
    return json_is_integer_value(id) ? (int32_t)json_as_integer(id) : -1;
}

// One part of a template: 'A', 'B' or the id of a special token, and its type.
struct template_part {
    int64_t what, type;
};
enum { PART_A = -2, PART_B = -3, PART_NONE = -1 };

// Whether parts are CLS, A, SEP or, with one or two SEP between, CLS, A, SEP, B, SEP.
static int read_template(const json *processor, const char *key,
                         struct text_pipeline_inputs *inputs) {
    const json *list = json_member(processor, key);
    const size_t count = json_length(list);
    struct template_part parts[6];
    if (count != 3 && count != 5 && count != 6) {
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        const json *item = json_at(list, i);
        const json *special = json_member(item, "SpecialToken"),
                   *text = json_member(item, "Sequence");
        const json *whole = special != NULL ? special : text;
        const char *id = json_text(json_member(whole, "id"));
        struct template_part part = {PART_NONE, json_as_integer(json_member(whole, "type_id"))};
        if (id != NULL && special != NULL) {
            const json *ids =
                json_member(json_member(json_member(processor, "special_tokens"), id), "ids");
            part.what = json_length(ids) == 1 ? json_as_integer(json_at(ids, 0)) : PART_NONE;
        } else if (id != NULL) {
            part.what = strcmp(id, "A") == 0 ? PART_A : PART_B;
        }
        parts[i] = part;
    }
    const int64_t cls = parts[0].what, sep = parts[2].what, type = parts[count - 1].type;
    int fits = cls >= 0 && sep >= 0 && cls <= INT32_MAX && sep <= INT32_MAX &&
               parts[1].what == PART_A && parts[count - 1].what == sep;
    for (size_t i = 0; i < count; i++) {
        fits &= parts[i].type == (i < 3 ? 0 : type);
    }
    if (count > 3) {
        inputs->separators = (int)count - 4;
        inputs->one_type = type == 0;
        fits &= parts[count - 2].what == PART_B && (type == 0 || (type == 1 && count == 5)) &&
                (count == 5 || parts[3].what == sep) && cls == inputs->cls && sep == inputs->sep;
    }
    inputs->cls = (int32_t)cls;
    inputs->sep = (int32_t)sep;
    return fits;
}

static enum berth_status read_trimming(struct text_pipeline_inputs *inputs, const json *object,
                                       const struct component_place *place,
                                       struct berth_error *error) {
    int trims = 1, prefix = 1;
    TRY(component_flag(object, "trim_offsets", place, &trims, error));
    TRY(component_flag(object, "add_prefix_space", place, &prefix, error));
    if (trims) {
        inputs->trims = 1;
        inputs->keeps_first_blank = prefix;
    }
    return BERTH_OK;
}

static enum berth_status read_processor(struct text_pipeline_inputs *inputs, const json *object,
                                        const struct component_place *place,
                                        struct berth_error *error) {
    const char *type = json_text(json_member(object, "type"));
    const int is_roberta = type != NULL && strcmp(type, "RobertaProcessing") == 0;
    if (object == NULL || json_is_null_value(object)) {
        return BERTH_OK;
    }
    if (type != NULL && strcmp(type, "Sequence") == 0) {
        const json *list = json_member(object, "processors");
        for (size_t i = 0; i < json_length(list); i++) {
            struct component_place inner = {.file = place->file};
            snprintf(inner.key, sizeof inner.key, "%.60s.processors[%zu]", place->key, i);
            TRY(read_processor(inputs, json_at(list, i), &inner, error));
        }
        return BERTH_OK;
    }
    if (type != NULL && strcmp(type, "ByteLevel") == 0) {
        return read_trimming(inputs, object, place, error);
    }
    if (is_roberta || (type != NULL && strcmp(type, "BertProcessing") == 0)) {
        inputs->cls = pair_id(json_member(object, "cls"));
        inputs->sep = pair_id(json_member(object, "sep"));
        inputs->separators = is_roberta ? 2 : 1;
        inputs->one_type = is_roberta;
        return is_roberta ? read_trimming(inputs, object, place, error) : BERTH_OK;
    }
    if (type != NULL && strcmp(type, "TemplateProcessing") == 0) {
        return read_template(object, "single", inputs) && read_template(object, "pair", inputs)
                   ? BERTH_OK
                   : component_refuse(place, "pair",
                                      "the parts CLS A SEP for a text, and CLS A SEP B SEP or CLS "
                                      "A SEP SEP B SEP for a pair, with one type for each text",
                                      "others", error);
    }
    return component_refuse(place, "type",
                            "BertProcessing, ByteLevel, RobertaProcessing, TemplateProcessing or "
                            "Sequence",
                            type, error);
}

// --- added tokens -------------------------------------------------------------------------------

static enum berth_status read_added(struct text_pipeline *pipeline, const json *list,
                                    const struct component_place *place, struct word_list *words,
                                    struct berth_error *error) {
    static const struct {
        const char *key;
        unsigned flag;
    } keys[] = {{"normalized", ADDED_NORMALIZED},
                {"single_word", ADDED_SINGLE_WORD},
                {"lstrip", ADDED_LSTRIP},
                {"rstrip", ADDED_RSTRIP}};
    pipeline->added = memory_array_zeroed(json_length(list) + 1, sizeof *pipeline->added);
    if (pipeline->added == NULL) {
        return error_no_memory(error, json_length(list) * sizeof *pipeline->added, place->file);
    }
    for (size_t i = 0; i < json_length(list); i++) {
        const json *token = json_at(list, i), *id = json_member(token, "id");
        const char *text = json_text(json_member(token, "content"));
        struct added *added = &pipeline->added[pipeline->added_count];
        if (text == NULL || text[0] == '\0') {
            return error_set(error, BERTH_BAD_DATA,
                             "%s: key \"added_tokens\": entry %zu: expected a \"content\"",
                             place->file, i);
        }
        TRY(word_model_add_word(words, text, json_is_integer_value(id) ? json_as_integer(id) : -1,
                                place, error));
        added->id = (int32_t)json_as_integer(id);
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
            int is_set = 0;
            TRY(component_flag(token, keys[k].key, place, &is_set, error));
            added->flags |= is_set ? keys[k].flag : 0;
        }
        TRY(component_flag(token, "special", place, &added->is_special, error));
        pipeline->added_count++;
    }
    return BERTH_OK;
}

static void set_original(struct text_room *room, const char *text, size_t length) {
    room->original = text;
    room->original_length = length;
    room->is_valid = utf8_is_valid(text, length);
    room->byte = room->character = 0;
}

// Makes bytes [begin, end) of the original the room's text; returns the number of ill-formed
// sequences.
static size_t load(struct text_room *room, size_t begin, size_t end) {
    struct room_text *text = &room->text;
    size_t ill_formed = 0;
    text->count = room->next.count = 0;
    if (room->is_valid) {
        uint32_t origin = 0;
        if (!room_reserve(room, text, end - begin)) {
            return 0;
        }
        memcpy(text->bytes, room->original + begin, end - begin);
        for (size_t i = begin; i < end; i++) {
            origin = utf8_begins(room->original[i]) ? (uint32_t)i : origin;
            text->origins[i - begin] = origin;
        }
        text->count = end - begin;
        return 0;
    }
    for (size_t at = begin; at < end;) {
        uint32_t point;
        const size_t size = utf8_decode(room->original + at, end - at, &point);
        ill_formed += point == UTF8_ILL_FORMED;
        room_put(room, point == UTF8_ILL_FORMED ? 0xFFFD : point, (uint32_t)at);
        at += size;
    }
    room_turn(room);
    return ill_formed;
}

// The tokens that are found in the text as it is written, or those found in the normalized text.
static enum berth_status build_set(struct text_pipeline *pipeline, int normalized,
                                   struct berth_error *error) {
    struct added_set *set = normalized ? &pipeline->normalized : &pipeline->written;
    struct text_room *room = memory_array_zeroed(1, sizeof *room);
    struct trie_string *strings = memory_array_zeroed(pipeline->added_count + 1, sizeof *strings);
    struct buffer bytes = {0};
    for (size_t i = 0; room != NULL && strings != NULL && i < pipeline->added_count; i++) {
        const struct added *added = &pipeline->added[i];
        if (((added->flags & ADDED_NORMALIZED) != 0) != normalized) {
            continue;
        }
        set_original(room, added->text, strlen(added->text));
        load(room, 0, room->original_length);
        if (normalized) {
            components_run(&pipeline->normalizers, room);
            pipeline->added[i].normalized =
                room->text.count > 0 ? memory_string_of(room->text.bytes, room->text.count)
                                     : memory_string("");
            room->failed |= pipeline->added[i].normalized == NULL;
        }
        if (room->text.count > 0) {
            set->first[(unsigned char)room->text.bytes[0]] = 1;
            strings[set->count++] =
                (struct trie_string){.length = room->text.count, .id = (int32_t)i};
            buffer_put(&bytes, room->text.bytes, room->text.count);
        }
    }
    size_t at = 0;
    for (size_t i = 0; i < set->count; i++) {
        strings[i].bytes = bytes.bytes + at;
        at += strings[i].length;
    }
    const int done = room != NULL && strings != NULL && !room->failed && !bytes.failed &&
                     vocabulary_build_trie(&set->trie, strings, set->count);
    text_pipeline_room_free(room);
    memory_free(strings);
    buffer_done(&bytes);
    return done ? BERTH_OK : error_no_memory(error, 0, "the added tokens");
}

static int is_word(uint32_t point) {
    return point != UTF8_ILL_FORMED &&
           (unicode_properties_of(point, UNICODE_HUGGINGFACE)->flags & UNICODE_WORD) != 0;
}

static int is_blank(uint32_t point) {
    return point != UTF8_ILL_FORMED && (unicode_component_of(point).kinds & UNICODE_BLANK) != 0;
}

static int is_beside_word(const char *bytes, size_t count, size_t begin, size_t end) {
    uint32_t before = ' ', after = ' ';
    if (begin > 0) {
        utf8_decode_before(bytes, begin, &before);
    }
    if (end < count) {
        utf8_decode(bytes + end, count - end, &after);
    }
    return is_word(before) || is_word(after);
}

// Moves the ends of a token over the white space that belongs to it.
static void take_blanks(const struct added *added, const char *bytes, size_t count, size_t from,
                        size_t *begin, size_t *end) {
    uint32_t point;
    while ((added->flags & ADDED_LSTRIP) != 0 && *begin > from) {
        const size_t size = utf8_decode_before(bytes, *begin, &point);
        if (!is_blank(point) || *begin - size < from) {
            break;
        }
        *begin -= size;
    }
    while ((added->flags & ADDED_RSTRIP) != 0 && *end < count) {
        const size_t size = utf8_decode(bytes + *end, count - *end, &point);
        if (!is_blank(point)) {
            break;
        }
        *end += size;
    }
}

// The longest token at `at`, or NULL; *end is where it ends.
static const struct added *longest_added(const struct text_pipeline *pipeline,
                                         const struct added_set *set, const char *bytes,
                                         size_t count, size_t at, size_t *end) {
    const struct added *found = NULL;
    uint32_t node = 0;
    for (size_t i = at; i < count && node != TRIE_NONE; i++) {
        node = trie_step(&set->trie, node, (unsigned char)bytes[i]);
        if (node != TRIE_NONE && set->trie.nodes[node].id >= 0) {
            found = &pipeline->added[set->trie.nodes[node].id];
            *end = i + 1;
        }
    }
    return found;
}

// Fills room->found with the added tokens of the bytes and what is between them.
static void find_added(const struct text_pipeline *pipeline, const struct added_set *set,
                       struct text_room *room, const char *bytes, size_t count,
                       int splits_special) {
    size_t kept = 0;
    room->found.count = 0;
    for (size_t at = 0; at < count && set->count > 0 && !room->failed;) {
        size_t begin = at, end = at;
        const struct added *added = set->first[(unsigned char)bytes[at]]
                                        ? longest_added(pipeline, set, bytes, count, at, &end)
                                        : NULL;
        at = added != NULL ? end : at + 1;
        if (added == NULL || (splits_special && added->is_special) ||
            ((added->flags & ADDED_SINGLE_WORD) != 0 && is_beside_word(bytes, count, begin, end))) {
            continue;
        }
        take_blanks(added, bytes, count, kept, &begin, &end);
        room_add(room, &room->found, kept, begin, -1);
        room_add(room, &room->found, begin, end, added->id);
        at = kept = end;
    }
    room_add(room, &room->found, kept, count, -1);
}

// --- opening ------------------------------------------------------------------------------------

// The component that makes texts bytes must be the last.
static enum berth_status find_byte_level(const struct component_list *list,
                                         const struct component_place *place, int *is_byte_level,
                                         struct berth_error *error) {
    *is_byte_level = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].row->name, "ByteLevel") == 0) {
            *is_byte_level = 1;
            if (i + 1 < list->count) {
                return component_refuse(place, "pretokenizers", "ByteLevel as the last one",
                                        list->items[i + 1].row->name, error);
            }
        }
    }
    return BERTH_OK;
}

static enum berth_status read_words(struct text_pipeline *pipeline, const char *file,
                                    const json *object, struct word_list *words,
                                    struct berth_error *error) {
    const struct component_place model = {file, "model"}, added = {file, "added_tokens"};
    TRY(word_model_read_words(json_member(object, "model"), &model, words, error));
    pipeline->model_words = words->count;
    TRY(read_added(pipeline, json_member(object, "added_tokens"), &added, words, error));
    TRY(vocabulary_collect(&pipeline->vocabulary, words->texts, words->count, error));
    for (size_t i = 0; i < pipeline->added_count; i++) {
        pipeline->added[i].text =
            pipeline->vocabulary.text + pipeline->vocabulary.starts[pipeline->added[i].id];
    }
    return BERTH_OK;
}

static enum berth_status read_pipeline(struct text_pipeline *pipeline, const char *file,
                                       const json *object, struct berth_error *error) {
    const struct component_place model = {file, "model"}, normalizer = {file, "normalizer"},
                                 splitter = {file, "pre_tokenizer"}, decoder = {file, "decoder"},
                                 processor = {file, "post_processor"};
    const struct component_kind normalizers = {normalizer_rows, "normalizers"},
                                pre_tokenizers = {pre_tokenizer_rows, "pretokenizers"},
                                decoders = {decoder_rows, "decoders"};
    struct word_list words = {0};
    int is_byte_level;
    pipeline->inputs = (struct text_pipeline_inputs){.cls = -1, .sep = -1, .separators = 1};
    TRY(components_read(&pipeline->normalizers, &normalizers, json_member(object, "normalizer"),
                        &normalizer, error));
    TRY(components_read(&pipeline->pre_tokenizers, &pre_tokenizers,
                        json_member(object, "pre_tokenizer"), &splitter, error));
    TRY(components_read(&pipeline->decoders, &decoders, json_member(object, "decoder"), &decoder,
                        error));
    TRY(read_processor(&pipeline->inputs, json_member(object, "post_processor"), &processor,
                       error));
    TRY(find_byte_level(&pipeline->pre_tokenizers, &splitter, &is_byte_level, error));
    enum berth_status status = read_words(pipeline, file, object, &words, error);
    memory_free(words.texts);
    TRY(status);
    TRY(word_model_open(json_member(object, "model"), &model, &pipeline->vocabulary,
                        pipeline->model_words, is_byte_level, &pipeline->model, error));
    TRY(build_set(pipeline, 0, error));
    return build_set(pipeline, 1, error);
}

enum berth_status text_pipeline_open(const char *file, const json *object,
                                     struct text_pipeline **pipeline, struct berth_error *error) {
    *pipeline = memory_array_zeroed(1, sizeof **pipeline);
    if (*pipeline == NULL) {
        return error_no_memory(error, sizeof **pipeline, "the tokenizer");
    }
    const enum berth_status status = read_pipeline(*pipeline, file, object, error);
    if (status != BERTH_OK) {
        text_pipeline_close(*pipeline);
        *pipeline = NULL;
    }
    return status;
}

void text_pipeline_close(struct text_pipeline *pipeline) {
    if (pipeline != NULL) {
        word_model_close(pipeline->model);
        components_done(&pipeline->normalizers);
        components_done(&pipeline->pre_tokenizers);
        components_done(&pipeline->decoders);
        trie_done(&pipeline->written.trie);
        trie_done(&pipeline->normalized.trie);
        vocabulary_done(&pipeline->vocabulary);
        for (size_t i = 0; i < pipeline->added_count; i++) {
            memory_free(pipeline->added[i].normalized);
        }
        memory_free(pipeline->added);
        memory_free(pipeline);
    }
}

// --- queries ------------------------------------------------------------------------------------

const struct vocabulary *text_pipeline_vocabulary(const struct text_pipeline *pipeline) {
    return &pipeline->vocabulary;
}

const struct text_pipeline_inputs *text_pipeline_inputs_of(const struct text_pipeline *pipeline) {
    return &pipeline->inputs;
}

int32_t text_pipeline_unknown(const struct text_pipeline *pipeline) {
    return word_model_unknown(pipeline->model);
}

// The added token of an id; NULL: it is a word of the model.
static const struct added *added_of(const struct text_pipeline *pipeline, int32_t id) {
    for (size_t i = 0; i < pipeline->added_count; i++) {
        if (pipeline->added[i].id == id) {
            return &pipeline->added[i];
        }
    }
    return NULL;
}

int text_pipeline_is_special(const struct text_pipeline *pipeline, int32_t id) {
    const struct added *added = added_of(pipeline, id);
    return added != NULL && added->is_special;
}

// --- encoding -----------------------------------------------------------------------------------

// Appends the room's text, the normalized form of a part of the original, to room->joined, and its
// pieces to the next ones: the whole, or the added tokens found in it.
static void join_part(const struct text_pipeline *pipeline, struct text_room *room, int32_t id,
                      int splits_special) {
    const size_t base = room->joined.count;
    if (id < 0 && pipeline->normalized.count > 0) {
        find_added(pipeline, &pipeline->normalized, room, room->text.bytes, room->text.count,
                   splits_special);
        for (size_t i = 0; i < room->found.count; i++) {
            const struct room_piece *piece = &room->found.items[i];
            room_add(room, &room->next_pieces, base + piece->begin, base + piece->end, piece->id);
        }
    } else {
        room_add(room, &room->next_pieces, base, base + room->text.count, id);
    }
    if (base == 0) {
        room_exchange(&room->joined, &room->text);
        room->text.count = 0;
    } else {
        room_append(room, &room->joined, &room->text, 0, room->text.count);
    }
}

// Makes pieces of the original text.
static void normalize(const struct text_pipeline *pipeline, struct text_room *room,
                      int splits_special) {
    find_added(pipeline, &pipeline->written, room, room->original, room->original_length,
               splits_special);
    const struct room_pieces parts = room->found;
    room->found = room->pieces; // whose memory is free until the end
    room->pieces = (struct room_pieces){.items = NULL};
    room->joined.count = room->next_pieces.count = 0;
    for (size_t i = 0; i < parts.count && !room->failed; i++) {
        const struct room_piece *part = &parts.items[i];
        room->list->ill_formed += load(room, part->begin, part->end);
        if (part->id < 0) {
            components_run(&pipeline->normalizers, room);
        }
        join_part(pipeline, room, part->id, splits_special);
    }
    room->pieces = parts;
    room_exchange(&room->text, &room->joined);
    room->next.count = 0;
    room_turn_pieces(room);
}

enum berth_status text_pipeline_encode(const struct text_pipeline *pipeline, const char *text,
                                       size_t length, int splits_special, struct token_list *list,
                                       struct berth_error *error) {
    const size_t before = list->count;
    if (list->room == NULL) {
        list->room = memory_array_zeroed(1, sizeof *list->room);
    }
    struct text_room *room = list->room;
    if (room == NULL) {
        return error_no_memory(error, sizeof *room, "the tokens of a text");
    }
    room->list = list;
    room->first_token = before;
    room->trims = pipeline->inputs.trims;
    room->keeps_first_blank = pipeline->inputs.keeps_first_blank;
    room->failed = 0;
    set_original(room, text, length);
    normalize(pipeline, room, splits_special);
    components_run(&pipeline->pre_tokenizers, room);
    for (size_t i = 0; i < room->pieces.count && !room->failed; i++) {
        const struct room_piece *piece = &room->pieces.items[i];
        room->word = (int32_t)i;
        if (piece->id >= 0) {
            room_added_token(room, piece->id, piece->begin, piece->end);
        } else {
            word_model_encode(pipeline->model, room, piece->begin, piece->end);
        }
    }
    if (room->failed) {
        list->count = before;
        return error_no_memory(error, length, "the tokens of a text");
    }
    return BERTH_OK;
}

enum berth_status text_pipeline_split(const struct text_pipeline *pipeline, const char *text,
                                      size_t length, struct token_list *list,
                                      enum berth_status (*take)(void *context, const char *bytes,
                                                                size_t count,
                                                                struct berth_error *error),
                                      void *context, struct berth_error *error) {
    if (list->room == NULL) {
        list->room = memory_array_zeroed(1, sizeof *list->room);
    }
    struct text_room *room = list->room;
    if (room == NULL) {
        return error_no_memory(error, sizeof *room, "the words of a text");
    }
    room->failed = 0;
    set_original(room, text, length);
    load(room, 0, length);
    components_run(&pipeline->normalizers, room);
    room->pieces.count = room->next_pieces.count = 0;
    room_add(room, &room->pieces, 0, room->text.count, -1);
    components_run(&pipeline->pre_tokenizers, room);
    for (size_t i = 0; i < room->pieces.count && !room->failed; i++) {
        const struct room_piece *piece = &room->pieces.items[i];
        TRY(take(context, room->text.bytes + piece->begin, piece->end - piece->begin, error));
    }
    return room->failed ? error_no_memory(error, length, "the words of a text") : BERTH_OK;
}

// --- decoding -----------------------------------------------------------------------------------

static void strings_done(struct component_strings *strings) {
    buffer_done(&strings->bytes);
    memory_free(strings->ends);
    *strings = (struct component_strings){.ends = NULL};
}

char *text_pipeline_decode(const struct text_pipeline *pipeline, const int32_t *ids, size_t count,
                           int skips_special) {
    struct component_strings tokens = {.ends = NULL};
    const struct vocabulary *vocabulary = &pipeline->vocabulary;
    for (size_t i = 0; i < count; i++) {
        if (ids[i] >= 0 && (size_t)ids[i] < vocabulary->count &&
            (!skips_special || !text_pipeline_is_special(pipeline, ids[i]))) {
            const struct added *added = added_of(pipeline, ids[i]);
            const char *piece = added != NULL && added->normalized != NULL
                                    ? added->normalized
                                    : vocabulary->text + vocabulary->starts[ids[i]];
            strings_add(&tokens, piece, strlen(piece));
        }
    }
    for (size_t i = 0; i < pipeline->decoders.count && tokens.count > 0 && !tokens.failed; i++) {
        const struct component *component = &pipeline->decoders.items[i];
        struct component_strings decoded = {.ends = NULL};
        component->row->decode(component, &tokens, &decoded);
        strings_done(&tokens);
        tokens = decoded;
    }
    struct buffer text = {0};
    for (size_t i = 0; i < tokens.count && !tokens.failed; i++) {
        const size_t begin = strings_begin(&tokens, i);
        if (i > 0 && pipeline->decoders.count == 0) {
            buffer_put_byte(&text, ' ');
        }
        buffer_put(&text, tokens.bytes.bytes + begin, tokens.ends[i] - begin);
    }
    buffer_put_byte(&text, '\0');
    const int failed = text.failed || tokens.failed;
    strings_done(&tokens);
    if (failed) {
        buffer_done(&text);
    }
    return text.bytes;
}
