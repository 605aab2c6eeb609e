// SPDX-License-Identifier: Apache-2.0
// Fuzzes the readers of tagged sentences (CoNLL's columns, JSON lines), the windows of what they
// accept, and its scores as entities.
//
// Settings: bit 0 JSON lines, bit 1 the words' column given, bits 2 and 3 the tags' column given or
// said to be absent, bit 4 tags optional, bit 5 one sentence at most, bits 6 and 7 the length of a
// window.
#include "data/tagging/tagged.h"
#include "data/tagging/word_windows.h"
#include "input.h"
#include "metrics/entities.h"
#include "words.h"

enum { JSON = 1, WORD_COLUMN = 2, TAG_COLUMN = 4, NO_TAGS = 8, OPTIONAL = 16, ONE = 32 };

static struct tagged_settings settings_of(unsigned settings) {
    const int json = (settings & JSON) != 0;
    const char *tags = (settings & TAG_COLUMN) == 0 ? NULL : json ? "t" : "1";
    return (struct tagged_settings){
        .word_column = (settings & WORD_COLUMN) == 0 ? NULL
                       : json                        ? "w"
                                                     : "2",
        .tag_column = (settings & NO_TAGS) != 0 ? "0" : tags,
        .tag_optional = (settings & OPTIONAL) != 0,
        .sentences = (settings & ONE) != 0,
    };
}

static void check_sentences(const struct tagged_dataset *set) {
    require(set->word_count > 0 && set->count > 0 && set->starts[set->count] == set->word_count);
    for (size_t i = 0; i < set->count; i++) {
        require(set->starts[i] <= set->starts[i + 1]);
        require(set->lines[i] > (i == 0 ? 0 : set->lines[i - 1]));
    }
    for (size_t i = 0; i < set->word_count; i++) {
        require(set->words[i][0] != '\0');
        require(set->tags == NULL || (size_t)set->tags[i] < set->tag_count);
    }
    for (size_t i = 1; i < set->tag_count; i++) {
        require(strcmp(set->tag_names[i - 1], set->tag_names[i]) < 0);
    }
}

// In the reverse order all tags are known; without one name, the word that has it is named.
static void check_renumbering(struct tagged_dataset *set) {
    const size_t count = set->tag_count;
    const char **names = memory_array(count, sizeof *names);
    const char *first = set->tag_names[set->tags[0]];
    struct berth_error error = {0};
    require(names != NULL);
    for (size_t i = 0; i < count; i++) {
        names[i] = set->tag_names[count - 1 - i];
    }
    require(tagged_renumber(set, names, count - 1, &error) == BERTH_BAD_DATA);
    require(error.message[0] != '\0');
    require(tagged_renumber(set, names, count, &error) == BERTH_OK);
    require(strcmp(names[set->tags[0]], first) == 0);
    memory_free(names);
}

// Every word with pieces is labelled in exactly one window, with its own tag.
static void check_windows(const struct tagged_dataset *set, int64_t length) {
    struct word_window_set windows = {0};
    const struct word_window_rule rule = {.max_length = length,
                                          .stride = length / 2 - 1,
                                          .special = tokenizer_special_ids(fuzz_words())};
    unsigned char *seen = memory_array_zeroed(set->word_count, 1);
    struct berth_error error;
    require(seen != NULL &&
            word_windows_build(&windows, &rule, set, fuzz_words(), &error) == BERTH_OK);
    for (size_t i = 0; i < windows.label_count; i++) {
        const uint32_t word = windows.words[i];
        require(word < set->word_count && seen[word]++ == 0);
        require(windows.classes[i] == (set->tags != NULL ? set->tags[word] : -1));
    }
    for (size_t i = 0; i < windows.count; i++) {
        const struct word_window *window = &windows.windows[i];
        require(window->length >= 3 && window->length <= length && window->label_count > 0);
        require(window->first + (size_t)window->length <= windows.token_count);
    }
    memory_free(seen);
    word_windows_done(&windows);
}

// Tags beside themselves: all entities are right, or a scheme does not have a letter.
static void check_scores(const struct tagged_dataset *set) {
    const char *const schemes[] = {NULL, "IOB1", "IOB2", "IOE1", "IOE2", "IOBES", "BILOU"};
    const char **tags = memory_array(set->word_count, sizeof *tags);
    require(tags != NULL);
    for (size_t i = 0; i < set->word_count; i++) {
        tags[i] = set->tag_names[set->tags[i]];
    }
    const struct entity_tags both = {tags, tags, set->starts, set->count};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        struct entity_scores scores;
        struct berth_error error = {0};
        enum berth_status status = entity_scores(&both, schemes[i], &scores, &error);
        require(status == BERTH_OK || (schemes[i] != NULL && error.message[0] != '\0'));
        if (status == BERTH_OK) {
            require(scores.accuracy == 1 && scores.all.correct == scores.all.reference &&
                    scores.all.correct == scores.all.predicted);
        }
        entity_scores_done(&scores);
    }
    memory_free(tags);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    const struct tagged_settings settings = settings_of(input.settings);
    const char *path =
        fuzz_named_file(input.bytes, input.size, (input.settings & JSON) != 0 ? ".jsonl" : ".txt");
    struct tagged_dataset set;
    struct berth_error error = {0};
    fuzz_failing_begin(input.fail_at);
    enum berth_status status = tagged_read(path, &settings, &set, &error);
    fuzz_failing_end(input.fail_at, status, &error);
    if (status != BERTH_OK) {
        require(set.storage == NULL);
        return 0;
    }
    check_sentences(&set);
    check_windows(&set, 8 << (input.settings >> 6));
    if (set.tags != NULL) {
        check_scores(&set);
        check_renumbering(&set);
    }
    tagged_done(&set);
    return 0;
}
