// SPDX-License-Identifier: Apache-2.0
// The classes of tokenizers whose words are in such files: a row for each, with the special tokens
// of the class and the functions that make the parts of its tokenizer.json.
#include "core/base64.h"
#include "core/buffer.h"
#include "core/text_util.h"
#include "model/words_build.h"

#include <string.h>

#define MARK "\xE2\x96\x81" // U+2581, which stands for a blank

// --- parts of tokenizer.json --------------------------------------------------------------------

static json *list_of(json *const *items, size_t count) {
    json *list = json_new_array();
    int failed = 0;
    for (size_t i = 0; i < count; i++) {
        failed |= json_append(list, items[i]);
    }
    return json_unless_failed(list, failed);
}

static json *sequence(const char *key, json *const *items, size_t count) {
    return JSON_OBJECT({"type", json_new_text("Sequence")}, {key, list_of(items, count)});
}

static json *plain(const char *type) {
    return JSON_OBJECT({"type", json_new_text(type)});
}

static json *replace(const char *kind, const char *pattern, const char *content) {
    return JSON_OBJECT({"type", json_new_text("Replace")},
                       {"pattern", JSON_OBJECT({kind, json_new_text(pattern)})},
                       {"content", json_new_text(content)});
}

static json *precompiled(const struct words *words) {
    struct buffer text = {0};
    base64_put(&text, words->model.charsmap, words->model.charsmap_length);
    buffer_put_byte(&text, '\0');
    json *object = text.failed ? NULL
                               : JSON_OBJECT({"type", json_new_text("Precompiled")},
                                             {"precompiled_charsmap", json_new_text(text.bytes)});
    buffer_done(&text);
    return object;
}

static json *no_normalizer(const struct words *words) {
    (void)words;
    return json_new_null();
}

static json *map_normalizer(const struct words *words) {
    return words->model.charsmap_length > 0 ? precompiled(words) : json_new_null();
}

static json *albert_normalizer(const struct words *words) {
    json *items[6];
    size_t count = 0;
    items[count++] = replace("String", "``", "\"");
    items[count++] = replace("String", "''", "\"");
    if (!words_flag(words, "keep_accents", 0)) {
        items[count++] = plain("NFKD");
        items[count++] = plain("StripAccents");
    }
    if (words_flag(words, "do_lower_case", 1)) {
        items[count++] = plain("Lowercase");
    }
    if (words->model.charsmap_length > 0) {
        items[count++] = precompiled(words);
    }
    return sequence("normalizers", items, count);
}

static json *big_bird_normalizer(const struct words *words) {
    (void)words;
    return replace("Regex", " {2,}", MARK);
}

static int is_legacy(const struct words *words) {
    return words_flag(words, "legacy", 1);
}

// In the order of sentencepiece.
static json *general_normalizer(const struct words *words) {
    json *items[5];
    size_t count = 0;
    if (words->model.charsmap_length > 0) {
        items[count++] = precompiled(words);
    }
    if (words->model.removes_blanks) {
        items[count++] = replace("Regex", "\\A +| +\\z", "");
        items[count++] = replace("Regex", " {2,}", " ");
    }
    if (words->model.escapes_blanks) {
        items[count++] = replace("String", " ", MARK);
    }
    if (words->model.adds_prefix && is_legacy(words)) {
        items[count++] = replace("Regex", "\\A" MARK, MARK MARK);
    }
    return sequence("normalizers", items, count);
}

static json *byte_level(int adds_prefix) {
    return JSON_OBJECT({"type", json_new_text("ByteLevel")},
                       {"add_prefix_space", json_new_boolean(adds_prefix)},
                       {"trim_offsets", json_new_boolean(1)}, {"use_regex", json_new_boolean(1)});
}

static json *byte_pre_tokenizer(const struct words *words) {
    return byte_level(words_flag(words, "add_prefix_space", 0));
}

static json *byte_decoder(const struct words *words) {
    (void)words;
    return byte_level(1);
}

static json *metaspace(const char *scheme, int splits) {
    return JSON_OBJECT({"type", json_new_text("Metaspace")}, {"replacement", json_new_text(MARK)},
                       {"prepend_scheme", json_new_text(scheme)},
                       {"split", json_new_boolean(splits)});
}

static json *mark_decoder(const struct words *words) {
    return metaspace(words_flag(words, "add_prefix_space", 1) ? "always" : "never", 1);
}

static json *word_pre_tokenizer(const struct words *words) {
    json *items[] = {plain("WhitespaceSplit"), mark_decoder(words)};
    return sequence("pretokenizers", items, 2);
}

