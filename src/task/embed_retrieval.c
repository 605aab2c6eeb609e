// SPDX-License-Identifier: Apache-2.0
// Scores embeddings by retrieval while a model is trained or by `berth evaluate embed`: lists the
// texts of a set with their prompts, has a device find the documents nearest to each query
// (model/nearest.h), and adds up their metrics. The vectors come from embed.c, what a ranking is
// worth from metrics/retrieval_metrics.h.
#include "task/embed_retrieval.h"

#include "core/file.h"
#include "core/memory.h"
#include "core/utf8.h"
#include "metrics/retrieval_metrics.h"
#include "model/nearest.h"
#include "model/sentence.h"
#include "train/machine/machine.h"

#include <math.h>
#include <string.h>

// --- settings -----------------------------------------------------------------------------------

int embed_retrieval_is_named(const struct settings *config) {
    return config->task.queries_file != NULL || config->task.corpus_file != NULL ||
           config->task.relevant_file != NULL;
}

enum berth_status embed_retrieval_settle(const struct settings *config, enum task_use use,
                                         struct berth_error *error) {
    const struct task_settings *task = &config->task;
    static const char others[] = ": queries_file, corpus_file and relevant_file are one set";
    const char *table = task->validation_file != NULL                     ? "validation_file"
                        : use != TASK_TRAIN && task->predict_file != NULL ? "predict_file"
                                                                          : NULL;
    TRY(task_need(task->queries_file, "queries_file", others, error));
    TRY(task_need(task->corpus_file, "corpus_file", others, error));
    TRY(task_need(task->relevant_file, "relevant_file", others, error));
    if (table != NULL) {
        return error_set(error, BERTH_USAGE,
                         "both %s and queries_file name what to evaluate on; expected one of them",
                         table);
    }
    return use == TASK_TRAIN ||
                   (config->features.text_column == NULL && config->features.label_column == NULL)
               ? BERTH_OK
               : error_set(error, BERTH_USAGE,
                           "text_column and label_column are of a table; the columns of queries, "
                           "corpus and judgements have names of their own");
}

enum berth_status embed_retrieval_require(const struct settings *config,
                                          struct berth_error *error) {
    TRY(file_require(config->task.queries_file, "a table of queries", error));
    TRY(file_require(config->task.corpus_file, "a table of documents", error));
    return file_require(config->task.relevant_file, "judgements of documents", error);
}

// --- reading ------------------------------------------------------------------------------------

static enum berth_status list_texts(const struct retrieval_set *set, const char *query_prompt,
                                    const char *document_prompt, struct pair_dataset *texts,
                                    struct berth_error *error) {
    const size_t count = set->query_count + set->document_count;
    texts->examples = memory_array(count, sizeof *texts->examples);
    if (texts->examples == NULL) {
        return error_no_memory(error, count * sizeof *texts->examples, "the texts");
    }
    for (; texts->count < count; texts->count++) {
        const int is_query = texts->count < set->query_count;
        texts->examples[texts->count] =
            (struct pair_example){.text = set->texts[texts->count],
                                  .prompt = is_query ? query_prompt : document_prompt,
                                  .label = -1,
                                  .value = NAN,
                                  .label_count = -1};
    }
    return BERTH_OK;
}

static enum berth_status open_device(struct embed_retrieval *retrieval,
                                     const struct task_open *args, struct berth_error *error) {
    const struct machine_settings *machine = &args->config->machine;
    const struct device_options options = {.threads = machine_threads(machine),
                                           .instructions = machine->instructions};
    return device_cpu_open(&options, &retrieval->device, error);
}

// The prompt that was asked for, else the model's; NULL: none.
static const char *choose_prompt(const char *asked, const char *own) {
    return asked == NULL ? own : asked[0] != '\0' ? asked : NULL;
}

static void note_prompt(const char *of, const char *prompt, const struct berth_log *log) {
    if (prompt != NULL) {
        log_note(log, "%s begin with the prompt \"%.*s\"", of, UTF8_SHOWN(prompt, 40));
    }
}

