// SPDX-License-Identifier: Apache-2.0
// Reads the corpora once to count sentences and once more per group of shards, rather than keep all
// articles in memory. Called first by `berth prepare` (api/prepare.c); where a sentence ends is
// found by data/corpus/sentences.c.
#include "data/stages/shard_stage.h"

#include "core/buffer.h"
#include "core/memory.h"
#include "core/number.h"
#include "data/corpus/sentences.h"
#include "data/pretraining/pretraining_file.h"
#include "data/stages/stage_work.h"
#include "format/checksum/digest.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { GROUPS = 16, GROUP_MAX = 64, POLL_ARTICLES = 64, LONG_LINE_WORDS = 1000000 };
enum { OTHER_FILES = 48 };        // that the process may have open besides corpora and shards
#define HEAD_BYTES ((size_t)4096) // of each file, for the digest of the corpora

struct shard_run {
    struct shard_stage *request;
    struct shard_plan plan; // the plan that the articles can fill
    struct shard_assignment assignment;
    struct stage stage;
    struct stage_work work;
    uint64_t bytes;        // of the corpora
    int threads;           // on all ranks
    struct tally *tallies; // [threads]
    struct group *groups;
};

// --- reading the corpora ------------------------------------------------------------------------

struct articles {
    const struct shard_stage *request;
    struct corpus *corpus;
    size_t next; // source
    uint64_t before;
};

static enum berth_status next_article(struct articles *articles, const char **text, size_t *length,
                                      struct berth_error *error) {
    *length = 0;
    while (*length == 0) {
        if (articles->corpus == NULL) {
            if (articles->next == articles->request->source_count) {
                return BERTH_OK;
            }
            const struct corpus_source *source = &articles->request->sources[articles->next++];
            TRY(corpus_open(source->form, source->paths, source->count, &articles->corpus, error));
        }
        TRY(corpus_next(articles->corpus, text, length, error));
        if (*length == 0) {
            articles->before += corpus_position(articles->corpus);
            corpus_close(articles->corpus);
            articles->corpus = NULL;
        }
    }
    return BERTH_OK;
}

static uint64_t position(const struct articles *articles) {
    return articles->before + (articles->corpus != NULL ? corpus_position(articles->corpus) : 0);
}

// --- the digest of the corpora -------------------------------------------------------------------

// Adds the name, size and first bytes of a file to the digest's input.
static enum berth_status describe_file(const char *path, struct buffer *to,
                                       struct berth_error *error) {
    struct file_reader file;
    char head[HEAD_BYTES], size[NUMBER_TEXT_SIZE];
    TRY(file_reader_open(&file, path, error));
    size_t length = file.size < HEAD_BYTES ? (size_t)file.size : HEAD_BYTES;
    enum berth_status status = file_reader_at(&file, 0, head, length, error);
    number_format(size, sizeof size, " %" PRIu64 "\n", file.size);
    buffer_put_text(to, path_name(path));
    buffer_put_text(to, size);
    buffer_put(to, head, length);
    file_reader_close(&file);
    return status;
}

static enum berth_status describe_source(struct shard_run *run, const struct corpus_source *source,
                                         struct buffer *to, struct berth_error *error) {
    struct corpus *corpus;
    TRY(corpus_open(source->form, source->paths, source->count, &corpus, error));
    size_t count;
    const char *const *files = corpus_files(corpus, &count);
    enum berth_status status = BERTH_OK;
    buffer_put_byte(to, (char)('0' + source->form));
    run->bytes += corpus_size(corpus);
    for (size_t i = 0; i < count && status == BERTH_OK; i++) {
        status = describe_file(files[i], to, error);
    }
    corpus_close(corpus);
    return status;
}

// Computes a digest of the names, sizes and first bytes of the corpora's files, and their size in
// bytes.
static enum berth_status digest_corpora(struct shard_run *run, char digest[DIGEST_HEX_SIZE],
                                        struct berth_error *error) {
    struct buffer all = {0};
    enum berth_status status = BERTH_OK;
    for (size_t i = 0; i < run->request->source_count && status == BERTH_OK; i++) {
        status = describe_source(run, &run->request->sources[i], &all, error);
    }
    if (status == BERTH_OK && all.failed) {
        status = error_no_memory(error, all.length, "the corpora's files");
    }
    if (status == BERTH_OK) {
        status = digest_memory(DIGEST_SHA256, all.bytes, all.length, digest, error);
    }
    buffer_done(&all);
    return status;
}

