// SPDX-License-Identifier: Apache-2.0
// The job mine: hard negatives for pairs of texts, as sentence-transformers' mine_hard_negatives.
//
// Each process embeds a share of the corpus, all of which every process then has. The queries are
// taken in rounds: each process embeds, searches and judges a share of a round's queries, and the
// first one writes what all have chosen. So memory holds the vectors of the corpus, and neither
// those of all queries nor their scores. mine_pairs.c reads the pairs and the corpus. Models are
// opened and run as by berth_open and berth_run. negatives.c decides which candidates become
// negatives.
#include "api/mine_pairs.h"
#include "api/model.h"
#include "api/negatives.h"
#include "comm/comm.h"
#include "core/checksum.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/text_util.h"
#include "core/utf8.h"
#include "model/sentence.h"
#include "task/network.h"
#include "train/machine/machine.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    SLICE = 512,                 // texts that pass through a model between two looks at `stop`
    ROUND = 4 * NEAREST_QUERIES, // most queries of a process in a round
    RANGE_MOST = 10000,          // candidates of a query, for which the search inserts one by one
    NEGATIVES_MOST = 1000
};
#define NO_TEXT UINT32_MAX

// What a model is run with.
struct runner {
    struct berth_model *model; // NULL: not open
    const char *task;
    const char *settings[3]; // of berth_run
};

// Sums over all processes; doubles, as these are what they add.
struct counts {
    double cut, pairs_cut; // texts that were truncated, and pairs of the cross-encoder
    double removed[NEGATIVE_RULES];
};

struct mining {
    struct job *job;
    struct comm *comm;
    struct negative_rules rules;
    int is_triplet, has_scores;
    struct mine_pairs pairs;
    float *scores;                          // [pairs.rows] of the positives
    size_t candidates;                      // that are searched for a query
    struct runner encoder, searcher, judge; // of queries, of the corpus, of pairs
    const struct task_model *opened;        // of the encoder
    size_t size;                            // of a vector
    float *vectors;                         // [corpus.count][size], of length 1
    struct counts counts;
    // The output, and what is in it.
    struct file_writer writer;
    struct json_line line;
    size_t examples, negatives, wanting;
    double positive_sum, negative_sum;
};

// Memory for a round.
struct round {
    float *vectors;           // [ROUND][size] of this process's queries
    struct nearest *found;    // [ROUND][candidates] of them
    struct nearest *chosen;   // [ROUND * processes][rules.count]; index NO_TEXT: none
    struct berth_text *texts; // [most + candidates] of one query, for the cross-encoder
    float *scores;            // [most + candidates]
    size_t *shares;           // [processes + 1] queries of the round
    int64_t *starts;          // the same in numbers
};

static const char *query_text(const struct mining *m, size_t query) {
    return string_index_bytes(&m->pairs.queries, query);
}

