// SPDX-License-Identifier: Apache-2.0
// Command lines of the original programs that make data for pre-training: bertPrep's actions on a
// data set in its working folder, and create_pretraining_data's single file.
#include "cli.h"
#include "core/file.h"
#include "core/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORKING_DIR "BERT_PREP_WORKING_DIR"
#define DUMP_URL "https://dumps.wikimedia.org/enwiki/latest/enwiki-latest-pages-articles.xml.bz2"

// --- bertPrep -----------------------------------------------------------------------------------

static const struct action {
    const char *name, *stage; // stage NULL: nothing to compute
} actions[] = {{"download", NULL},
               {"text_formatting", "text"},
               {"sharding", "shards"},
               {"create_hdf5_files", "hdf5"}};

// `fetched`: what `berth fetch` calls one that is no text to prepare.
static const struct dataset {
    const char *name;
    int wiki, books;
    const char *fetched;
} datasets[] = {
    {"wikicorpus_en", 1, 0, NULL},
    {"bookscorpus", 0, 1, NULL},
    {"books_wiki_en_corpus", 1, 1, NULL},
    {"google_pretrained_weights", 0, 0, "google-bert/bert-large-uncased"},
    {"squad", 0, 0, "squad"},
};

static enum berth_status find_action(const char *name, const struct action **action,
                                     struct berth_error *error) {
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        if (strcmp(actions[i].name, name) == 0) {
            *action = &actions[i];
            return BERTH_OK;
        }
    }
    return error_set(error, BERTH_USAGE,
                     "option action: expected download, text_formatting, sharding or "
                     "create_hdf5_files, found \"%s\"",
                     name);
}

static enum berth_status find_dataset(const char *name, const struct dataset **dataset,
                                      struct berth_error *error) {
    for (size_t i = 0; i < sizeof datasets / sizeof *datasets; i++) {
        if (strcmp(datasets[i].name, name) == 0) {
            *dataset = &datasets[i];
            return BERTH_OK;
        }
    }
    return error_set(error, BERTH_USAGE,
                     "option dataset: expected wikicorpus_en, bookscorpus, books_wiki_en_corpus, "
                     "google_pretrained_weights or squad, found \"%s\"",
                     name);
}

// FOLDER/FIRST/SECOND if it is there, else NULL.
static const char *find_in(const char *folder, const char *first, const char *second) {
    char *above = path_join(folder, first);
    char *path = above != NULL ? path_join(above, second) : NULL;
    memory_free(above);
    if (path != NULL && (file_exists(path) || dir_exists(path))) {
        return cli_own(path);
    }
    memory_free(path);
    return NULL;
}

// The dump in the folder of downloads, as it is published or unpacked by bertPrep.
static const char *find_dump(const char *folder) {
    static const char *const names[] = {"wikicorpus_en.xml", "wikicorpus_en.xml.bz2",
                                        "enwiki-latest-pages-articles.xml",
                                        "enwiki-latest-pages-articles.xml.bz2"};
    const char *found = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && found == NULL; i++) {
        found = find_in(folder, "download/wikicorpus_en", names[i]);
    }
    return found;
}

static enum berth_status refuse_dataset(const struct dataset *dataset, struct berth_error *error) {
    return error_set(error, BERTH_NO_INPUT, "%s: no text to prepare; `berth fetch %s` downloads it",
                     dataset->name, dataset->fetched);
}

static enum berth_status need_dump(const char *folder, const char *dump,
                                   struct berth_error *error) {
    return dump != NULL ? BERTH_OK
                        : error_set(error, BERTH_NO_INPUT,
                                    "%s/download/wikicorpus_en: expected a dump, wikicorpus_en.xml "
                                    "or enwiki-latest-pages-articles.xml, also with .bz2; `berth "
                                    "fetch " DUMP_URL "` downloads it; move it to that folder",
                                    folder);
}