static json *general_pre_tokenizer(const struct words *words) {
    return words->model.adds_prefix ? metaspace(is_legacy(words) ? "always" : "first", 0)
                                    : json_new_null();
}

static json *general_decoder(const struct words *words) {
    json *items[4];
    size_t count = 0;
    items[count++] = replace("String", MARK, " ");
    if (words->model.byte_fallback) {
        items[count++] = plain("ByteFallback");
    }
    if (words->model.byte_fallback || words->model.adds_prefix) {
        items[count++] = plain("Fuse");
    }
    if (words->model.adds_prefix) {
        items[count++] =
            JSON_OBJECT({"type", json_new_text("Strip")}, {"content", json_new_text(" ")},
                        {"start", json_new_integer(1)}, {"stop", json_new_integer(0)});
    }
    return sequence("decoders", items, count);
}

// --- the post-processor -------------------------------------------------------------------------

static json *text_and_id(const struct words *words, int named) {
    const char *text = words_name(words, named);
    json *items[] = {json_new_text(text), json_new_integer(words_find_id(words, text))};
    return list_of(items, 2);
}

static json *roberta_processor(const struct words *words) {
    return JSON_OBJECT(
        {"type", json_new_text("RobertaProcessing")}, {"sep", text_and_id(words, NAMED_SEP)},
        {"cls", text_and_id(words, NAMED_CLS)},
        {"trim_offsets", json_new_boolean(words_flag(words, "trim_offsets", 1))},
        {"add_prefix_space", json_new_boolean(words_flag(words, "add_prefix_space", 0))});
}

static json *part(const char *kind, const char *id, int type) {
    return JSON_OBJECT(
        {kind, JSON_OBJECT({"id", json_new_text(id)}, {"type_id", json_new_integer(type)})});
}

static json *special_of(const struct words *words, const char *text) {
    json *id = json_new_integer(words_find_id(words, text)), *own = json_new_text(text);
    return JSON_OBJECT({"id", json_new_text(text)}, {"ids", list_of(&id, 1)},
                       {"tokens", list_of(&own, 1)});
}

// "CLS A SEP" and, with one or two SEP between, "CLS A SEP B SEP".
static json *template_of(const struct words *words, int separators, int type) {
    const char *cls = words_name(words, words->class->cls),
               *sep = words_name(words, words->class->sep);
    json *single[] = {part("SpecialToken", cls, 0), part("Sequence", "A", 0),
                      part("SpecialToken", sep, 0)};
    json *pair[6];
    size_t count = 0;
    pair[count++] = part("SpecialToken", cls, 0);
    pair[count++] = part("Sequence", "A", 0);
    pair[count++] = part("SpecialToken", sep, 0);
    if (separators == 2) {
        pair[count++] = part("SpecialToken", sep, 0);
    }
    pair[count++] = part("Sequence", "B", type);
    pair[count++] = part("SpecialToken", sep, type);
    const int is_one = strcmp(cls, sep) == 0;
    return JSON_OBJECT(
        {"type", json_new_text("TemplateProcessing")}, {"single", list_of(single, 3)},
        {"pair", list_of(pair, count)},
        {"special_tokens", JSON_OBJECT({cls, special_of(words, cls)},
                                       {is_one ? NULL : sep, special_of(words, sep)})});
}

static json *fairseq_processor(const struct words *words) {
    return template_of(words, 2, 0);
}

static json *bert_processor(const struct words *words) {
    return template_of(words, 1, 1);
}

static json *no_processor(const struct words *words) {
    (void)words;
    return json_new_null();
}

// --- classes ------------------------------------------------------------------------------------

#define FAIRSEQ_TOKENS                                                                             \
    { "<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>" }