static const char *corpus_text(const struct mining *m, size_t text) {
    return string_index_bytes(&m->pairs.corpus, text);
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

// --- settings ------------------------------------------------------------------------------------

static enum berth_status refuse_useless(const struct job *job, const char *name, const char *needed,
                                        int has_effect, struct berth_error *error) {
    return has_effect || !job_is_given(job, name)
               ? BERTH_OK
               : error_set(error, BERTH_USAGE, "%s has no effect without %s", name, needed);
}

static enum berth_status check_effects(const struct mining *m, struct berth_error *error) {
    const struct job *job = m->job;
    int has_rule = 0;
    for (size_t i = 0; i < NEGATIVE_RULES; i++) {
        has_rule |= job_is_given(job, negative_rule_names[i]);
    }
    TRY(refuse_useless(job, "cross_encoder",
                       "absolute_margin, relative_margin, max_score or min_score, which its scores "
                       "are compared with",
                       has_rule, error));
    TRY(refuse_useless(job, "seed", "sampling_strategy random", m->rules.is_random, error));
    TRY(refuse_useless(job, "corpus_column", "corpus", job_is_given(job, "corpus"), error));
    TRY(refuse_useless(job, "text_column", "text_pair_column",
                       job->config->features.text_pair_column != NULL, error));
    return refuse_useless(job, "text_pair_column", "text_column",
                          job->config->features.text_column != NULL, error);
}

static enum berth_status check_prompts(const struct job *job, const char *prompt, const char *name,
                                       struct berth_error *error) {
    return job_is_given(job, prompt) && job_is_given(job, name)
               ? error_set(error, BERTH_USAGE, "give %s or %s, not both", prompt, name)
               : BERTH_OK;
}

static enum berth_status check_range(const struct mining *m, struct berth_error *error) {
    const struct negative_rules *rules = &m->rules;
    if (!job_is_given(m->job, "range_max")) {
        return BERTH_OK;
    }
    if (rules->range_min >= rules->range_max) {
        return error_set(error, BERTH_USAGE,
                         "range_min: expected less than range_max %zu, found %zu", rules->range_max,
                         rules->range_min);
    }
    return rules->range_max - rules->range_min >= rules->count
               ? BERTH_OK
               : error_set(error, BERTH_USAGE,
                           "num_negatives: expected at most range_max %zu - range_min %zu = %zu, "
                           "found %zu",
                           rules->range_max, rules->range_min, rules->range_max - rules->range_min,
                           rules->count);
}

// The prompts of sentence-transformers' encode_query and encode_document.
static struct runner encoder_of(const struct job *job, const char *prompt, const char *name,
                                const char *usual) {
    const char *given = job_text(job, name);
    return (struct runner){.task = "embed",
                           .settings = {job_is_given(job, prompt) ? "prompt" : "prompt_name",
                                        job_is_given(job, prompt) ? job_text(job, prompt)
                                        : given != NULL           ? given
                                                                  : usual}};
}

static enum berth_status read_settings(struct mining *m, struct berth_error *error) {
    const struct job *job = m->job;
    struct negative_rules *rules = &m->rules;
    for (size_t i = 0; i < NEGATIVE_RULES; i++) {
        const char *name = negative_rule_names[i];
        rules->limits[i] = job_is_given(job, name) ? (float)job_real(job, name) : NAN;
    }
    rules->range_min = (size_t)job_integer(job, "range_min");
    rules->range_max = (size_t)job_integer(job, "range_max");
    rules->count = (size_t)job_integer(job, "num_negatives");
    rules->is_random = strcmp(job_text(job, "sampling_strategy"), "random") == 0;
    rules->seed = (uint64_t)job_integer(job, "seed");
    m->is_triplet = strcmp(job_text(job, "output_format"), "triplet") == 0;
    m->has_scores = job_flag(job, "output_scores");
    m->encoder = encoder_of(job, "query_prompt", "query_prompt_name", "query");
    m->searcher = encoder_of(job, "corpus_prompt", "corpus_prompt_name", "document");
    m->judge = (struct runner){.task = "rerank"};
    TRY(check_prompts(job, "query_prompt", "query_prompt_name", error));
    TRY(check_prompts(job, "corpus_prompt", "corpus_prompt_name", error));
    TRY(check_effects(m, error));
    return check_range(m, error);
}

// --- texts ---------------------------------------------------------------------------------------

// Reads the texts; a query has most candidates where it has the most rows, as in
// sentence-transformers.
static enum berth_status read_texts(struct mining *m, struct berth_error *error) {
    struct negative_rules *rules = &m->rules;
    if (m->comm->rank == 0) {
        static const char *const inputs[] = {"pairs", "corpus"};
        const char *output = job_text(m->job, "output");
        for (size_t i = 0; i < 2; i++) {
            const char *input = job_text(m->job, inputs[i]);
            TRY(input != NULL ? file_check_output(output, input, error) : BERTH_OK);
        }
        if (file_exists(output) && !m->job->config->run.overwrite_output_dir) {
            return error_set(error, BERTH_CANT_CREATE,
                             "%s already exists; overwrite_output_dir replaces it", output);
        }
    }
    TRY(mine_pairs_read(m->job, &m->pairs, error));
    m->scores = memory_array(m->pairs.rows, sizeof *m->scores);
    if (m->scores == NULL) {
        return error_no_memory(error, m->pairs.rows * sizeof *m->scores, "the pairs");
    }
    const int is_selective = !isnan(rules->limits[NEGATIVE_ABSOLUTE_MARGIN]) ||
                             !isnan(rules->limits[NEGATIVE_RELATIVE_MARGIN]) ||
                             !isnan(rules->limits[NEGATIVE_MAX_SCORE]) ||
                             job_is_given(m->job, "cross_encoder");
    if (rules->range_max == 0) {
        rules->range_max =
            rules->range_min + (is_selective ? 10 : 1) * rules->count + m->pairs.most;
    }
    m->candidates = least(rules->range_max + m->pairs.most, m->pairs.corpus.count);
    return BERTH_OK;
}

// The processes read files and settings of their own: all must be the same.
static enum berth_status compare_texts(const struct mining *m, struct berth_error *error) {
    const struct string_index *texts[] = {&m->pairs.queries, &m->pairs.corpus};
    uint64_t sum = checksum_bytes(m->pairs.positives, m->pairs.starts[m->pairs.queries.count] *
                                                          sizeof *m->pairs.positives);
    for (size_t i = 0; i < 2; i++) {
        sum = checksum_add(sum, checksum_bytes(texts[i]->pool, texts[i]->starts[texts[i]->count]));
    }
    for (size_t i = 0; i < m->job->row->row_count; i++) {
        const struct option_row *row = &m->job->row->rows[i];
        const char *value = job_text(m->job, row->name);
        value = value != NULL && row->local ? "a path" : value;
        sum = checksum_add(sum, value != NULL ? checksum_bytes(value, strlen(value)) : 0);
    }
    uint64_t first = sum;
    m->comm->broadcast(m->comm, &first, sizeof first, 0);
    TRY(m->comm->status(m->comm, error));
    return comm_settle(
        m->comm,
        sum == first
            ? BERTH_OK
            : error_set(error, BERTH_CONFIG,
                        "pairs, corpus or settings differ from those of the first process"),
        error);
}

// --- models --------------------------------------------------------------------------------------

// The settings of the command line are those of the encoder; of these the cross-encoder has those
// of the machine, whose names are listed.
static struct settings *settings_of(const struct job *job, const char *path) {
    static const char *const shared[] = {"threads",   "device", "instructions",
                                         "precision", "tf32",   "predict_batch_size"};
    struct settings *config = settings_new();
    if (config == NULL) {
        return NULL;
    }
    char **owned = config->owned;
    if (path == NULL) {
        *config = *job->config;
    }
    config->owned = owned;
    for (size_t i = 0; path != NULL && i < sizeof shared / sizeof *shared; i++) {
        char value[256];
        settings_print(job->config, option_find(shared[i]), value, sizeof value);
        if (settings_set(config, shared[i], value, NULL) != BERTH_OK) {
            settings_free(config);
            return NULL;
        }
    }
    return config;
}

static enum berth_status open_runner(const struct mining *m, struct runner *runner,
                                     const char *path, struct berth_error *error) {
    const struct model_opening opening = {
        .task = task_find(runner->task), .comm = m->comm, .log = &m->job->log};
    struct settings *config = settings_of(m->job, path);
    return config == NULL
               ? error_no_memory(error, sizeof *config, "settings")
               : model_open(path != NULL ? path : m->job->config->model.model_name_or_path, config,
                            &opening, &runner->model, error);
}

static enum berth_status compare_models(const struct mining *m, const struct runner *runner,
                                        const struct task_model **opened,
                                        struct berth_error *error) {
    static const struct berth_log silent = {0};
    TRY(model_for(runner->model, task_find(runner->task), &silent, opened, error));
    return m->comm->size > 1 ? task_compare_ranks(*opened, error) : BERTH_OK;
}

static enum berth_status open_models(struct mining *m, struct berth_error *error) {
    const char *judge = job_text(m->job, "cross_encoder");
    const struct task_model *opened;
    TRY(comm_settle(m->comm, open_runner(m, &m->encoder, NULL, error), error));
    TRY(compare_models(m, &m->encoder, &m->opened, error));
    m->searcher.model = model_keep(m->encoder.model);
    const struct model_files *files = &m->opened->network->predictor.files;
    m->size = (size_t)sentence_width(&files->sentence, files->shape.hidden_size);
    if (judge == NULL) {
        return BERTH_OK;
    }
    TRY(comm_settle(m->comm, open_runner(m, &m->judge, judge, error), error));
    TRY(compare_models(m, &m->judge, &opened, error));
    return berth_model_number(m->judge.model, "labels") == 1
               ? BERTH_OK
               : error_set(error, BERTH_CONFIG,
                           "cross_encoder: %s: expected a model with one score for a pair, as "
                           "`berth rerank` reads it",
                           judge);
}

// --- running -------------------------------------------------------------------------------------

static int is_stopped(const struct mining *m) {
    return m->job->stop != NULL && *m->job->stop != 0;
}

static enum berth_status check_outcome(const struct berth_result *result, size_t index,
                                       const char *text, double *cut, struct berth_error *error) {
    const struct berth_outcome *outcome = berth_result_outcome(result, index);
    *cut += outcome->truncated;
    return outcome->status == BERTH_OK ? BERTH_OK
                                       : error_set(error, outcome->status, "text \"%.*s\": %s",
                                                   UTF8_SHOWN(text, 60), outcome->message);
}

static enum berth_status run_slice(struct mining *m, const struct runner *runner,
                                   const struct berth_text *texts, size_t count, float *to,
                                   size_t size, struct berth_error *error) {
    struct berth_result *result =
        berth_run(runner->model, runner->task, texts, count,
                  runner->settings[0] != NULL ? runner->settings : NULL, NULL, error);
    if (result == NULL) {
        return error->status;
    }
    enum berth_status status = BERTH_OK;
    error->status = BERTH_OK; // each text's outcome is read below
    double *cut = texts[0].pair != NULL ? &m->counts.pairs_cut : &m->counts.cut;
    for (size_t i = 0; i < count && status == BERTH_OK; i++) {
        status = check_outcome(result, i, texts[i].text, cut, error);
    }
    if (status == BERTH_OK) {
        memcpy(to, berth_result_rows(result, 0, NULL, NULL), count * size * sizeof *to);
    }
    berth_result_free(result);
    return status;
}

// Runs texts; to[count][size] becomes their rows.
static enum berth_status run_texts(struct mining *m, const struct runner *runner,
                                   const struct berth_text *texts, size_t count, float *to,
                                   size_t size, struct berth_error *error) {
    for (size_t first = 0; first < count; first += SLICE) {
        if (is_stopped(m)) {
            return error_set(error, BERTH_INTERRUPTED, "stopped on request");
        }
        TRY(run_slice(m, runner, texts + first, least(SLICE, count - first), to + first * size,
                      size, error));
    }
    return BERTH_OK;
}

// The vectors of the texts [first, first + count), of length 1.
static enum berth_status embed(struct mining *m, const struct runner *runner,
                               const struct string_index *index, size_t first, size_t count,
                               float *to, struct berth_error *error) {
    OWNED struct berth_text *texts = memory_array_zeroed(count, sizeof *texts);
    if (texts == NULL) {
        return error_no_memory(error, count * sizeof *texts, "the texts");
    }
    for (size_t i = 0; i < count; i++) {
        texts[i].text = string_index_bytes(index, first + i);
    }
    TRY(run_texts(m, runner, texts, count, to, m->size, error));
    for (size_t i = 0; i < count; i++) {
        sentence_scale_to_one(to + i * m->size, (int64_t)m->size);
    }
    return BERTH_OK;
}

// Gives all processes each one's part of an array; they begin at starts[size + 1].
static enum berth_status gather(const struct mining *m, const char *name, void *data,
                                const int64_t *starts, struct berth_error *error) {
    const struct comm_range range = {.name = name,
                                     .data = data,
                                     .count = starts[m->comm->size],
                                     .dtype = DTYPE_F32,
                                     .wire = DTYPE_F32,
                                     .starts = starts};
    m->comm->wait(m->comm, m->comm->gather_begin(m->comm, &range));
    return m->comm->status(m->comm, error);
}

// All continue or none, also where one was asked to stop.
static enum berth_status agree_on(const struct mining *m, enum berth_status status,
                                  struct berth_error *error) {
    int stop = is_stopped(m);
    TRY(comm_settle_stop(m->comm, status, &stop, error));
    return stop ? error_set(error, BERTH_INTERRUPTED, "stopped on request") : BERTH_OK;
}

// Where the share of each process begins of `count` texts, in whole blocks; starts[size + 1].
static void divide(const struct mining *m, size_t count, size_t block, size_t *starts) {
    const size_t blocks = (count + block - 1) / block, ranks = (size_t)m->comm->size;
    const size_t share = (blocks + ranks - 1) / ranks * block;
    for (size_t rank = 0; rank <= ranks; rank++) {
        starts[rank] = least(rank * share, count);
    }
}

static enum berth_status embed_corpus(struct mining *m, const struct round *round,
                                      struct berth_error *error) {
    const size_t ranks = (size_t)m->comm->size, rank = (size_t)m->comm->rank;
    size_t *shares = round->shares;
    for (size_t done = 0, count; done < m->pairs.corpus.count; done += count) {
        float *to = m->vectors + done * m->size;
        count = least(ROUND * ranks, m->pairs.corpus.count - done);
        divide(m, count, 1, shares);
        const enum berth_status status =
            embed(m, &m->searcher, &m->pairs.corpus, done + shares[rank],
                  shares[rank + 1] - shares[rank], to + shares[rank] * m->size, error);
        TRY(agree_on(m, status, error));
        for (size_t i = 0; i <= ranks; i++) {
            round->starts[i] = (int64_t)(shares[i] * m->size);
        }
        TRY(gather(m, "vectors", to, round->starts, error));
        log_progress(&m->job->log, "corpus", (int64_t)(done + count),
                     (int64_t)m->pairs.corpus.count);
    }
    return BERTH_OK;
}

// --- the negatives of a round's queries ----------------------------------------------------------

static int is_positive(const struct mining *m, size_t query, uint32_t text) {
    size_t i = m->pairs.starts[query];
    while (i < m->pairs.starts[query + 1] && m->pairs.positives[i] != text) {
        i++;
    }
    return i < m->pairs.starts[query + 1];
}

// The scores of a query's positives, and new ones of its candidates, by the cross-encoder.
static enum berth_status judge(struct mining *m, const struct round *round, size_t query,
                               struct nearest *candidates, size_t count,
                               struct berth_error *error) {
    const size_t first = m->pairs.starts[query], positives = m->pairs.starts[query + 1] - first;
    for (size_t i = 0; i < positives + count; i++) {
        const uint32_t text =
            i < positives ? m->pairs.positives[first + i] : candidates[i - positives].index;
        round->texts[i] =
            (struct berth_text){.text = query_text(m, query), .pair = corpus_text(m, text)};
    }
    TRY(run_texts(m, &m->judge, round->texts, positives + count, round->scores, 1, error));
    memcpy(m->scores + first, round->scores, positives * sizeof *round->scores);
    for (size_t i = 0; i < count; i++) {
        candidates[i].score = round->scores[positives + i];
    }
    return BERTH_OK;
}

// Fills chosen[rules.count] for a query whose vector and candidates are known.
static enum berth_status choose(struct mining *m, const struct round *round, size_t query,
                                const float *vector, struct nearest *candidates,
                                struct nearest *chosen, struct berth_error *error) {
    // The positives are taken out of the query's candidates.
    size_t left = 0;
    for (size_t i = 0; i < m->candidates; i++) {
        if (!is_positive(m, query, candidates[i].index)) {
            candidates[left++] = candidates[i];
        }
    }
    uint64_t removed[NEGATIVE_RULES] = {0};
    float worst = INFINITY;
    for (size_t i = m->pairs.starts[query]; i < m->pairs.starts[query + 1]; i++) {
        const float *other = m->vectors + m->pairs.positives[i] * m->size;
        double sum = 0;
        for (size_t k = 0; k < m->size; k++) {
            sum += (double)vector[k] * (double)other[k];
        }
        m->scores[i] = (float)sum;
    }
    TRY(m->judge.model != NULL ? judge(m, round, query, candidates, left, error) : BERTH_OK);
    for (size_t i = m->pairs.starts[query]; i < m->pairs.starts[query + 1]; i++) {
        worst = fminf(worst, m->scores[i]);
    }
    const size_t found =
        negatives_choose(&m->rules, (uint32_t)query, worst, candidates, left, chosen, removed);
    for (size_t i = found; i < m->rules.count; i++) {
        chosen[i] = (struct nearest){NO_TEXT, -INFINITY};
    }
    for (size_t i = 0; i < NEGATIVE_RULES; i++) {
        m->counts.removed[i] += (double)removed[i];
    }
    return BERTH_OK;
}

// This process's share of a round: the queries [first, first + count).
static enum berth_status mine_share(struct mining *m, const struct round *round, size_t first,
                                    size_t count, struct nearest *chosen,
                                    struct berth_error *error) {
    if (count == 0) {
        return BERTH_OK;
    }
    const struct nearest_args args = {.device = m->opened->network->predictor.device,
                                      .queries = round->vectors,
                                      .corpus = m->vectors,
                                      .query_count = count,
                                      .corpus_count = m->pairs.corpus.count,
                                      .size = m->size,
                                      .count = m->candidates,
                                      .stop = m->job->stop};
    TRY(embed(m, &m->encoder, &m->pairs.queries, first, count, round->vectors, error));
    TRY(nearest_find(&args, round->found, error));
    for (size_t i = 0; i < count; i++) {
        TRY(choose(m, round, first + i, round->vectors + i * m->size,
                   round->found + i * m->candidates, chosen + i * m->rules.count, error));
    }
    return BERTH_OK;
}

// --- the output ----------------------------------------------------------------------------------

// A line with `count` negatives.
static void add_line(struct mining *m, size_t query, size_t positive, const struct nearest *chosen,
                     size_t count) {
    struct json_line *line = &m->line;
    json_line_open(line, NULL, '{');
    json_line_text(line, "query", query_text(m, query));
    json_line_text(line, "positive", corpus_text(m, m->pairs.positives[positive]));
    for (size_t i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "negative_%zu", i + 1);
        json_line_text(line, m->is_triplet ? "negative" : name, corpus_text(m, chosen[i].index));
    }
    if (m->has_scores) {
        json_line_open(line, "scores", '[');
        json_line_float(line, NULL, m->scores[positive]);
        for (size_t i = 0; i < count; i++) {
            json_line_float(line, NULL, chosen[i].score);
        }
        json_line_close(line, ']');
    }
    json_line_close(line, '}');
    json_line_end(line);
    m->examples++;
}