// --- assigning articles -------------------------------------------------------------------------

// The sentence counts of one worker's articles: every n-th article, for n threads on all ranks.
struct tally {
    uint32_t *sentences;
    size_t count, capacity;
    struct {
        uint64_t articles; // of all threads
        uint64_t long_lines, most_words;
        char path[256]; // file of the line with the most words, if that is long
    } found;
};

// Counts the words of long lines only; there are few.
static void find_long_lines(struct tally *tally, const char *text, size_t length,
                            const char *path) {
    const char *end = text + length, *next;
    for (const char *line = text; line < end; line = next) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        next = newline != NULL ? newline + 1 : end;
        uint64_t words = 0;
        for (const char *at = line; next - line > LONG_LINE_WORDS && at < next; at++) {
            words += *at == ' ' || at + 1 == next;
        }
        if (words > LONG_LINE_WORDS) {
            tally->found.long_lines++;
        }
        if (words > LONG_LINE_WORDS && words > tally->found.most_words) {
            tally->found.most_words = words;
            snprintf(tally->found.path, sizeof tally->found.path, "%s", path);
        }
    }
}

static uint32_t count_sentences(const char *text, size_t length) {
    struct sentences sentences = {.text = text, .length = length};
    const char *begin;
    size_t bytes;
    uint32_t count = 0;
    while (sentences_next(&sentences, &begin, &bytes)) {
        count++;
    }
    return count;
}

static enum berth_status tally_put(struct tally *tally, const char *text, size_t length,
                                   struct berth_error *error) {
    uint32_t *grown =
        memory_grow(tally->sentences, &tally->capacity, tally->count + 1, sizeof *grown);
    if (grown == NULL) {
        return error_no_memory(error, (tally->count + 1) * sizeof *grown, "the articles' lengths");
    }
    tally->sentences = grown;
    grown[tally->count++] = count_sentences(text, length);
    return BERTH_OK;
}

static enum berth_status tally_every_nth(void *context, size_t worker, struct berth_error *error) {
    struct shard_run *run = context;
    struct tally *tally = &run->tallies[worker];
    const uint64_t workers = (uint64_t)run->threads;
    struct articles articles = {.request = run->request};
    uint64_t reported = 0;
    const char *text;
    size_t length;
    enum berth_status status = next_article(&articles, &text, &length, error);
    while (status == BERTH_OK && length > 0) {
        if (tally->found.articles % workers == worker) {
            status = tally_put(tally, text, length, error);
            find_long_lines(tally, text, length, corpus_path(articles.corpus));
        }
        if (++tally->found.articles % POLL_ARTICLES == 0) {
            stage_advance(&run->work, (int64_t)(position(&articles) - reported));
            reported = position(&articles);
            status = status == BERTH_OK && stage_should_stop(&run->work)
                         ? stage_outcome(&run->work, error)
                         : status;
        }
        if (status == BERTH_OK) {
            status = next_article(&articles, &text, &length, error);
        }
    }
    corpus_close(articles.corpus);
    return status;
}

// Copies the tally of rank `root` to all ranks.
static enum berth_status broadcast_tally(struct comm *comm, struct tally *tally, int root,
                                         struct berth_error *error) {
    uint64_t count = tally->count;
    enum berth_status status = BERTH_OK;
    comm->broadcast(comm, &count, sizeof count, root);
    comm->broadcast(comm, &tally->found, sizeof tally->found, root);
    TRY(comm->status(comm, error));
    if (comm->rank != root) {
        tally->sentences = memory_array((size_t)count + 1, sizeof *tally->sentences);
        tally->count = (size_t)count;
        if (tally->sentences == NULL) {
            status = error_no_memory(error, tally->count * sizeof *tally->sentences,
                                     "the articles' lengths");
        }
    }
    TRY(comm_settle(comm, status, error));
    comm->broadcast(comm, tally->sentences, tally->count * sizeof *tally->sentences, root);
    return comm->status(comm, error);
}

