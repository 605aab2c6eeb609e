// SPDX-License-Identifier: Apache-2.0
// Converts a dump. A page goes this way: block of the dump -> XML -> batch -> cleaned by any thread
// -> file, in order.
//
// A batch of pages is collected, then cleaned by all threads, then written. So memory holds one
// batch, the blocks being decompressed, and the page being read. With several ranks the batch is
// that many times larger; each rank holds the text of its own part, and rank 0 also the titles of
// all parts. Called by `berth prepare` (api/prepare.c); mediawiki.c finds pages, wikitext.c cleans
// them, wikipedia_files.c writes them.
#include "data/wikipedia/wikipedia.h"

#include "core/buffer.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/number.h"
#include "wiki/dump.h"
#include "wiki/mediawiki.h"
#include "wiki/wikipedia_files.h"
#include "wiki/wikitext.h"

#include <inttypes.h>
#include <omp.h>
#include <stdatomic.h>

#define BATCH_BYTES ((size_t)4 << 20) // of wikitext per thread
#define PHASE "wikipedia text"

// --- the job ------------------------------------------------------------------------------------

struct article {
    int64_t id;
    int owner;                  // the rank that cleans it
    size_t title, text, length; // offsets in the batch; the title is NUL-terminated
    const char *plain;
    size_t plain_length;
    int64_t left_out;               // sentences
    struct wikipedia_position end;  // after the page
    struct wikipedia_counts counts; // including the page
};

// The state of a cleaning thread. Its texts stay until they are written.
struct cleaner {
    struct wikitext wikitext;
    struct buffer plain;
};

// What earlier runs have finished.
struct found {
    int complete;
    size_t count;               // of files
    struct wikipedia_file last; // if there are any
};

struct job {
    const struct wikipedia_settings *settings;
    struct comm *comm; // of the settings
    const struct berth_log *log;
    struct wikipedia_counts *counts;
    struct dump dump;
    struct mediawiki_reader *reader,
        *site_reader; // site_reader: for the head of the dump, when resuming
    char *url;        // up to "?curid="

    struct buffer batch;      // titles and wikitext
    struct article *articles; // of this rank; on rank 0 of all ranks, in the order of their owners
    size_t article_count, article_capacity;
    size_t own_count, own_length; // of the articles, and of the batch, that this rank cleans
    uint64_t batch_bytes;         // of the whole batch, over all ranks
    uint64_t bytes_per_rank;      // of the batch
    struct cleaner *cleaners;     // [threads]
    struct buffer
        passed; // from one rank to the others: what struct passed says of articles, then text

    struct wikipedia_files files; // on rank 0
    struct found found;           // by rank 0
    int all_threads;              // of all ranks
    int all_failed;               // reading the dump together failed, on all ranks alike
    uint64_t start_offset;        // offset in the XML of the first page to read
};

// --- pages in -----------------------------------------------------------------------------------

// Counts the page; returns 1 if it is an article to be cleaned.
static int count_page(struct wikipedia_counts *counts, const struct mediawiki_page *page) {
    counts->pages++;
    counts->xml_bytes = (int64_t)page->end;
    int64_t *skipped = page->is_damaged    ? &counts->damaged
                       : page->ns != 0     ? &counts->other_namespaces
                       : page->is_redirect ? &counts->redirects
                       : page->is_oversize ? &counts->oversize
                                           : NULL;
    if (skipped != NULL) {
        ++*skipped;
    }
    return skipped == NULL;
}

// Ranks get consecutive articles of the batch, with about equally much text.
static int owner_of(const struct job *job) {
    const uint64_t owner = job->batch_bytes / job->bytes_per_rank;
    return owner < (uint64_t)job->comm->size ? (int)owner : job->comm->size - 1;
}

static enum berth_status add_page(void *context, const struct mediawiki_page *page,
                                  struct berth_error *error) {
    struct job *job = context;
    if (!count_page(job->counts, page)) {
        return BERTH_OK;
    }
    const int owner = owner_of(job), is_own = owner == job->comm->rank;
    job->batch_bytes += strlen(page->title) + 1 + page->text_length;
    if (!is_own && job->comm->rank > 0) {
        return BERTH_OK;
    }
    size_t needed = job->article_count + 1;
    struct article *grown =
        memory_grow(job->articles, &job->article_capacity, needed, sizeof *grown);
    if (grown == NULL) {
        return error_no_memory(error, needed * sizeof *grown, "a batch of pages");
    }
    job->articles = grown;
    struct article *article = &job->articles[job->article_count++];
    *article = (struct article){
        .id = page->id, .owner = owner, .counts = *job->counts, .length = page->text_length};
    article->end = (struct wikipedia_position){page->end, job->dump.block, job->dump.bit};
    article->title = job->batch.length;
    buffer_put(&job->batch, page->title, strlen(page->title) + 1);
    article->text = job->batch.length;
    if (is_own) {
        buffer_put(&job->batch, page->text, page->text_length);
        job->own_length = job->batch.length;
        job->own_count = job->article_count;
    }
    return job->batch.failed ? error_no_memory(error, page->text_length, "a batch of pages")
                             : BERTH_OK;
}