// The lines of a positive, and what they add to the counts.
static void add_positive(struct mining *m, size_t query, size_t positive,
                         const struct nearest *chosen) {
    size_t found = 0;
    while (found < m->rules.count && chosen[found].index != NO_TEXT) {
        found++;
    }
    m->positive_sum += (double)m->scores[positive];
    m->wanting += found < m->rules.count;
    if (found < m->rules.count && !m->is_triplet) {
        return;
    }
    for (size_t i = 0; i < found; i++) {
        m->negative_sum += (double)chosen[i].score;
    }
    m->negatives += found;
    if (!m->is_triplet) {
        add_line(m, query, positive, chosen, found);
    }
    for (size_t i = 0; i < found && m->is_triplet; i++) {
        add_line(m, query, positive, chosen + i, 1);
    }
}

// All processes count what the first one writes.
static enum berth_status put_round(struct mining *m, size_t first, size_t count,
                                   const struct nearest *chosen, struct berth_error *error) {
    for (size_t query = first; query < first + count; query++) {
        json_line_clear(&m->line);
        for (size_t i = m->pairs.starts[query]; i < m->pairs.starts[query + 1]; i++) {
            add_positive(m, query, i, chosen + (query - first) * m->rules.count);
        }
        TRY(m->line.failed ? error_no_memory(error, m->line.length, "the lines of a query")
                           : BERTH_OK);
        TRY(m->comm->rank == 0 && m->line.length > 0
                ? file_writer_put(&m->writer, m->line.text, m->line.length, error)
                : BERTH_OK);
    }
    return BERTH_OK;
}