static enum berth_status make_assignment(struct shard_run *run, struct berth_error *error) {
    const struct tally *tallies = run->tallies;
    const uint64_t workers = (uint64_t)run->threads;
    uint64_t count = tallies[0].found.articles;
    // Each worker has read all corpora.
    for (int i = 1; i < run->threads; i++) {
        if (tallies[i].found.articles != tallies[0].found.articles) {
            return error_set(error, BERTH_BAD_DATA,
                             "%s: the corpora have %" PRIu64 " articles, and %" PRIu64
                             " when they were read again; they must not change during the run, and "
                             "must be the same for all processes",
                             run->request->sources[0].paths[0], tallies[0].found.articles,
                             tallies[i].found.articles);
        }
    }
    if (count == 0) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: no articles found, so there is nothing to shard",
                         run->request->sources[0].paths[0]);
    }
    uint32_t *sentences = memory_array((size_t)count + 1, sizeof *sentences);
    if (sentences == NULL) {
        return error_no_memory(error, (size_t)count * sizeof *sentences, "the articles' lengths");
    }
    for (uint64_t i = 0; i < count; i++) {
        sentences[i] = tallies[i % workers].sentences[i / workers];
    }
    enum berth_status status =
        shard_assignment_make(&run->plan, sentences, count, &run->assignment, error);
    memory_free(sentences);
    if (status == BERTH_BAD_DATA) {
        (void)error_prefix(error, status, "%s: nothing to shard",
                           run->request->sources[0].paths[0]);
    }
    return status;
}

static enum berth_status check_shards(const struct shard_run *run, struct berth_error *error) {
    const struct shard_plan *request = &run->request->plan, *plan = &run->plan;
    const int fewer_training = plan->training != request->training;
    const int fewer_test = plan->test != request->test;
    if ((fewer_training && run->request->training_is_named) ||
        (fewer_test && run->request->test_is_named)) {
        return error_set(error, BERTH_CONFIG,
                         "%" PRIu64
                         " article%s %s too few for %u training and %u test shards (two articles "
                         "each): set shards to at most %u and test_shards to at most %u",
                         run->assignment.count, number_plural((int64_t)run->assignment.count),
                         run->assignment.count == 1 ? "is" : "are", request->training,
                         request->test, plan->training, plan->test);
    }
    if (fewer_training || fewer_test) {
        log_note(
            run->work.log,
            "making %u shard%s for training and %u for testing, not %u and %u: a shard needs two "
            "articles, and the text has %" PRIu64,
            plan->training, number_plural(plan->training), plan->test, request->training,
            request->test, run->assignment.count);
    }
    return BERTH_OK;
}

static enum berth_status assign_articles(struct shard_run *run, struct berth_error *error) {
    struct comm *comm = run->request->comm;
    run->tallies = memory_array_zeroed((size_t)run->threads, sizeof *run->tallies);
    TRY(comm_settle(comm,
                    run->tallies != NULL
                        ? BERTH_OK
                        : error_no_memory(error, (size_t)run->threads * sizeof *run->tallies,
                                          "the articles' lengths"),
                    error));
    const struct stage_items items = {.count = (size_t)run->threads,
                                      .threads = run->request->threads,
                                      .make = tally_every_nth,
                                      .context = run};
    run->work.phase = "counting sentences";
    run->work.total = (int64_t)run->bytes * run->threads;
    TRY(stage_make(&run->work, &items, error));
    const int ranks = run->request->comm->size;
    for (int i = 0; i < run->threads && ranks > 1; i++) {
        TRY(broadcast_tally(run->request->comm, &run->tallies[i], i % ranks, error));
    }
    TRY(comm_settle(comm, make_assignment(run, error), error));
    const struct tally *worst = &run->tallies[0];
    uint64_t lines = 0;
    for (int i = 0; i < run->threads; i++) {
        const struct tally *tally = &run->tallies[i];
        lines += tally->found.long_lines;
        worst = tally->found.most_words > worst->found.most_words ? tally : worst;
    }
    if (lines > 0) {
        log_warning(run->work.log,
                    "lines of more than %d words: %" PRIu64 ", such as one of %" PRIu64
                    " in %s; each is part of a single article, and an instance keeps at most "
                    "max_seq_length tokens of a sentence, so the rest is lost; expected one "
                    "sentence or paragraph per line, and an empty line after each article",
                    LONG_LINE_WORDS, lines, worst->found.most_words, worst->found.path);
    }
    return comm_settle(comm, check_shards(run, error), error);
}