static enum berth_status need_extracted(const char *folder, const char *extracted,
                                        struct berth_error *error) {
    if (extracted != NULL) {
        return BERTH_OK;
    }
    const char *dump = find_dump(folder);
    TRY(need_dump(folder, dump, error));
    return error_set(error, BERTH_NO_INPUT,
                     "%s/extracted/wikicorpus_en: no such folder; --action text_formatting makes "
                     "it of %s: run that first",
                     folder, dump);
}

static enum berth_status need_books(const char *folder, const char *books,
                                    struct berth_error *error) {
    return books != NULL ? BERTH_OK
                         : error_set(error, BERTH_NO_INPUT,
                                     "%s/download/bookscorpus: no such folder; the files of "
                                     "bookscorpus are no longer published: put books of your own "
                                     "there, a file each",
                                     folder);
}

// Splits a comma-separated list into call->list.
static enum berth_status split_files(struct cli_call *call, const char *list,
                                     struct berth_error *error) {
    size_t count = 1;
    for (const char *at = list; *at != '\0'; at++) {
        count += *at == ',';
    }
    const char **words = cli_own(memory_array(count, sizeof *words));
    if (words == NULL) {
        return path_no_memory(error);
    }
    for (size_t i = 0; i < count; i++) {
        const size_t length = strcspn(list, ",");
        if (length == 0) {
            return error_set(error, BERTH_USAGE,
                             "option input_files: file %zu of the list has no name; separate names "
                             "with one comma",
                             i + 1);
        }
        words[i] = cli_own(memory_string_of(list, length));
        if (words[i] == NULL) {
            return path_no_memory(error);
        }
        list += length + (list[length] == ',');
    }
    call->list = words;
    call->list_count = count;
    return BERTH_OK;
}

// Makes the file the only one of call->list.
static enum berth_status list_file(struct cli_call *call, const char *path,
                                   struct berth_error *error) {
    const char **words = cli_own(memory_array(1, sizeof *words));
    if (words == NULL) {
        return path_no_memory(error);
    }
    words[0] = path;
    call->list = words;
    call->list_count = 1;
    return BERTH_OK;
}

// The articles: the dump for the stage text, else what that or bertPrep has made of it.
static enum berth_status find_articles(struct cli_call *call, const char *stage,
                                       struct berth_prepare_input *input,
                                       struct berth_error *error) {
    const char *folder = call->config.output_dir;
    const char *formatted =
        find_in(folder, "formatted_one_article_per_line", "wikicorpus_en_one_article_per_line.txt");
    if (formatted != NULL) {
        return list_file(call, formatted, error);
    }
    if (strcmp(stage, "text") == 0) {
        input->wikipedia = find_dump(folder);
        return need_dump(folder, input->wikipedia, error);
    }
    input->extracted = find_in(folder, "extracted", "wikicorpus_en");
    return strcmp(stage, "shards") == 0 ? need_extracted(folder, input->extracted, error)
                                        : BERTH_OK;
}

// Finds the text of an action: the files named, or what earlier actions have left.
static enum berth_status find_text(struct cli_call *call, const char *stage,
                                   const struct dataset *dataset, struct berth_prepare_input *input,
                                   struct berth_error *error) {
    const char *folder = call->config.output_dir, *files = cli_value(call, "input_files");
    if (files != NULL) {
        TRY(split_files(call, files, error));
    } else if (dataset->wiki) {
        TRY(find_articles(call, stage, input, error));
    }
    if (dataset->books && files == NULL) {
        input->books = find_in(folder, "download", "bookscorpus");
        // The stage text has nothing to do with them, and the stage hdf5 reads shards.
        TRY(strcmp(stage, "shards") == 0 || (strcmp(stage, "text") == 0 && !dataset->wiki)
                ? need_books(folder, input->books, error)
                : BERTH_OK);
    }
    input->texts = call->list;
    input->text_count = call->list_count;
    return BERTH_OK;
}