static enum berth_status mine_queries(struct mining *m, const struct round *round,
                                      struct berth_error *error) {
    const size_t ranks = (size_t)m->comm->size, rank = (size_t)m->comm->rank;
    for (size_t done = 0, count; done < m->pairs.queries.count; done += count) {
        count = least(ROUND * ranks, m->pairs.queries.count - done);
        divide(m, count, NEAREST_QUERIES, round->shares);
        const size_t first = round->shares[rank];
        const enum berth_status status =
            mine_share(m, round, done + first, round->shares[rank + 1] - first,
                       round->chosen + first * m->rules.count, error);
        TRY(agree_on(m, status, error));
        const size_t processes = (size_t)m->comm->size;
        for (size_t i = 0; i <= processes; i++) {
            round->starts[i] =
                (int64_t)(round->shares[i] * m->rules.count * (sizeof *round->chosen / 4));
        }
        TRY(gather(m, "negatives", round->chosen, round->starts, error));
        for (size_t i = 0; i <= processes; i++) {
            round->starts[i] =
                (int64_t)(m->pairs.starts[done + round->shares[i]] - m->pairs.starts[done]);
        }
        TRY(gather(m, "scores", m->scores + m->pairs.starts[done], round->starts, error));
        TRY(agree_on(m, put_round(m, done, count, round->chosen, error), error));
        log_progress(&m->job->log, "queries", (int64_t)(done + count),
                     (int64_t)m->pairs.queries.count);
    }
    return BERTH_OK;
}