enum berth_status embed_retrieval_read(struct embed_retrieval *retrieval,
                                       const struct task_open *args, struct pair_dataset *texts,
                                       struct berth_error *error) {
    const struct task_settings *task = &args->config->task;
    const struct sentence *sentence = &args->files->sentence;
    const struct retrieval_files files = {task->queries_file, task->corpus_file,
                                          task->relevant_file};
    const char *query = choose_prompt(task->query_prompt, sentence_query_prompt(sentence));
    const char *document = choose_prompt(task->corpus_prompt, sentence_document_prompt(sentence));
    struct retrieval_set *set = &retrieval->set;
    if (sentence->skips_prompt && (query != NULL || document != NULL)) {
        return error_set(error, BERTH_CONFIG,
                         "%s: Berth does not evaluate a model with prompts and \"include_prompt\" "
                         "false; `berth embed` makes its vectors",
                         args->config->model.model_name_or_path);
    }
    TRY(retrieval_set_read(&files, (size_t)args->config->features.max_eval_samples, set, error));
    (set->left_out > 0 ? log_note : log_detail)(
        args->log,
        "%s: %zu queries (%zu without a judgement are left out), %zu documents, %zu "
        "judgements, of which %zu are relevant",
        task->queries_file, set->query_count, set->left_out, set->document_count,
        set->starts[set->query_count], set->relevant_count);
    note_prompt("queries", query, args->log);
    note_prompt("documents", document, args->log);
    texts->name = task->queries_file;
    TRY(list_texts(set, query, document, texts, error));
    return open_device(retrieval, args, error);
}

enum berth_status embed_retrieval_of_pairs(struct embed_retrieval *retrieval,
                                           const struct task_open *args,
                                           const struct text_examples *pairs, const char *prompt,
                                           struct pair_dataset *texts, struct berth_error *error) {
    TRY(retrieval_set_of_pairs(pairs, &retrieval->set, error));
    TRY(list_texts(&retrieval->set, prompt, prompt, texts, error));
    return open_device(retrieval, args, error);
}

void embed_retrieval_done(struct embed_retrieval *retrieval) {
    retrieval_set_done(&retrieval->set);
    if (retrieval->device != NULL) {
        retrieval->device->close(retrieval->device);
    }
}

// --- scores -------------------------------------------------------------------------------------

static size_t depth_of(const struct retrieval_set *set) {
    return set->document_count < RETRIEVAL_DEPTH ? set->document_count : RETRIEVAL_DEPTH;
}

static void add_query(const struct retrieval_set *set, size_t query, const struct nearest *found,
                      double sums[RETRIEVAL_METRICS]) {
    uint32_t documents[RETRIEVAL_DEPTH];
    double scores[RETRIEVAL_METRICS];
    const size_t depth = depth_of(set), first = set->starts[query];
    for (size_t i = 0; i < depth; i++) {
        documents[i] = found[i].index;
    }
    retrieval_score(&(struct retrieval_ranking){.found = documents,
                                                .found_count = depth,
                                                .judged = set->judgements + first,
                                                .judged_count = set->starts[query + 1] - first},
                    scores);
    for (size_t i = 0; i < RETRIEVAL_METRICS; i++) {
        sums[i] += scores[i];
    }
}

enum berth_status embed_retrieval_score(const struct embed_retrieval *retrieval,
                                        const float *vectors, size_t size, struct task_score *score,
                                        struct berth_error *error) {
    const struct retrieval_set *set = &retrieval->set;
    const size_t depth = depth_of(set);
    double sums[RETRIEVAL_METRICS] = {0};
    OWNED struct nearest *found = memory_array(set->query_count * depth, sizeof *found);
    if (found == NULL) {
        return error_no_memory(error, set->query_count * depth * sizeof *found,
                               "the documents that are found");
    }
    TRY(nearest_find(&(struct nearest_args){.device = retrieval->device,
                                            .queries = vectors,
                                            .corpus = vectors + set->query_count * size,
                                            .query_count = set->query_count,
                                            .corpus_count = set->document_count,
                                            .size = size,
                                            .count = depth},
                     found, error));
    for (size_t query = 0; query < set->query_count; query++) {
        add_query(set, query, found + query * depth, sums);
    }
    for (size_t i = 0; i < RETRIEVAL_METRICS; i++) {
        task_score_add(score, retrieval_metrics[i].name, sums[i] / (double)set->query_count);
    }
    return BERTH_OK;
}

size_t embed_retrieval_bytes(const struct embed_retrieval *retrieval, size_t size) {
    const struct retrieval_set *set = &retrieval->set;
    return set->query_count * depth_of(set) * sizeof(struct nearest) +
           nearest_bytes(set->document_count, size);
}
