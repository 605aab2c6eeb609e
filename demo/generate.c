// SPDX-License-Identifier: Apache-2.0
// Generates the demo's data: a small question-answering set in SQuAD's format from a seed, and its
// vocabulary. Sentences, names and facts are our own, combined at random.
//
//   generate FOLDER [SEED]
//
// writes FOLDER/train.json, dev.json (held out: no context is in train.json), dev_blank.json
// (dev.json with blank questions, to show that the model reads the question) and vocab.txt. Each
// context is a short journey that names CANDIDATES cities, animals or things, of two of these
// types. A question asks for the one city in a country, the one animal with feathers, the one thing
// made of glass; the others of its type are distractors.
//
// Leaves out the model. Text is plain ASCII without quotes, so JSON needs no escapes.
#include "core/rng.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CANDIDATES = 4, // of each type in a context
    TYPES_PER_CONTEXT = 2,
    SENTENCES = CANDIDATES * TYPES_PER_CONTEXT,
    QUESTIONS_PER_CONTEXT = 3,
    TRAIN_CONTEXTS = 8000,
    DEV_CONTEXTS = 200,
    GROUPS = 7,
    MEMBERS = 4,
    WORDINGS = 3,
    TYPES = 3
};
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct group {
    const char *key; // the property that the question names
    const char *members[MEMBERS];
};

// %N the traveller, %A the answer, %K the key of its group. There are several wordings of each, so
// that neither the position of a word nor its neighbours reveal the answer.
struct type {
    const char *statements[WORDINGS];
    const char *questions[WORDINGS];
    struct group groups[GROUPS];
};

static const struct type types[TYPES] = {
    {{"%N spent a week in %A.", "The road led %N to %A.", "A friend of %N worked in %A."},
     {"Which city in %K is named?", "Which of the cities lies in %K?",
      "What place in %K does the text tell of?"},
     {{"Norway", {"Oslo", "Bergen", "Trondheim", "Stavanger"}},
      {"Italy", {"Turin", "Florence", "Naples", "Verona"}},
      {"Spain", {"Seville", "Cadiz", "Toledo", "Girona"}},
      {"Germany", {"Hamburg", "Dresden", "Erfurt", "Bremen"}},
      {"France", {"Nantes", "Lyon", "Dijon", "Rouen"}},
      {"Poland", {"Warsaw", "Lublin", "Gdansk", "Torun"}},
      {"Greece", {"Athens", "Patras", "Volos", "Corfu"}}}},
    {{"%N saw the %A.", "There the %A ran from %N.", "In the morning %N drew the %A."},
     {"Which animal with %K was there?", "Which of the animals has %K?",
      "What animal with %K did %N meet?"},
     {{"feathers", {"owl", "heron", "raven", "finch"}},
      {"fins", {"trout", "salmon", "carp", "pike"}},
      {"fur", {"otter", "beaver", "marten", "badger"}},
      {"hooves", {"horse", "goat", "deer", "donkey"}},
      {"shells", {"snail", "tortoise", "mussel", "oyster"}},
      {"stings", {"wasp", "bee", "hornet", "scorpion"}},
      {"scales", {"viper", "lizard", "python", "gecko"}}}},
    {{"%N bought the %A.", "Somebody gave the %A to %N.", "The %A was left behind by %N."},
     {"Which thing made of %K is there?", "Which of the things is made of %K?",
      "What did %N have that was made of %K?"},
     {{"wood", {"table", "chair", "ladder", "barrel"}},
      {"glass", {"bottle", "mirror", "lens", "vase"}},
      {"iron", {"anvil", "hammer", "nail", "chain"}},
      {"wool", {"scarf", "blanket", "sweater", "mitten"}},
      {"leather", {"saddle", "boot", "belt", "purse"}},
      {"paper", {"book", "map", "letter", "poster"}},
      {"clay", {"brick", "jug", "tile", "pot"}}}}};

static const char *const travellers[] = {
    "Ada",   "Bruno", "Clara", "David", "Elena", "Felix", "Greta", "Hugo",  "Irene", "Jonas",
    "Katja", "Leon",  "Marta", "Nils",  "Olga",  "Pavel", "Rosa",  "Simon", "Tessa", "Viktor"};

struct stream {
    uint64_t seed;
    uint32_t number;
    uint64_t index;
};

static uint32_t below(struct stream *stream, uint32_t bound) {
    return rng_below(stream->seed, stream->number, &stream->index, bound);
}

// Draws `count` distinct numbers below `bound`, in random order.
static void choose(struct stream *stream, uint32_t bound, int count, uint32_t *chosen) {
    for (int i = 0; i < count; i++) {
        int known;
        do {
            chosen[i] = below(stream, bound);
            known = 0;
            for (int j = 0; j < i; j++) {
                known |= chosen[j] == chosen[i];
            }
        } while (known);
    }
}

