// SPDX-License-Identifier: Apache-2.0
// The demo's data: a seeded generator of a small question-answering set in SQuAD's format, and the
// vocabulary that goes with it. Sentences, names and facts are our own, combined at random.
//
//   generate FOLDER [SEED]
//
// writes FOLDER/train.json, dev.json (held out: no context stands in train.json), dev_blank.json
// (dev.json with every question blanked out, to show that the model reads the question) and
// vocab.txt. Each context tells of PEOPLE persons; a question asks for the city, the craft or the
// year of one of them, so there are PEOPLE candidates of the type asked for.
//
// Leaves out: anything about the model; text is plain ASCII without quotes, so JSON needs no escapes.
#include "core/rng.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PEOPLE 4
#define QUESTIONS_PER_CONTEXT 3
#define TRAIN_CONTEXTS 9000
#define DEV_CONTEXTS 200
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *const first_names[] = {
    "Ada",   "Bruno", "Clara", "David", "Elena", "Felix", "Greta", "Hugo",  "Irene", "Jonas",
    "Katja", "Leon",  "Marta", "Nils",  "Olga",  "Pavel", "Rosa",  "Simon", "Tessa", "Viktor"};
static const char *const surnames[] = {
    "Abel",   "Berger", "Conti",  "Dahl",   "Eklund", "Ferrer", "Gruber", "Holm",  "Ivanov", "Jansen",
    "Keller", "Lopez",  "Moreau", "Novak",  "Olsen",  "Petrov", "Rossi",  "Silva", "Tanaka", "Weber"};
static const char *const cities[] = {
    "Athens", "Bergen",  "Cadiz", "Dresden", "Erfurt", "Florence", "Geneva", "Hamburg", "Lisbon",
    "Malmo",  "Nantes",  "Oslo",  "Porto",   "Riga",   "Seville",  "Turin",  "Utrecht", "Vienna",
    "Warsaw", "Zagreb"};
static const char *const crafts[] = {
    "bridges", "clocks", "violins", "maps",   "boats",   "lamps",  "pianos", "carpets",
    "windows", "wheels", "mirrors", "books",  "kettles", "towers", "flutes", "wagons",
    "lenses",  "bells",  "statues", "ladders"};
enum { FIRST_YEAR = 1850, YEARS = 60 };

// A fact in words: %P the person, %A the answer. Several wordings each, so that the place of a word
// does not give the answer away.
struct relation {
    const char *statements[3];
    const char *questions[3];
};
enum { CITY, CRAFT, YEAR, RELATIONS };
static const struct relation relations[RELATIONS] = {
    [CITY] = {{"%P lived in %A.", "The home of %P was %A.", "It was in %A that %P settled."},
              {"Where did %P live?", "In which city did %P settle?", "Which city was the home of %P?"}},
    [CRAFT] = {{"%P built %A.", "People bought %A from %P.", "The workshop of %P made %A."},
               {"What did %P build?", "What did people buy from %P?",
                "What did the workshop of %P make?"}},
    [YEAR] = {{"%P was born in %A.", "The birth of %P fell in %A.", "In %A came the birth of %P."},
              {"When was %P born?", "In which year was %P born?", "What year saw the birth of %P?"}}};

struct stream {
    uint64_t seed;
    uint32_t number;
    uint64_t index;
};

static uint32_t below(struct stream *stream, uint32_t bound) {
    return rng_below(stream->seed, stream->number, &stream->index, bound);
}

// `count` different numbers below `bound`.
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

struct person {
    char name[32];
    char answers[RELATIONS][16];
};

static void make_people(struct stream *stream, struct person *people) {
    uint32_t first[PEOPLE], last[PEOPLE], city[PEOPLE], craft[PEOPLE], year[PEOPLE];
    choose(stream, COUNT(first_names), PEOPLE, first);
    choose(stream, COUNT(surnames), PEOPLE, last);
    choose(stream, COUNT(cities), PEOPLE, city);
    choose(stream, COUNT(crafts), PEOPLE, craft);
    choose(stream, YEARS, PEOPLE, year);
    for (int i = 0; i < PEOPLE; i++) {
        struct person *person = &people[i];
        snprintf(person->name, sizeof person->name, "%s %s", first_names[first[i]],
                 surnames[last[i]]);
        snprintf(person->answers[CITY], sizeof person->answers[CITY], "%s", cities[city[i]]);
        snprintf(person->answers[CRAFT], sizeof person->answers[CRAFT], "%s", crafts[craft[i]]);
        snprintf(person->answers[YEAR], sizeof person->answers[YEAR], "%u", FIRST_YEAR + year[i]);
    }
}

// Appends `pattern` with %P and %A filled in; returns where the answer begins, or -1.
static long append_filled(char *text, size_t size, const char *pattern, const char *person,
                          const char *answer) {
    long answer_start = -1;
    for (const char *at = pattern; *at != '\0'; at++) {
        size_t used = strlen(text);
        if (at[0] == '%' && (at[1] == 'P' || at[1] == 'A')) {
            int is_answer = at[1] == 'A';
            if (is_answer) {
                answer_start = (long)used;
            }
            snprintf(text + used, size - used, "%s", is_answer ? answer : person);
            at++;
        } else {
            snprintf(text + used, size - used, "%c", *at);
        }
    }
    return answer_start;
}