// --- cleaning -----------------------------------------------------------------------------------

// Appends to the buffer of the cleaner, which may move; so article->plain is set after all
// articles.
static enum berth_status clean_one(const struct job *job, struct cleaner *cleaner,
                                   struct article *article, struct berth_error *error) {
    const char *plain;
    TRY(wikitext_clean(&cleaner->wikitext, job->batch.bytes + article->text, article->length,
                       &plain, &article->plain_length, error));
    article->left_out = cleaner->wikitext.left_out;
    size_t before = cleaner->plain.length;
    wikipedia_put_text(&cleaner->plain, plain, article->plain_length);
    article->plain_length = cleaner->plain.length - before;
    return cleaner->plain.failed ? error_no_memory(error, article->plain_length, "cleaned text")
                                 : BERTH_OK;
}

// Cleans one thread's run of consecutive articles, so that its texts are in order.
static void clean_run(struct job *job, int thread, int threads, enum berth_status *status,
                      struct berth_error *error) {
    struct cleaner *cleaner = &job->cleaners[thread];
    const struct mediawiki_site *site =
        mediawiki_get_site(job->site_reader != NULL ? job->site_reader : job->reader);
    cleaner->wikitext.namespaces = site->namespaces;
    cleaner->wikitext.namespace_count = site->namespace_count;
    buffer_clear(&cleaner->plain);
    size_t begin = job->own_length / (size_t)threads * (size_t)thread;
    size_t end =
        thread + 1 == threads ? SIZE_MAX : job->own_length / (size_t)threads * (size_t)(thread + 1);
    size_t first = 0;
    while (first < job->own_count && job->articles[first].title < begin) {
        first++;
    }
    size_t last = first;
    for (; last < job->own_count && job->articles[last].title < end; last++) {
        struct berth_error own;
        enum berth_status result = clean_one(job, cleaner, &job->articles[last], &own);
        if (result != BERTH_OK) {
#pragma omp critical(wikipedia_failure)
            *status = error_set(error, result, "%s", own.message);
            return;
        }
    }
    const char *plain = cleaner->plain.bytes;
    for (size_t i = first; i < last; i++) {
        job->articles[i].plain = plain;
        plain += job->articles[i].plain_length;
    }
}

static enum berth_status clean_batch(struct job *job, struct berth_error *error) {
    enum berth_status status = BERTH_OK;
    int threads = job->settings->threads;
#pragma omp parallel for schedule(static, 1) num_threads(threads)
    for (int thread = 0; thread < threads; thread++) {
        clean_run(job, thread, threads, &status, error);
    }
    return status;
}

// --- articles out -------------------------------------------------------------------------------

static enum berth_status write_articles(struct job *job, size_t first, size_t count,
                                        struct berth_error *error) {
    for (size_t i = first; i < first + count; i++) {
        const struct article *article = &job->articles[i];
        const struct wikipedia_article cleaned = {.id = article->id,
                                                  .url = job->url,
                                                  .title = job->batch.bytes + article->title,
                                                  .text = article->plain,
                                                  .length = article->plain_length,
                                                  .left_out = article->left_out,
                                                  .end = article->end,
                                                  .counts = article->counts};
        TRY(wikipedia_files_put(&job->files, &cleaned, error));
    }
    return BERTH_OK;
}

// --- from rank to rank ---------------------------------------------------------------------------

// What a rank passes on about each article, besides the text.
struct passed {
    int64_t id, left_out;
    uint64_t length;
};

static enum berth_status pack_cleaned(struct job *job, struct berth_error *error) {
    buffer_clear(&job->passed);
    for (size_t i = 0; i < job->own_count; i++) {
        const struct passed entry = {job->articles[i].id, job->articles[i].left_out,
                                     job->articles[i].plain_length};
        buffer_put(&job->passed, (const char *)&entry, sizeof entry);
    }
    for (int i = 0; i < job->settings->threads; i++) { // each thread has consecutive articles
        buffer_put(&job->passed, job->cleaners[i].plain.bytes, job->cleaners[i].plain.length);
    }
    return job->passed.failed ? error_no_memory(error, job->passed.length, "cleaned text")
                              : BERTH_OK;
}

