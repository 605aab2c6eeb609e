// SPDX-License-Identifier: Apache-2.0
// Makes the JSON values of tokenizer.json for a vocabulary that was trained here, with the special
// tokens and the processor of RoBERTa. The job vocab calls it with the pieces of vocabulary_train.c
// or unigram_train.c and writes the file.
#include "text/vocabulary_form.h"

#include "core/memory.h"
#include "format/json/json.h"

#include <string.h>

#define MARK "\xE2\x96\x81" // U+2581, which stands for a blank

const char *const form_specials[FORM_SPECIALS] = {"<s>", "<pad>", "</s>", "<unk>", "<mask>"};
enum { FORM_CLS, FORM_PAD, FORM_SEP, FORM_UNKNOWN, FORM_MASK };

static json *plain(const char *type) {
    return JSON_OBJECT({"type", json_new_text(type)});
}

static json *list_of(json *const *items, size_t count) {
    json *list = json_new_array();
    int failed = 0;
    for (size_t i = 0; i < count; i++) {
        failed |= json_append(list, items[i]);
    }
    return json_unless_failed(list, failed);
}

static json *text_of(const struct string_index *texts, size_t number) {
    char *text =
        memory_string_of(string_index_bytes(texts, number), string_index_length(texts, number));
    json *value = text != NULL ? json_new_text(text) : NULL;
    memory_free(text);
    return value;
}

// --- components ---------------------------------------------------------------------------------

static json *normalizer_of(enum vocabulary_form form, int lower_case) {
    json *items[2];
    size_t count = 0;
    if (form == FORM_UNIGRAM) {
        items[count++] = plain("NFKC");
    }
    if (lower_case) {
        items[count++] = plain("Lowercase");
    }
    return count == 0 ? json_new_null()
                      : JSON_OBJECT({"type", json_new_text("Sequence")},
                                    {"normalizers", list_of(items, count)});
}

static json *byte_level(int adds_prefix) {
    return JSON_OBJECT({"type", json_new_text("ByteLevel")},
                       {"add_prefix_space", json_new_boolean(adds_prefix)},
                       {"trim_offsets", json_new_boolean(1)}, {"use_regex", json_new_boolean(1)});
}

static json *metaspace(void) {
    return JSON_OBJECT({"type", json_new_text("Metaspace")}, {"replacement", json_new_text(MARK)},
                       {"prepend_scheme", json_new_text("always")}, {"split", json_new_boolean(1)});
}

static json *splitter_of(enum vocabulary_form form) {
    if (form == FORM_BPE) {
        return byte_level(0);
    }
    json *items[] = {plain("WhitespaceSplit"), metaspace()};
    return JSON_OBJECT({"type", json_new_text("Sequence")}, {"pretokenizers", list_of(items, 2)});
}

static json *special_and_id(int special) {
    json *items[] = {json_new_text(form_specials[special]), json_new_integer(special)};
    return list_of(items, 2);
}

// Offsets leave out the blank that byte-level words begin with.
static json *processor_of(enum vocabulary_form form) {
    return JSON_OBJECT({"type", json_new_text("RobertaProcessing")},
                       {"sep", special_and_id(FORM_SEP)}, {"cls", special_and_id(FORM_CLS)},
                       {"trim_offsets", json_new_boolean(form == FORM_BPE)},
                       {"add_prefix_space", json_new_boolean(0)});
}

static json *specials(void) {
    json *list = json_new_array();
    int failed = 0;
    for (int i = 0; i < FORM_SPECIALS; i++) {
        failed |= json_append(
            list, JSON_OBJECT(
                      {"id", json_new_integer(i)}, {"content", json_new_text(form_specials[i])},
                      {"single_word", json_new_boolean(0)},
                      {"lstrip", json_new_boolean(i == FORM_MASK)}, {"rstrip", json_new_boolean(0)},
                      {"normalized", json_new_boolean(0)}, {"special", json_new_boolean(1)}));
    }
    return json_unless_failed(list, failed);
}

static json *form_of(enum vocabulary_form form, int lower_case, json *added, json *model) {
    return JSON_OBJECT({"version", json_new_text("1.0")}, {"truncation", json_new_null()},
                       {"padding", json_new_null()}, {"added_tokens", added},
                       {"normalizer", normalizer_of(form, lower_case)},
                       {"pre_tokenizer", splitter_of(form)}, {"post_processor", processor_of(form)},
                       {"decoder", form == FORM_BPE ? byte_level(1) : metaspace()},
                       {"model", model});
}

// --- models -------------------------------------------------------------------------------------

static json *bpe(json *vocabulary, json *merges) {
    return JSON_OBJECT(
        {"type", json_new_text("BPE")}, {"dropout", json_new_null()},
        {"unk_token", json_new_null()}, {"continuing_subword_prefix", json_new_null()},
        {"end_of_word_suffix", json_new_null()}, {"fuse_unk", json_new_boolean(0)},
        {"byte_fallback", json_new_boolean(0)}, {"ignore_merges", json_new_boolean(0)},
        {"vocab", vocabulary}, {"merges", merges});
}

static json *word_and_score(json *text, double score) {
    json *items[] = {text, json_new_real(score)};
    return list_of(items, 2);
}

static json *unigram(json *words) {
    return JSON_OBJECT({"type", json_new_text("Unigram")},
                       {"unk_id", json_new_integer(FORM_UNKNOWN)}, {"vocab", words},
                       {"byte_fallback", json_new_boolean(0)});
}

static json *scored_specials(void) {
    json *list = json_new_array();
    int failed = 0;
    for (int i = 0; i < FORM_SPECIALS; i++) {
        failed |= json_append(list, word_and_score(json_new_text(form_specials[i]), 0));
    }
    return json_unless_failed(list, failed);
}

json *form_splitter(enum vocabulary_form form, int lower_case) {
    json *model = form == FORM_BPE
                      ? bpe(JSON_OBJECT({"<s>", json_new_integer(0)}), json_new_array())
                      : unigram(scored_specials());
    return form_of(form, lower_case, json_new_array(), model);
}

json *form_of_merges(int lower_case, const struct string_index *pieces,
                     const struct vocabulary_merges *merges) {
    json *vocabulary = json_new_object(), *list = json_new_array();
    int failed = 0;
    for (size_t i = 0; i < pieces->count && !failed; i++) {
        char *text =
            memory_string_of(string_index_bytes(pieces, i), string_index_length(pieces, i));
        failed = text == NULL || json_set(vocabulary, text, json_new_integer((int64_t)i)) != 0;
        memory_free(text);
    }
    for (size_t i = 0; i < merges->count && !failed; i++) {
        json *pair[] = {text_of(pieces, (size_t)merges->items[i].left),
                        text_of(pieces, (size_t)merges->items[i].right)};
        failed = json_append(list, list_of(pair, 2)) != 0;
    }
    return form_of(FORM_BPE, lower_case, specials(),
                   bpe(json_unless_failed(vocabulary, failed), json_unless_failed(list, failed)));
}

json *form_of_scores(int lower_case, const struct unigram_pieces *pieces) {
    json *words = scored_specials();
    int failed = 0;
    for (size_t i = 0; i < pieces->texts.count && !failed; i++) {
        failed =
            json_append(words, word_and_score(text_of(&pieces->texts, i), pieces->scores[i])) != 0;
    }
    return form_of(FORM_UNIGRAM, lower_case, specials(),
                   unigram(json_unless_failed(words, failed)));
}
