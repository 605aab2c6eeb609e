// SPDX-License-Identifier: Apache-2.0
// Counts what the texts of a stage look like, puts the counts into the manifest, and warns once if
// they do not look like what the rules expect. The instance stage counts while it reads; the job
// prepare prints the warnings at the end.
#include "data/stages/instance_texts.h"

#include "core/utf8.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

// Above these fractions a text is not what the rules of instances expect.
#define RANDOM_MAX 0.75 // of the instances
#define CUT_MAX 0.5
#define UNKNOWN_MAX 0.05 // of the tokens

struct instance_texts instance_texts_of(const struct documents *documents,
                                        const struct instances *instances) {
    return (struct instance_texts){.documents = (int64_t)documents->count,
                                   .tokens = (int64_t)documents->token_count,
                                   .unknown = (int64_t)documents->unknown,
                                   .ill_formed = (int64_t)documents->pieces.ill_formed,
                                   .cut = (int64_t)instances->counts.cut,
                                   .single = documents->count == 1};
}

static const struct {
    const char *name;
    size_t offset;
} text_counts[] = {
#define COUNT(field)                                                                               \
    { #field, offsetof(struct instance_texts, field) }
    COUNT(documents), COUNT(tokens), COUNT(unknown), COUNT(ill_formed), COUNT(cut), COUNT(single),
};
enum { TEXT_COUNTS = sizeof text_counts / sizeof *text_counts };

json *instance_texts_to_json(const struct instance_texts *texts) {
    json *object = json_new_object();
    int failed = 0;
    for (size_t i = 0; i < TEXT_COUNTS; i++) {
        const char *at = (const char *)texts + text_counts[i].offset;
        failed |= json_set(object, text_counts[i].name, json_new_integer(*(const int64_t *)at));
    }
    return json_unless_failed(object, failed);
}

void instance_texts_name(struct instance_texts *texts, const char *name) {
    snprintf(texts->single_name, sizeof texts->single_name, "%.*s",
             UTF8_SHOWN(name, sizeof texts->single_name - 1));
}

void instance_texts_add(struct instance_texts *texts, const char *name, const json *object) {
    for (size_t i = 0; i < TEXT_COUNTS; i++) {
        int64_t *count = (int64_t *)((char *)texts + text_counts[i].offset);
        *count += json_as_integer(json_member(object, text_counts[i].name));
    }
    if (json_as_integer(json_member(object, "single")) > 0) {
        instance_texts_name(texts, name);
    }
}

void instance_texts_warn(const struct instance_texts *texts,
                         const struct pretraining_statistics *statistics,
                         const struct berth_log *log) {
    const double instances = (double)statistics->instances;
    const double unknown = (double)texts->unknown / (double)texts->tokens;
    const double random = (double)statistics->random_next / instances;
    const double cut = (double)texts->cut / instances;
    if (texts->single > 0) {
        log_warning(log,
                    "files made of a single document: %" PRId64
                    ", such as %s; all their second segments are the text that follows, because "
                    "there is no other document; expected an empty line after each article",
                    texts->single, texts->single_name);
    }
    if (random > RANDOM_MAX) {
        log_warning(log,
                    "%.0f %% of the instances have a random second segment, expected about half: "
                    "most articles or lines stand alone; expected one sentence per line",
                    100 * random);
    }
    if (cut > CUT_MAX) {
        log_warning(log,
                    "%.0f %% of the instances have lost more than half of their tokens because "
                    "their lines are longer than max_seq_length; expected one sentence per line",
                    100 * cut);
    }
    if (unknown > UNKNOWN_MAX) {
        log_note(log, "%.1f %% of the tokens are [UNK]; is the vocabulary for this language?",
                 100 * unknown);
    }
    if (texts->ill_formed > 0) {
        log_note(log,
                 "dropped byte sequences that are not UTF-8, as Google's tokenizer does: %" PRId64,
                 texts->ill_formed);
    }
}