// Copies the cleaned text of rank `root`, of *count articles, to all ranks.
static enum berth_status broadcast_cleaned(struct job *job, int root, size_t *count,
                                           struct berth_error *error) {
    struct comm *comm = job->comm;
    uint64_t sizes[2] = {job->own_count, job->passed.length};
    comm->broadcast(comm, sizes, sizeof sizes, root);
    enum berth_status status = comm->status(comm, error);
    if (status == BERTH_OK && comm->rank != root) {
        buffer_clear(&job->passed);
        status = buffer_reserve(&job->passed, sizes[1])
                     ? BERTH_OK
                     : error_no_memory(error, sizes[1], "cleaned text");
    }
    TRY(comm_settle(comm, status, error));
    *count = sizes[0];
    comm->broadcast(comm, job->passed.bytes, sizes[1], root);
    return comm->status(comm, error);
}

// Assigns the text that rank `owner` has passed on to the articles [first, first + count).
static enum berth_status assign_cleaned(struct job *job, int owner, size_t first, size_t count,
                                        struct berth_error *error) {
    const char *plain = job->passed.bytes + count * sizeof(struct passed);
    const size_t left = job->article_count - first;
    int same = count == left || (count < left && job->articles[first + count].owner > owner);
    for (size_t i = 0; i < count && same; i++) {
        struct passed entry;
        memcpy(&entry, job->passed.bytes + i * sizeof entry, sizeof entry);
        same = job->articles[first + i].owner == owner && job->articles[first + i].id == entry.id;
        job->articles[first + i].plain = plain;
        job->articles[first + i].plain_length = entry.length;
        job->articles[first + i].left_out = entry.left_out;
        plain += entry.length;
    }
    return same ? BERTH_OK
                : error_set(error, BERTH_BAD_DATA,
                            "rank %d read different pages than rank 0: %s is not the same on all "
                            "hosts",
                            owner, job->settings->dump);
}

static enum berth_status write_others(struct job *job, struct berth_error *error) {
    size_t first = job->own_count, count;
    for (int owner = 1; owner < job->comm->size; owner++, first += count) {
        // Only now, because the text of the rank before was received in the same memory.
        enum berth_status status = job->comm->rank == owner ? pack_cleaned(job, error) : BERTH_OK;
        TRY(comm_settle(job->comm, status, error));
        TRY(broadcast_cleaned(job, owner, &count, error));
        if (job->comm->rank == 0) {
            status = assign_cleaned(job, owner, first, count, error);
            if (status == BERTH_OK) {
                status = write_articles(job, first, count, error);
            }
        }
        TRY(comm_settle(job->comm, status, error));
    }
    return BERTH_OK;
}

static enum berth_status write_batch(struct job *job, struct berth_error *error) {
    TRY(comm_settle(job->comm,
                    job->comm->rank == 0 ? write_articles(job, 0, job->own_count, error) : BERTH_OK,
                    error));
    if (job->comm->size > 1) {
        TRY(write_others(job, error));
    }
    job->article_count = job->own_count = job->own_length = 0;
    job->batch_bytes = 0;
    buffer_clear(&job->batch);
    return BERTH_OK;
}

// --- the whole conversion ------------------------------------------------------------------------

// "https://en.wikipedia.org/wiki" of ".../wiki/Main_Page".
static enum berth_status make_url(struct job *job, struct berth_error *error) {
    const char *base =
        mediawiki_get_site(job->site_reader != NULL ? job->site_reader : job->reader)->base;
    if (job->url != NULL) {
        return BERTH_OK;
    }
    const char *slash = base != NULL ? strrchr(base, '/') : NULL;
    job->url =
        memory_string_of(base != NULL ? base : "", slash != NULL ? (size_t)(slash - base) : 0);
    return job->url != NULL ? BERTH_OK : error_no_memory(error, 1, "the wiki's address");
}

static enum berth_status clean_pages(struct job *job, struct berth_error *error) {
    TRY(make_url(job, error));
    return clean_batch(job, error);
}

static enum berth_status finish_batch(struct job *job, struct berth_error *error) {
    TRY(comm_settle(job->comm, clean_pages(job, error), error));
    return write_batch(job, error);
}

static enum berth_status stop_at_first_page(void *context, const struct mediawiki_page *page,
                                            struct berth_error *error) {
    *(int *)context = 1;
    return error_set(error, BERTH_INTERRUPTED, "the head has been read");
}