// --- the job -------------------------------------------------------------------------------------

static enum berth_status allocate(struct mining *m, struct round *round,
                                  struct berth_error *error) {
    const size_t ranks = (size_t)m->comm->size, judged = m->pairs.most + m->candidates;
    const size_t numbers = m->pairs.corpus.count * m->size;
    m->vectors = memory_array(numbers, sizeof *m->vectors);
    if (m->vectors == NULL) {
        return error_no_memory(error, numbers * sizeof *m->vectors, "the vectors of the corpus");
    }
    round->vectors = memory_array(ROUND * m->size, sizeof *round->vectors);
    round->found = memory_array(ROUND * m->candidates, sizeof *round->found);
    round->chosen = memory_array(ROUND * ranks * m->rules.count, sizeof *round->chosen);
    round->texts = memory_array(judged, sizeof *round->texts);
    round->scores = memory_array(judged, sizeof *round->scores);
    round->shares = memory_array(ranks + 1, sizeof *round->shares);
    round->starts = memory_array(ranks + 1, sizeof *round->starts);
    return round->vectors != NULL && round->found != NULL && round->chosen != NULL &&
                   round->texts != NULL && round->scores != NULL && round->shares != NULL &&
                   round->starts != NULL
               ? BERTH_OK
               : error_no_memory(error, ROUND * m->candidates * sizeof *round->found,
                                 "a round of queries");
}