static const struct words_class classes[] = {
    {.name = "RobertaTokenizer",
     .file = WORDS_FILE,
     .others = "BartTokenizer LongformerTokenizer",
     .types = "roberta roberta-prelayernorm bart bridgetower clap data2vec-text ibert lilt "
              "longformer mega mra",
     .tokens = FAIRSEQ_TOKENS,
     .read = words_read_bpe,
     .normalizer = no_normalizer,
     .pre_tokenizer = byte_pre_tokenizer,
     .decoder = byte_decoder,
     .processor = roberta_processor,
     .cls = NAMED_CLS,
     .sep = NAMED_SEP},
    {.name = "DebertaTokenizer",
     .file = WORDS_FILE,
     .others = "",
     .types = "deberta",
     .tokens = {"[CLS]", "[SEP]", "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"},
     .read = words_read_bpe,
     .normalizer = no_normalizer,
     .pre_tokenizer = byte_pre_tokenizer,
     .decoder = byte_decoder,
     .processor = fairseq_processor,
     .cls = NAMED_CLS,
     .sep = NAMED_SEP},
    {.name = "GPT2Tokenizer",
     .file = WORDS_FILE,
     .others = "",
     .types = "gpt2 gpt_neo gptj opt codegen",
     .tokens = {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>", NULL, NULL, NULL, NULL},
     .read = words_read_bpe,
     .normalizer = no_normalizer,
     .pre_tokenizer = byte_pre_tokenizer,
     .decoder = byte_decoder,
     .processor = no_processor,
     .cls = -1,
     .sep = -1,
     .takes_ends = 1},
    {.name = "XLMRobertaTokenizer",
     .file = "sentencepiece.bpe.model",
     .others = "",
     .types = "xlm-roberta xmod gte jina_embeddings_v3 metaclip_2 trocr",
     .tokens = FAIRSEQ_TOKENS,
     .read = words_read_xlm,
     .normalizer = map_normalizer,
     .pre_tokenizer = word_pre_tokenizer,
     .decoder = mark_decoder,
     .processor = fairseq_processor,
     .cls = NAMED_BEGIN,
     .sep = NAMED_END},
    {.name = "CamembertTokenizer",
     .file = "sentencepiece.bpe.model",
     .others = "",
     .types = "camembert",
     .tokens = FAIRSEQ_TOKENS,
     .mask_takes_blank = 1,
     .read = words_read_camembert,
     .normalizer = map_normalizer,
     .pre_tokenizer = word_pre_tokenizer,
     .decoder = mark_decoder,
     .processor = fairseq_processor,
     .cls = NAMED_BEGIN,
     .sep = NAMED_END},
    {.name = "AlbertTokenizer",
     .file = "spiece.model",
     .others = "",
     .types = "albert yoso",
     .tokens = {"[CLS]", "[SEP]", "<unk>", "[SEP]", "<pad>", "[CLS]", "[MASK]"},
     .read = words_read_albert,
     .normalizer = albert_normalizer,
     .pre_tokenizer = word_pre_tokenizer,
     .decoder = mark_decoder,
     .processor = bert_processor,
     .cls = NAMED_CLS,
     .sep = NAMED_SEP,
     .takes_ends = 1},
    {.name = "BigBirdTokenizer",
     .file = "spiece.model",
     .others = "",
     .types = "big_bird",
     .tokens = {"<s>", "</s>", "<unk>", "[SEP]", "<pad>", "[CLS]", "[MASK]"},
     .mask_takes_blank = 1,
     .read = words_read_big_bird,
     .normalizer = big_bird_normalizer,
     .pre_tokenizer = mark_decoder,
     .decoder = mark_decoder,
     .processor = bert_processor,
     .cls = NAMED_CLS,
     .sep = NAMED_SEP},
    {.name = "TokenizersBackend",
     .file = "tokenizer.model",
     .others = "PreTrainedTokenizerFast",
     .types = "nystromformer xlm-roberta-xl",
     .read = words_read_general,
     .normalizer = general_normalizer,
     .pre_tokenizer = general_pre_tokenizer,
     .decoder = general_decoder,
     .processor = no_processor,
     .cls = -1,
     .sep = -1,
     .takes_ends = 1},
};
#define CLASSES (sizeof classes / sizeof *classes)

const struct words_class *words_class_at(size_t number) {
    return number < CLASSES ? &classes[number] : NULL;
}

const struct words_class *words_class_find(const char *name, const char *model_type) {
    char own[64] = "";
    if (name != NULL && strlen(name) < sizeof own) {
        const size_t length = strlen(name);
        memcpy(own, name, length + 1);
        own[text_ends_with(name, "Fast") ? length - 4 : length] = '\0';
    }
    for (size_t i = 0; i < CLASSES; i++) {
        const struct words_class *class = &classes[i];
        const int found = name != NULL
                              ? strcmp(class->name, own) == 0 ||
                                    words_contain(class->others, ' ', own) ||
                                    words_contain(class->others, ' ', name)
                              : model_type != NULL && words_contain(class->types, ' ', model_type);
        if (found) {
            return class;
        }
    }
    return NULL;
}

const char *words_class_name(const struct words_class *class) {
    return class->name;
}

const char *words_class_file(const struct words_class *class) {
    return class->file;
}

int words_class_has_merges(const struct words_class *class) {
    return strcmp(class->file, WORDS_FILE) == 0;
}