// When a run resumes in the middle of a dump, reads the head again for the description of the wiki.
static enum berth_status read_site(struct job *job, struct berth_error *error) {
    const struct wikipedia_position begin = {0, 0, 0};
    struct dump dump;
    const char *bytes;
    size_t length = 1;
    int done = 0;
    enum berth_status status =
        dump_open(&dump, job->settings->dump, &dump_single_reader, &begin, error);
    if (status == BERTH_OK) {
        status = mediawiki_open(job->settings->dump, 0, stop_at_first_page, &done,
                                &job->site_reader, error);
    }
    while (status == BERTH_OK && length > 0) {
        status = dump_next(&dump, &bytes, &length, error);
        if (status == BERTH_OK) {
            status = mediawiki_feed(job->site_reader, bytes, length, error);
        }
    }
    dump_close(&dump);
    return done ? BERTH_OK : status;
}

// Opens the dump where the finished files end.
static enum berth_status open_dump(struct job *job, struct berth_error *error) {
    const struct wikipedia_position position = job->found.last.next;
    if (job->found.count > 0) {
        *job->counts = job->found.last.counts;
        log_note(job->log, "found %zu finished text files; resuming after page %" PRId64,
                 job->found.count, job->counts->pages);
        TRY(read_site(job, error));
    }
    const struct dump_readers readers = {job->settings->threads,
                                         job->comm->size > 1 ? job->comm : NULL, job->all_threads};
    TRY(dump_open(&job->dump, job->settings->dump, &readers, &position, error));
    return mediawiki_open(job->settings->dump, position.page, add_page, job, &job->reader, error);
}

// Feeds the parser, without the bytes before the first page to read.
static enum berth_status feed(struct job *job, const char *bytes, size_t length,
                              uint64_t start_offset, struct berth_error *error) {
    uint64_t skip = start_offset > job->dump.block ? start_offset - job->dump.block : 0;
    return skip >= length ? BERTH_OK
                          : mediawiki_feed(job->reader, bytes + skip, length - (size_t)skip, error);
}

static int is_stop_requested(const atomic_int *stop) {
    return stop != NULL && *stop != 0;
}

// Reads until the batch is full or the dump ends; a single rank also stops when asked to.
static enum berth_status read_batch(struct job *job, const atomic_int *stop, int *at_end,
                                    struct berth_error *error) {
    const char *bytes;
    size_t length;
    while (job->batch_bytes < job->bytes_per_rank * (uint64_t)job->comm->size) {
        const enum berth_status status = dump_next(&job->dump, &bytes, &length, error);
        if (status != BERTH_OK) {
            job->all_failed = job->dump.is_divided;
            return status;
        }
        dump_progress(&job->dump, PHASE, job->log);
        if (length == 0) {
            *at_end = 1;
            return mediawiki_finish(job->reader, error);
        }
        TRY(feed(job, bytes, length, job->start_offset, error));
        if (job->comm->size == 1 && is_stop_requested(stop)) {
            return BERTH_OK;
        }
    }
    return BERTH_OK;
}

// A stop request to one rank stops all.
static enum berth_status check_stop(const struct job *job, const atomic_int *stop,
                                    struct berth_error *error) {
    struct comm *comm = job->comm;
    double requests = is_stop_requested(stop);
    comm->sum(comm, &requests, 1);
    TRY(comm->status(comm, error));
    return requests > 0 ? error_set(error, BERTH_INTERRUPTED,
                                    "stopped; %zu finished text files are kept, and the next run "
                                    "continues after them",
                                    job->files.state.count)
                        : BERTH_OK;
}

static enum berth_status read_dump(struct job *job, const atomic_int *stop,
                                   struct berth_error *error) {
    job->start_offset = job->found.last.next.page;
    for (int at_end = 0; !at_end;) {
        const enum berth_status status = read_batch(job, stop, &at_end, error);
        TRY(job->all_failed ? status : comm_settle(job->comm, status, error));
        TRY(check_stop(job, stop, error));
        TRY(finish_batch(job, error));
    }
    return BERTH_OK;
}

static enum berth_status finish(struct job *job, struct berth_error *error) {
    const struct wikipedia_counts *saved = &job->files.saved;
    if (saved->articles == 0) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: no articles found; pages: %" PRId64 ", redirects: %" PRId64
                         ", in other namespaces: %" PRId64 ", without text: %" PRId64
                         ", damaged or too long: %" PRId64,
                         job->settings->dump, job->counts->pages, job->counts->redirects,
                         job->counts->other_namespaces, saved->empty,
                         job->counts->damaged + job->counts->oversize);
    }
    return wikipedia_files_end(&job->files, job->counts, error);
}