static enum berth_status settle_action(struct cli_call *call, struct berth_error *error) {
    const char *folder = getenv(WORKING_DIR);
    const struct action *action = NULL;
    const struct dataset *dataset = NULL;
    TRY(find_action(cli_value(call, "action"), &action, error));
    TRY(find_dataset(cli_value(call, "dataset"), &dataset, error));
    if (folder != NULL && folder[0] != '\0') {
        TRY(cli_set_default(call, "output_dir", folder, error));
    }
    if (action->stage == NULL) { // a download, of which only the advice is printed
        return cli_set_default(call, "output_dir", ".", error);
    }
    // The program's own default, which is the second phase's.
    TRY(strcmp(action->stage, "hdf5") == 0 ? cli_set_default(call, "max_seq_length", "512", error)
                                           : BERTH_OK);
    return cli_set_default(call, "stages", action->stage, error);
}

// --- create_pretraining_data ---------------------------------------------------------------------

// It makes one file from one text, without other inputs or stages.
static enum berth_status settle_file(struct cli_call *call, struct berth_error *error) {
    static const char *const others[] = {"wikipedia", "extracted",   "text",
                                         "books",     "input_files", "action"};
    static const char *const unused[] = {
        "output_dir", "stages", "pack", "shards", "test_shards", "fraction_test_set", "file_size"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (cli_is_given(call, others[i])) {
            return error_set(error, BERTH_USAGE,
                             "option %s: output_file gets the instances of input_file and of no "
                             "other input; leave one of the two out",
                             others[i]);
        }
    }
    for (size_t i = 0; i < sizeof unused / sizeof *unused; i++) {
        if (cli_is_given(call, unused[i])) {
            cli_note(call, "--%s has no effect together with --output_file", unused[i]);
        }
    }
    TRY(cli_set_default(call, "dupe_factor", "10", error)); // the program's own default
    return cli_set_default(call, "output_dir", ".", error); // the verb needs one
}

// --- both programs ------------------------------------------------------------------------------

enum berth_status cli_bert_prep_settle(struct cli_call *call, struct berth_error *error) {
    if (cli_is_given(call, "action") != cli_is_given(call, "dataset")) {
        return error_set(error, BERTH_USAGE, "options action and dataset belong together");
    }
    if (cli_is_given(call, "input_file") != cli_is_given(call, "output_file")) {
        return error_set(error, BERTH_USAGE, "options input_file and output_file belong together");
    }
    if (cli_is_given(call, "output_file")) {
        return settle_file(call, error);
    }
    if (cli_is_given(call, "action")) {
        return settle_action(call, error);
    }
    return BERTH_OK;
}

// Only `berth fetch` downloads: says how, unless the data is there.
static enum berth_status check_download(const struct cli_call *call, const struct dataset *dataset,
                                        struct berth_error *error) {
    const char *folder = call->config.output_dir;
    if (dataset->fetched != NULL) {
        return refuse_dataset(dataset, error);
    }
    if (dataset->wiki) {
        TRY(need_dump(folder, find_dump(folder), error));
    }
    if (dataset->books) {
        TRY(need_books(folder, find_in(folder, "download", "bookscorpus"), error));
    }
    cli_note(call, "%s: already in %s/download", dataset->name, folder);
    return BERTH_OK;
}

enum berth_status cli_bert_prep_input(struct cli_call *call, struct berth_prepare_input *input,
                                      int *is_done, struct berth_error *error) {
    const struct action *action = NULL;
    const struct dataset *dataset = NULL;
    *is_done = 0;
    input->sentences = cli_value(call, "input_file");
    input->output_file = cli_value(call, "output_file");
    if (!cli_is_given(call, "action")) {
        return BERTH_OK;
    }
    TRY(find_action(cli_value(call, "action"), &action, error));
    TRY(find_dataset(cli_value(call, "dataset"), &dataset, error));
    input->name = dataset->name;
    *is_done = action->stage == NULL;
    if (*is_done) {
        return check_download(call, dataset, error);
    }
    return dataset->fetched != NULL ? refuse_dataset(dataset, error)
                                    : find_text(call, action->stage, dataset, input, error);
}