static void round_done(struct round *round) {
    memory_free(round->vectors);
    memory_free(round->found);
    memory_free(round->chosen);
    memory_free(round->texts);
    memory_free(round->scores);
    memory_free(round->shares);
    memory_free(round->starts);
}

static enum berth_status write_output(struct mining *m, struct berth_error *error) {
    if (m->examples == 0) {
        return error_set(error, BERTH_FAILURE,
                         "no query has %s; nothing was written; a larger range_max, a smaller "
                         "range_min or num_negatives, or weaker margins and scores find more",
                         m->is_triplet ? "a negative" : "num_negatives negatives");
    }
    return m->comm->rank == 0 ? file_writer_commit(&m->writer, error) : BERTH_OK;
}

static enum berth_status mine(struct mining *m, struct berth_error *error) {
    struct round round DONE_BY(round_done) = {0};
    TRY(comm_settle(m->comm, read_texts(m, error), error));
    TRY(m->comm->size > 1 ? compare_texts(m, error) : BERTH_OK);
    TRY(open_models(m, error));
    // sentence-transformers would compare by this.
    const json *settings = m->opened->network->predictor.files.sentence.settings;
    const char *name = json_text(json_member(settings, "similarity_fn_name"));
    if (name != NULL && strcmp(name, "cosine") != 0 && strcmp(name, "dot") != 0) {
        log_note(&m->job->log,
                 "similarity_fn_name: cosine instead of the model's %.*s, with vectors of length 1",
                 UTF8_SHOWN(name, 40));
    }
    const size_t vectors = m->pairs.corpus.count * m->size * sizeof(float);
    const size_t others =
        ROUND * (m->size * sizeof(float) + m->candidates * sizeof(struct nearest)) +
        nearest_bytes(m->pairs.corpus.count, m->size);
    log_note(&m->job->log,
             "%zu queries, corpus of %zu texts, %zu candidates for a query; the corpus's vectors "
             "take %.1f MiB, the search %.1f MiB",
             m->pairs.queries.count, m->pairs.corpus.count, m->candidates,
             (double)vectors / (1 << 20), (double)others / (1 << 20));
    TRY(comm_settle(m->comm, allocate(m, &round, error), error));
    TRY(comm_settle(m->comm,
                    m->comm->rank == 0
                        ? file_writer_open(&m->writer, job_text(m->job, "output"), error)
                        : BERTH_OK,
                    error));
    TRY(embed_corpus(m, &round, error));
    TRY(mine_queries(m, &round, error));
    m->comm->sum(m->comm, (double *)&m->counts, sizeof m->counts / sizeof(double));
    TRY(m->comm->status(m->comm, error));
    return comm_settle(m->comm, write_output(m, error), error);
}