struct context {
    struct person people[PEOPLE];
    long starts[PEOPLE][RELATIONS];
    char text[2048];
};

// Every fact of every person as a sentence, in random order.
static void make_context(struct stream *stream, struct context *context) {
    make_people(stream, context->people);
    uint32_t order[PEOPLE * RELATIONS];
    choose(stream, PEOPLE * RELATIONS, PEOPLE * RELATIONS, order);
    context->text[0] = '\0';
    for (int i = 0; i < PEOPLE * RELATIONS; i++) {
        int who = (int)order[i] / RELATIONS, what = (int)order[i] % RELATIONS;
        const struct person *person = &context->people[who];
        if (i > 0) {
            strcat(context->text, " ");
        }
        context->starts[who][what] =
            append_filled(context->text, sizeof context->text,
                          relations[what].statements[below(stream, 3)], person->name,
                          person->answers[what]);
    }
}

static void write_question(FILE *file, struct stream *stream, const struct context *context,
                           int id, int blank) {
    int who = (int)below(stream, PEOPLE), what = (int)below(stream, RELATIONS);
    char question[128] = "";
    append_filled(question, sizeof question, relations[what].questions[below(stream, 3)],
                  context->people[who].name, "");
    fprintf(file,
            "{\"id\":\"demo-%d\",\"question\":\"%s\",\"answers\":[{\"text\":\"%s\","
            "\"answer_start\":%ld}]}",
            id, blank ? "?" : question, context->people[who].answers[what],
            context->starts[who][what]);
}

struct part {
    const char *name;
    uint32_t stream;
    int contexts;
    int blank;
};

static int write_part(const char *folder, const struct part *part, uint64_t seed) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, part->name);
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        fprintf(stderr, "generate: cannot create %s: %s\n", path, strerror(errno));
        return 0;
    }
    struct stream stream = {.seed = seed, .number = part->stream};
    static struct context context;
    fputs("{\"version\":\"1.1\",\"data\":[{\"title\":\"Demo\",\"paragraphs\":[", file);
    for (int i = 0; i < part->contexts; i++) {
        make_context(&stream, &context);
        fprintf(file, "%s\n{\"context\":\"%s\",\"qas\":[", i > 0 ? "," : "", context.text);
        for (int q = 0; q < QUESTIONS_PER_CONTEXT; q++) {
            fputs(q > 0 ? "," : "", file);
            write_question(file, &stream, &context, i * QUESTIONS_PER_CONTEXT + q, part->blank);
        }
        fputs("]}", file);
    }
    fputs("\n]}]}\n", file);
    int good = !ferror(file);
    if (fclose(file) != 0 || !good) {
        fprintf(stderr, "generate: cannot write %s\n", path);
        return 0;
    }
    return 1;
}

static void write_lower(FILE *file, const char *word) {
    for (; *word != '\0'; word++) {
        fputc(*word >= 'A' && *word <= 'Z' ? *word - 'A' + 'a' : *word, file);
    }
    fputc('\n', file);
}

static void write_words(FILE *file, const char *const *words, size_t count) {
    for (size_t i = 0; i < count; i++) {
        write_lower(file, words[i]);
    }
}

// The words of the patterns, each once.
static const char *const pattern_words[] = {
    "lived", "in",  "the",  "home",  "of",    "was",    "it",   "that", "settled", "built",
    "people", "bought", "from", "workshop", "made", "born", "birth", "fell", "came",  "where",
    "did",  "live", "which", "city", "settle", "what", "build", "buy",  "make",    "when",
    "year", "saw"};

// Whole words of the demo, then single characters, so that any text can be spelled.
static int write_vocabulary(const char *folder) {
    char path[4096];
    snprintf(path, sizeof path, "%s/vocab.txt", folder);
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        fprintf(stderr, "generate: cannot create %s: %s\n", path, strerror(errno));
        return 0;
    }
    fputs("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n", file);
    for (int c = '!'; c <= '~'; c++) {
        if (c < 'A' || c > 'Z') {
            fprintf(file, "%c\n", c);
        }
    }
    for (int c = '0'; c <= 'z'; c++) {
        if (c <= '9' || c >= 'a') {
            fprintf(file, "##%c\n", c);
        }
    }
    write_words(file, pattern_words, COUNT(pattern_words));
    write_words(file, first_names, COUNT(first_names));
    write_words(file, surnames, COUNT(surnames));
    write_words(file, cities, COUNT(cities));
    write_words(file, crafts, COUNT(crafts));
    for (int i = 0; i < YEARS; i++) {
        fprintf(file, "%d\n", FIRST_YEAR + i);
    }
    return fclose(file) == 0;
}

int main(int argument_count, char **arguments) {
    if (argument_count < 2 || argument_count > 3) {
        fprintf(stderr, "usage: generate FOLDER [SEED]\n");
        return 2;
    }
    uint64_t seed = argument_count == 3 ? strtoull(arguments[2], NULL, 10) : 42;
    static const struct part parts[] = {{"train.json", 1, TRAIN_CONTEXTS, 0},
                                        {"dev.json", 2, DEV_CONTEXTS, 0},
                                        {"dev_blank.json", 2, DEV_CONTEXTS, 1}};
    for (size_t i = 0; i < COUNT(parts); i++) {
        if (!write_part(arguments[1], &parts[i], seed)) {
            return 1;
        }
    }
    return write_vocabulary(arguments[1]) ? 0 : 1;
}