// Rank 0 locks the folder and finds what earlier runs have finished.
static enum berth_status open_folder(struct job *job, struct berth_error *error) {
    if (job->comm->rank > 0) {
        return BERTH_OK;
    }
    TRY(wikipedia_files_open(&job->files, job->settings, error));
    job->found = (struct found){.complete = job->files.state.complete,
                                .count = job->files.state.count,
                                .last = job->files.last};
    return BERTH_OK;
}

// Gives all ranks what they must agree on.
static enum berth_status broadcast_found(struct job *job, struct berth_error *error) {
    struct comm *comm = job->comm;
    double threads = job->settings->threads;
    comm->broadcast(comm, &job->found, sizeof job->found, 0);
    comm->sum(comm, &threads, 1);
    TRY(comm->status(comm, error));
    job->all_threads = (int)threads;
    job->bytes_per_rank = BATCH_BYTES * (uint64_t)job->all_threads / (uint64_t)job->comm->size;
    return BERTH_OK;
}

static enum berth_status run(struct job *job, const atomic_int *stop, struct berth_error *error) {
    TRY(comm_settle(job->comm, open_folder(job, error), error));
    TRY(broadcast_found(job, error));
    if (job->found.complete) {
        *job->counts = job->found.last.counts;
        log_note(job->log, "%s: the text is complete (%zu file%s)", job->settings->folder,
                 job->found.count, number_plural((int64_t)job->found.count));
        return BERTH_OK;
    }
    job->cleaners = memory_array_zeroed((size_t)job->settings->threads, sizeof *job->cleaners);
    TRY(comm_settle(job->comm,
                    job->cleaners != NULL
                        ? open_dump(job, error)
                        : error_no_memory(error, sizeof *job->cleaners, "the cleaners"),
                    error));
    TRY(read_dump(job, stop, error));
    return comm_settle(job->comm, job->comm->rank == 0 ? finish(job, error) : BERTH_OK, error);
}

static void done(struct job *job) {
    mediawiki_close(job->reader);
    mediawiki_close(job->site_reader);
    dump_close(&job->dump);
    for (int i = 0; job->cleaners != NULL && i < job->settings->threads; i++) {
        wikitext_done(&job->cleaners[i].wikitext);
        buffer_done(&job->cleaners[i].plain);
    }
    memory_free(job->cleaners);
    memory_free(job->articles);
    memory_free(job->url);
    buffer_done(&job->batch);
    buffer_done(&job->passed);
    if (job->comm->rank == 0) {
        wikipedia_files_close(&job->files);
    }
}

// Reports the skipped pages.
static void report(const struct berth_log *log, const struct wikipedia_counts *counts) {
    if (counts->damaged > 0) {
        log_warning(log, "skipped %" PRId64 " page%s with invalid UTF-8, or without a title or id",
                    counts->damaged, number_plural(counts->damaged));
    }
    if (counts->oversize > 0) {
        log_warning(log, "skipped %" PRId64 " page%s longer than %zu bytes", counts->oversize,
                    number_plural(counts->oversize), MEDIAWIKI_TEXT_MAX);
    }
}

enum berth_status wikipedia_text(const struct wikipedia_settings *settings,
                                 const struct berth_log *log, const atomic_int *stop,
                                 struct wikipedia_counts *counts, struct berth_error *error) {
    struct wikipedia_settings own = *settings;
    own.threads = own.threads > 0 ? own.threads : omp_get_max_threads();
    own.file_size = own.file_size > 0 ? own.file_size : WIKIPEDIA_FILE_SIZE;
    struct job job = {.settings = &own,
                      .comm = settings->comm,
                      .log = log,
                      .counts = counts,
                      .dump.file.descriptor = -1,
                      .files = {.lock.descriptor = -1, .writer.descriptor = -1}};
    const struct path first = wikipedia_file_path(settings->folder, 0);
    *counts = (struct wikipedia_counts){0};
    // Checked before a folder is created.
    TRY(comm_settle(settings->comm,
                    file_require(settings->dump, "a dump of a wiki, .xml or .xml.bz2", error),
                    error));
    const size_t existing = dir_existing(first.text);
    const enum berth_status status = run(&job, stop, error);
    done(&job);
    if (status == BERTH_OK) {
        report(log, counts);
    } else if (settings->comm->rank == 0) {
        dir_remove_created(first.text, existing);
    }
    return status;
}