// Sums the threads of all ranks.
static enum berth_status count_threads(struct shard_run *run, struct berth_error *error) {
    struct comm *comm = run->request->comm;
    double threads = run->request->threads > 0 ? run->request->threads : 1;
    comm->sum(comm, &threads, 1);
    TRY(comm->status(comm, error));
    run->threads = (int)threads;
    return BERTH_OK;
}

// --- a group ------------------------------------------------------------------------------------

static enum berth_status put_articles(struct shard_run *run, struct shard_writer *writer,
                                      struct articles *articles, struct berth_error *error) {
    const char *text;
    size_t length;
    uint64_t reported = 0;
    do {
        TRY(next_article(articles, &text, &length, error));
        if (length > 0) {
            TRY(shard_writer_put(writer, text, length, error));
        }
        if (length == 0 || writer->articles % POLL_ARTICLES == 0) {
            uint64_t at = position(articles);
            stage_advance(&run->work, (int64_t)(at - reported));
            reported = at;
            if (stage_should_stop(&run->work)) {
                return stage_outcome(&run->work, error);
            }
        }
    } while (length > 0);
    return BERTH_OK;
}

static enum berth_status add_entry(struct shard_run *run, const struct shard_writer *writer,
                                   size_t i, struct berth_error *error) {
    const struct shard_counts *counts = &writer->counts[i];
    const struct path name =
        shard_file_name(&run->plan, writer->target.first + i, writer->target.name);
    json *entry = json_new_object();
    int failed = json_set(entry, "bytes", json_new_integer((int64_t)counts->bytes));
    failed |= json_set(entry, "articles", json_new_integer((int64_t)counts->articles));
    failed |= json_set(entry, "sentences", json_new_integer((int64_t)counts->sentences));
    if (failed) {
        json_free(entry);
        return error_no_memory(error, 0, "a manifest");
    }
    return stage_put(&run->stage, name.text, entry, error);
}

// Consecutive shards that are still missing.
struct group {
    size_t first, count;
};

static enum berth_status make_group(void *context, size_t item, struct berth_error *error) {
    struct shard_run *run = context;
    const size_t first = run->groups[item].first, count = run->groups[item].count;
    const struct shard_target target = {run->request->folder, run->request->name, first, count};
    struct shard_writer writer;
    struct articles articles = {.request = run->request};
    TRY(shard_writer_open(&writer, &run->plan, &run->assignment, &target, error));
    enum berth_status status = put_articles(run, &writer, &articles, error);
    corpus_close(articles.corpus);
    if (status == BERTH_OK) {
        status = shard_writer_commit(&writer, error);
    } else {
        shard_writer_abort(&writer);
    }
    for (size_t i = 0; i < count && status == BERTH_OK; i++) {
        status = add_entry(run, &writer, i, error);
    }
    shard_writer_done(&writer);
    return status == BERTH_OK ? stage_save(&run->stage, error) : status;
}

// --- the whole stage -----------------------------------------------------------------------------

// How many shards a thread of this rank can write at a time, besides the corpus that it reads.
static size_t writable_shards(const struct shard_run *run) {
    const size_t files = file_limit(), threads = (size_t)run->request->threads;
    const size_t each = files > OTHER_FILES ? (files - OTHER_FILES) / threads : 0;
    return each > GROUP_MAX ? GROUP_MAX : each > 2 ? each - 1 : 1;
}

// The most shards of a group; the same on all ranks, whose limits of open files may differ.
static enum berth_status agree_on_limit(const struct shard_run *run, size_t *limit,
                                        struct berth_error *error) {
    const size_t shards = shard_count(&run->plan), own = writable_shards(run);
    const size_t workers = run->threads > GROUPS ? (size_t)run->threads : GROUPS;
    const size_t least = (shards + own - 1) / own;
    int groups = (int)(workers > least ? workers : least); // agree makes it the maximum
    TRY(comm_settle_stop(run->request->comm, BERTH_OK, &groups, error));
    *limit = (shards + (size_t)groups - 1) / (size_t)groups;
    return BERTH_OK;
}