struct fact {
    const struct type *type;
    const struct group *group;
    const char *answer;
    size_t start; // position of the answer in the context
};

struct context {
    const char *traveller;
    struct fact facts[SENTENCES];
    char text[1024];
};

struct words {
    const char *name, *answer, *key;
};

// Appends `pattern` with its words filled in; returns where the answer begins.
static size_t append_filled(char *text, size_t size, const char *pattern,
                            const struct words *words) {
    size_t answer_start = 0;
    for (const char *at = pattern; *at != '\0'; at++) {
        size_t used = strlen(text);
        if (*at != '%') {
            snprintf(text + used, size - used, "%c", *at);
            continue;
        }
        at++;
        const char *word = *at == 'N' ? words->name : *at == 'A' ? words->answer : words->key;
        if (*at == 'A') {
            answer_start = used;
        }
        snprintf(text + used, size - used, "%s", word);
    }
    return answer_start;
}

static void choose_facts(struct stream *stream, struct fact *facts) {
    uint32_t chosen_types[TYPES_PER_CONTEXT], order[SENTENCES];
    choose(stream, TYPES, TYPES_PER_CONTEXT, chosen_types);
    choose(stream, SENTENCES, SENTENCES, order);
    for (int t = 0; t < TYPES_PER_CONTEXT; t++) {
        const struct type *type = &types[chosen_types[t]];
        uint32_t groups[CANDIDATES];
        choose(stream, GROUPS, CANDIDATES, groups);
        for (int c = 0; c < CANDIDATES; c++) {
            const struct group *group = &type->groups[groups[c]];
            facts[order[t * CANDIDATES + c]] = (struct fact){
                .type = type, .group = group, .answer = group->members[below(stream, MEMBERS)]};
        }
    }
}

static void make_context(struct stream *stream, struct context *context) {
    context->traveller = travellers[below(stream, COUNT(travellers))];
    choose_facts(stream, context->facts);
    context->text[0] = '\0';
    for (int i = 0; i < SENTENCES; i++) {
        struct fact *fact = &context->facts[i];
        struct words words = {context->traveller, fact->answer, fact->group->key};
        if (i > 0) {
            strcat(context->text, " ");
        }
        fact->start = append_filled(context->text, sizeof context->text,
                                    fact->type->statements[below(stream, WORDINGS)], &words);
    }
}

static void write_question(FILE *file, struct stream *stream, const struct context *context,
                           const struct fact *fact, int id, int blank) {
    char question[128] = "";
    struct words words = {context->traveller, fact->answer, fact->group->key};
    append_filled(question, sizeof question, fact->type->questions[below(stream, WORDINGS)],
                  &words);
    fprintf(file,
            "{\"id\":\"demo-%d\",\"question\":\"%s\",\"answers\":[{\"text\":\"%s\","
            "\"answer_start\":%zu}]}",
            id, blank ? "?" : question, fact->answer, fact->start);
}

// FNV-1a; contexts with equal hashes count as equal, which only makes "held out" stricter.
static uint64_t text_hash(const char *text) {
    uint64_t hash = 14695981039346656037u;
    for (; *text != '\0'; text++) {
        hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    }
    return hash;
}

static uint64_t train_hashes[TRAIN_CONTEXTS];

static int was_trained_on(const char *text) {
    uint64_t hash = text_hash(text);
    for (int i = 0; i < TRAIN_CONTEXTS; i++) {
        if (train_hashes[i] == hash) {
            return 1;
        }
    }
    return 0;
}

struct part {
    const char *name;
    uint32_t stream;
    int contexts;
    int held_out;
    int blank;
};

static void write_contexts(FILE *file, const struct part *part, uint64_t seed) {
    struct stream stream = {.seed = seed, .number = part->stream};
    struct context context;
    for (int i = 0; i < part->contexts; i++) {
        do {
            make_context(&stream, &context);
        } while (part->held_out && was_trained_on(context.text));
        if (!part->held_out) {
            train_hashes[i] = text_hash(context.text);
        }
        uint32_t asked[QUESTIONS_PER_CONTEXT];
        choose(&stream, SENTENCES, QUESTIONS_PER_CONTEXT, asked);
        fprintf(file, "%s\n{\"context\":\"%s\",\"qas\":[", i > 0 ? "," : "", context.text);
        for (int q = 0; q < QUESTIONS_PER_CONTEXT; q++) {
            fputs(q > 0 ? "," : "", file);
            write_question(file, &stream, &context, &context.facts[asked[q]],
                           i * QUESTIONS_PER_CONTEXT + q, part->blank);
        }
        fputs("]}", file);
    }
}