static void mining_done(struct mining *m) {
    berth_close(m->judge.model);
    berth_close(m->searcher.model);
    berth_close(m->encoder.model);
    file_writer_abort(&m->writer);
    json_line_done(&m->line);
    mine_pairs_done(&m->pairs);
    memory_free(m->scores);
    memory_free(m->vectors);
    if (m->comm != NULL) {
        m->comm->close(m->comm);
    }
}

static void put_result(const struct mining *m, double seconds) {
    const struct job *job = m->job;
    const size_t pairs = m->pairs.starts[m->pairs.queries.count];
    const double positive = m->positive_sum / (double)pairs;
    const double negative = m->negative_sum / (double)m->negatives;
    job_put_integer(job, "examples", (int64_t)m->examples);
    job_put_integer(job, "negatives", (int64_t)m->negatives);
    job_put_integer(job, "queries", (int64_t)m->pairs.queries.count);
    job_put_integer(job, "pairs", (int64_t)pairs);
    job_put_integer(job, "pairs_with_too_few", (int64_t)m->wanting);
    job_put_integer(job, "corpus", (int64_t)m->pairs.corpus.count);
    job_put_integer(job, "range_max", (int64_t)m->rules.range_max);
    job_put_integer(job, "truncated", (int64_t)m->counts.cut);
    job_say(job, "%zu example%s from %zu pair%s of %zu quer%s, corpus of %zu texts\n", m->examples,
            number_plural((int64_t)m->examples), pairs, number_plural((int64_t)pairs),
            m->pairs.queries.count, m->pairs.queries.count == 1 ? "y" : "ies",
            m->pairs.corpus.count);
    job_say(job, "mean score of the positives %.4f, of the negatives %.4f\n", positive, negative);
    for (size_t i = 0; i < NEGATIVE_RULES; i++) {
        char name[48];
        snprintf(name, sizeof name, "removed_by_%s", negative_rule_names[i]);
        job_put_integer(job, name, (int64_t)m->counts.removed[i]);
        if (m->counts.removed[i] > 0) {
            job_say(job, "%.0f candidates removed by %s\n", m->counts.removed[i],
                    negative_rule_names[i]);
        }
    }
    job_put_real(job, "mean_positive_score", positive);
    job_put_real(job, "mean_negative_score", negative);
    job_put_real(job, "seconds", seconds);
    if (m->wanting > 0) {
        log_warning(&job->log, "%zu of %zu pairs have fewer than %zu negatives%s", m->wanting,
                    pairs, m->rules.count, m->is_triplet ? "" : " and were left out");
    }
    if (m->counts.cut > 0) {
        log_note(&job->log, "%.0f texts have more tokens than max_seq_length and were truncated",
                 m->counts.cut);
    }
    if (m->counts.pairs_cut > 0) {
        log_note(&job->log,
                 "%.0f pairs of a query and a text have more tokens than the cross-encoder reads "
                 "and were truncated",
                 m->counts.pairs_cut);
    }
}

static enum berth_status run_mine(struct job *job, struct berth_error *error) {
    const double begin = clock_now();
    struct mining m DONE_BY(mining_done) = {.job = job, .writer = {.descriptor = -1}};
    settings_apply_default(job->config, "precision", JOB_MINE);
    TRY(read_settings(&m, error));
    TRY(machine_comm_open("mine", job->config, &job->log, &m.comm, error));
    const enum berth_status status = mine(&m, error);
    if (status == BERTH_INTERRUPTED) {
        return error_prefix(error, status, "nothing was written");
    }
    TRY(status);
    put_result(&m, clock_now() - begin);
    return BERTH_OK;
}