// Divides the missing shards into groups of at most `limit`.
static enum berth_status find_groups(struct shard_run *run, size_t limit, size_t *count,
                                     struct berth_error *error) {
    const size_t shards = shard_count(&run->plan);
    *count = 0;
    run->groups = memory_array(shards, sizeof *run->groups);
    if (run->groups == NULL) {
        return error_no_memory(error, shards * sizeof *run->groups, "groups of shards");
    }
    for (size_t i = 0; i < shards; i++) {
        const struct path name = shard_file_name(&run->plan, i, run->request->name);
        const int missing = stage_find(&run->stage, name.text) == NULL;
        struct group *last = *count > 0 ? &run->groups[*count - 1] : NULL;
        if (missing && last != NULL && last->first + last->count == i && last->count < limit) {
            last->count++;
        } else if (missing) {
            run->groups[(*count)++] = (struct group){i, 1};
        }
    }
    return BERTH_OK;
}

static enum berth_status make_missing(struct shard_run *run, struct berth_error *error) {
    struct stage_items items = {
        .threads = run->request->threads, .make = make_group, .context = run};
    size_t limit;
    TRY(agree_on_limit(run, &limit, error));
    TRY(comm_settle(run->request->comm, find_groups(run, limit, &items.count, error), error));
    run->work.phase = "shards";
    run->work.done = 0;
    run->work.total = (int64_t)(run->bytes * items.count);
    TRY(stage_make(&run->work, &items, error));
    return stage_finish(&run->stage, error);
}

static void sum_up(struct shard_run *run) {
    struct json_walk walk = {.object = run->stage.files};
    struct shard_stage *request = run->request;
    request->articles = request->sentences = request->text_bytes = 0;
    request->training = request->test = 0;
    while (json_walk_next(&walk)) {
        request->articles += json_as_integer(json_member(walk.value, "articles"));
        request->sentences += json_as_integer(json_member(walk.value, "sentences"));
        request->text_bytes += json_as_integer(json_member(walk.value, "bytes"));
        const int is_test = pretraining_part_of(walk.key) == PART_TEST;
        request->test += (uint32_t)is_test;
        request->training += (uint32_t)!is_test;
    }
}

// Prepares the work of the stage; each rank does this by itself.
static enum berth_status prepare(struct shard_run *run, struct manifest_settings *settings,
                                 struct berth_error *error) {
    const struct shard_plan *plan = &run->request->plan;
    char digest[DIGEST_HEX_SIZE];
    TRY(digest_corpora(run, digest, error));
    manifest_set_text(settings, "articles_sha256", digest);
    manifest_set_integer(settings, "shards", plan->training);
    manifest_set_integer(settings, "test_shards", plan->test);
    manifest_set_real(settings, "fraction_test_set", plan->test_fraction);
    manifest_set_integer(settings, "seed", plan->seed);
    return BERTH_OK;
}

static enum berth_status make_shards(struct shard_run *run, struct manifest_settings *settings,
                                     struct berth_error *error) {
    struct comm *comm = run->request->comm;
    const struct path manifest = path_in(run->request->folder, SHARD_MANIFEST);
    const struct stage_location location = {run->request->folder, manifest.text, comm};
    TRY(comm_settle(comm, prepare(run, settings, error), error));
    TRY(stage_open(&run->stage, &location, settings, error));
    TRY(count_threads(run, error));
    sum_up(run);
    int64_t before = run->request->text_bytes;
    if (!run->stage.complete) {
        TRY(assign_articles(run, error));
        TRY(make_missing(run, error));
        sum_up(run);
    }
    run->request->written_bytes = run->request->text_bytes - before;
    return BERTH_OK;
}

enum berth_status shard_stage_run(struct shard_stage *stage, const struct berth_log *log,
                                  const atomic_int *stop, struct berth_error *error) {
    struct shard_run run = {.request = stage, .plan = stage->plan, .stage.lock.descriptor = -1};
    struct manifest_settings settings = {.count = 0};
    run.work = (struct stage_work){.reporting = PTHREAD_MUTEX_INITIALIZER,
                                   .log = log,
                                   .stop = stop,
                                   .comm = stage->comm,
                                   .in_bytes = 1};
    enum berth_status status = make_shards(&run, &settings, error);
    stage_close(&run.stage);
    for (int i = 0; i < run.threads && run.tallies != NULL; i++) {
        memory_free(run.tallies[i].sentences);
    }
    memory_free(run.tallies);
    memory_free(run.groups);
    shard_assignment_done(&run.assignment);
    return status;
}