static FILE *create(const char *folder, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        fprintf(stderr, "generate: cannot create %s: %s\n", path, strerror(errno));
    }
    return file;
}

static int finish(FILE *file, const char *name) {
    int failed = ferror(file);
    failed |= fclose(file) != 0;
    if (failed) {
        fprintf(stderr, "generate: cannot write %s\n", name);
    }
    return !failed;
}

static int write_part(const char *folder, const struct part *part, uint64_t seed) {
    FILE *file = create(folder, part->name);
    if (file == NULL) {
        return 0;
    }
    fputs("{\"version\":\"1.1\",\"data\":[{\"title\":\"Journeys\",\"paragraphs\":[", file);
    write_contexts(file, part, seed);
    fputs("\n]}]}\n", file);
    return finish(file, part->name);
}

// The vocabulary as a set of words in the order of their first use.
struct vocabulary {
    char words[512][16];
    int count;
};

static void vocabulary_add(struct vocabulary *vocabulary, const char *word, size_t length) {
    char lower[16] = "";
    for (size_t i = 0; i < length && i + 1 < sizeof lower; i++) {
        lower[i] = (char)(word[i] >= 'A' && word[i] <= 'Z' ? word[i] - 'A' + 'a' : word[i]);
    }
    for (int i = 0; i < vocabulary->count; i++) {
        if (strcmp(vocabulary->words[i], lower) == 0) {
            return;
        }
    }
    if (vocabulary->count < (int)COUNT(vocabulary->words)) {
        strcpy(vocabulary->words[vocabulary->count++], lower);
    }
}

// The letters-only words of a pattern; %N, %A and %K are skipped.
static void vocabulary_add_pattern(struct vocabulary *vocabulary, const char *pattern) {
    while (*pattern != '\0') {
        size_t skipped = *pattern == '%' ? 2 : strspn(pattern, " .?,");
        pattern += skipped;
        size_t length = strcspn(pattern, " .?,%");
        if (length > 0) {
            vocabulary_add(vocabulary, pattern, length);
        }
        pattern += length;
    }
}

static void vocabulary_add_type(struct vocabulary *vocabulary, const struct type *type) {
    for (int w = 0; w < WORDINGS; w++) {
        vocabulary_add_pattern(vocabulary, type->statements[w]);
        vocabulary_add_pattern(vocabulary, type->questions[w]);
    }
    for (int g = 0; g < GROUPS; g++) {
        vocabulary_add_pattern(vocabulary, type->groups[g].key);
        for (int m = 0; m < MEMBERS; m++) {
            vocabulary_add_pattern(vocabulary, type->groups[g].members[m]);
        }
    }
}

// Special tokens, single characters (so that any text can be tokenized), then the demo's words.
static int write_vocabulary(const char *folder) {
    static struct vocabulary vocabulary;
    for (char c = '!'; c <= '~'; c++) {
        vocabulary_add(&vocabulary, &c, 1);
    }
    for (int t = 0; t < TYPES; t++) {
        vocabulary_add_type(&vocabulary, &types[t]);
    }
    for (size_t i = 0; i < COUNT(travellers); i++) {
        vocabulary_add_pattern(&vocabulary, travellers[i]);
    }
    FILE *file = create(folder, "vocab.txt");
    if (file == NULL) {
        return 0;
    }
    fputs("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n", file);
    for (const char *c = "0123456789abcdefghijklmnopqrstuvwxyz"; *c != '\0'; c++) {
        fprintf(file, "##%c\n", *c);
    }
    for (int i = 0; i < vocabulary.count; i++) {
        fprintf(file, "%s\n", vocabulary.words[i]);
    }
    return finish(file, "vocab.txt");
}

// 1 on success.
static int parse_seed(const char *text, uint64_t *seed) {
    char *end;
    errno = 0;
    *seed = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0;
}

int main(int argument_count, char **arguments) {
    uint64_t seed = 42;
    if (argument_count < 2 || argument_count > 3 ||
        (argument_count == 3 && !parse_seed(arguments[2], &seed))) {
        fprintf(stderr, "usage: generate FOLDER [SEED]; SEED is a number from 0 to %llu\n",
                (unsigned long long)UINT64_MAX);
        return 2;
    }
    static const struct part parts[] = {{"train.json", 1, TRAIN_CONTEXTS, 0, 0},
                                        {"dev.json", 2, DEV_CONTEXTS, 1, 0},
                                        {"dev_blank.json", 2, DEV_CONTEXTS, 1, 1}};
    for (size_t i = 0; i < COUNT(parts); i++) {
        if (!write_part(arguments[1], &parts[i], seed)) {
            return 1;
        }
    }
    return write_vocabulary(arguments[1]) ? 0 : 1;
}