static const struct option_row settings[] = {
    {JOB_TEXT("pairs", NULL), .unit = "FILE", .local = 1,
     .help = "pairs of a query and a text that answers it: TSV, CSV or JSON lines, as for `berth "
             "finetune embed`"},
    {JOB_TEXT("corpus", NULL), .unit = "FILE", .local = 1, .shown = "the second texts of the pairs",
     .help = "texts among which negatives are searched, beside those of the pairs: one a line "
             "(.txt), or a column of a table"},
    {JOB_TEXT("corpus_column", NULL), .unit = "NAME", .help = "column of the texts in such a table",
     .shown = "the first that is not called id or idx"},
    {JOB_TEXT("output", NULL), .unit = "FILE", .local = 1,
     .help = "file for the examples, JSON lines, which `berth finetune embed` reads"},
    {JOB_INTEGER("num_negatives", "3"), BETWEEN(1, NEGATIVES_MOST), .unit = "N",
     .help = "negatives of a query"},
    {JOB_TEXT("output_format", "triplet"), .unit = "FORM", .choices = "triplet|n-tuple",
     .help = "triplet: a line for each negative; n-tuple: a line for each pair with all of its "
             "negatives; pairs with fewer than num_negatives are left out"},
    {JOB_FLAG("output_scores"),
     .help = "also write the scores of the positive and the negatives, as a list"},
    {JOB_INTEGER("range_min", "0"), BETWEEN(0, RANGE_MOST), .unit = "N",
     .help = "leave out the N best candidates"},
    {JOB_INTEGER("range_max", NULL), BETWEEN(1, RANGE_MOST), .unit = "N",
     .help = "take negatives from the N best candidates that margins and scores leave",
     .shown = "range_min + num_negatives + the most positives of a query; 10 num_negatives with "
              "margins, max_score or cross_encoder"},
    {JOB_REAL("max_score", NULL), BETWEEN(-1e30, 1e30), .unit = "X", .shown = "none",
     .help = "no negatives with a larger score"},
    {JOB_REAL("min_score", NULL), BETWEEN(-1e30, 1e30), .unit = "X", .shown = "none",
     .help = "no negatives with a smaller score"},
    {JOB_REAL("absolute_margin", NULL), BETWEEN(-1e30, 1e30), .unit = "X", .shown = "none",
     .aliases = "margin",
     .help = "a negative's score is at least X below that of the query's worst positive"},
    {JOB_REAL("relative_margin", NULL), BETWEEN(-1e30, 1e30), .unit = "X", .shown = "none",
     .help = "a negative's score is below that of the query's worst positive by at least the "
             "fraction X of it: 0.05"},
    {JOB_TEXT("sampling_strategy", "top"), .unit = "HOW", .choices = "top|random",
     .help = "take the best of the candidates, or draw some at random by seed (Python would draw "
             "others)"},
    {JOB_INTEGER("seed", "42"), BETWEEN(0, 9e15), .unit = "N", .help = "seed of the draws"},
    {JOB_TEXT("cross_encoder", NULL), .unit = "DIR", .local = 1, .shown = "none",
     .help = "model of `berth rerank` whose scores replace the cosines before margins and scores "
             "are applied"},
    {JOB_TEXT("query_prompt_name", NULL), .unit = "NAME", .shown = "query",
     .help = "the prompt of that name before queries"},
    {JOB_TEXT("query_prompt", NULL), .unit = "TEXT", .may_be_empty = 1,
     .shown = "query_prompt_name's", .help = "text to put before queries"},
    {JOB_TEXT("corpus_prompt_name", NULL), .unit = "NAME", .shown = "document",
     .help = "the prompt of that name before texts of the corpus"},
    {JOB_TEXT("corpus_prompt", NULL), .unit = "TEXT", .may_be_empty = 1,
     .shown = "corpus_prompt_name's", .help = "text to put before texts of the corpus"},
};

const struct job_row job_mine = {
    .about = {"mine", "find hard negatives for pairs of texts, to train embeddings with"},
    .jobs = JOB_MINE,
    JOB_SETTINGS(settings),
    .required = "model_name_or_path pairs output",
    .usage = "--model DIR --pairs FILE [--corpus FILE] --output FILE [options]",
    .example = "berth mine --model minilm --pairs questions.jsonl --corpus paragraphs.txt \\\n"
               "    --relative_margin 0.05 --num_negatives 3 --output triplets.jsonl\n"
               "berth finetune embed --model minilm --train triplets.jsonl --output searcher",
    .notes =
        "The texts of the corpus that are nearest to a query, by the cosines of the model's "
        "vectors, become its negatives; its positives never do, nor texts equal to them. The "
        "rules are those of sentence-transformers' mine_hard_negatives: margins, max_score and "
        "min_score remove candidates, range_min and range_max count those that are left. The "
        "search is exact. The vectors of the corpus stay in memory, 4 bytes a number. Several "
        "processes divide the work and write the same bytes.",
    .json = "print the counts as one JSON object",
    .follows = "nothing will be written",
    .run = run_mine,
};
