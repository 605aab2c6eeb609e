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

struct extraction {
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
static int owner_of(const struct extraction *extraction) {
    const uint64_t owner = extraction->batch_bytes / extraction->bytes_per_rank;
    return owner < (uint64_t)extraction->comm->size ? (int)owner : extraction->comm->size - 1;
}

static enum berth_status add_page(void *context, const struct mediawiki_page *page,
                                  struct berth_error *error) {
    struct extraction *extraction = context;
    if (!count_page(extraction->counts, page)) {
        return BERTH_OK;
    }
    const int owner = owner_of(extraction), is_own = owner == extraction->comm->rank;
    extraction->batch_bytes += strlen(page->title) + 1 + page->text_length;
    if (!is_own && extraction->comm->rank > 0) {
        return BERTH_OK;
    }
    size_t needed = extraction->article_count + 1;
    struct article *grown =
        memory_grow(extraction->articles, &extraction->article_capacity, needed, sizeof *grown);
    if (grown == NULL) {
        return error_no_memory(error, needed * sizeof *grown, "a batch of pages");
    }
    extraction->articles = grown;
    struct article *article = &extraction->articles[extraction->article_count++];
    *article = (struct article){
        .id = page->id, .owner = owner, .counts = *extraction->counts, .length = page->text_length};
    article->end =
        (struct wikipedia_position){page->end, extraction->dump.block, extraction->dump.bit};
    article->title = extraction->batch.length;
    buffer_put(&extraction->batch, page->title, strlen(page->title) + 1);
    article->text = extraction->batch.length;
    if (is_own) {
        buffer_put(&extraction->batch, page->text, page->text_length);
        extraction->own_length = extraction->batch.length;
        extraction->own_count = extraction->article_count;
    }
    return extraction->batch.failed ? error_no_memory(error, page->text_length, "a batch of pages")
                                    : BERTH_OK;
}

// --- cleaning -----------------------------------------------------------------------------------

// Appends to the buffer of the cleaner, which may move; so article->plain is set after all
// articles.
static enum berth_status clean_one(const struct extraction *extraction, struct cleaner *cleaner,
                                   struct article *article, struct berth_error *error) {
    const char *plain;
    TRY(wikitext_clean(&cleaner->wikitext, extraction->batch.bytes + article->text, article->length,
                       &plain, &article->plain_length, error));
    article->left_out = cleaner->wikitext.left_out;
    size_t before = cleaner->plain.length;
    wikipedia_put_text(&cleaner->plain, plain, article->plain_length);
    article->plain_length = cleaner->plain.length - before;
    return cleaner->plain.failed ? error_no_memory(error, article->plain_length, "cleaned text")
                                 : BERTH_OK;
}

// Cleans one thread's run of consecutive articles, so that its texts are in order.
static void clean_run(struct extraction *extraction, int thread, int threads,
                      enum berth_status *status, struct berth_error *error) {
    struct cleaner *cleaner = &extraction->cleaners[thread];
    const struct mediawiki_site *site = mediawiki_get_site(
        extraction->site_reader != NULL ? extraction->site_reader : extraction->reader);
    cleaner->wikitext.namespaces = site->namespaces;
    cleaner->wikitext.namespace_count = site->namespace_count;
    buffer_clear(&cleaner->plain);
    size_t begin = extraction->own_length / (size_t)threads * (size_t)thread;
    size_t end = thread + 1 == threads
                     ? SIZE_MAX
                     : extraction->own_length / (size_t)threads * (size_t)(thread + 1);
    size_t first = 0;
    while (first < extraction->own_count && extraction->articles[first].title < begin) {
        first++;
    }
    size_t last = first;
    for (; last < extraction->own_count && extraction->articles[last].title < end; last++) {
        struct berth_error own;
        enum berth_status result =
            clean_one(extraction, cleaner, &extraction->articles[last], &own);
        if (result != BERTH_OK) {
#pragma omp critical(wikipedia_failure)
            *status = error_set(error, result, "%s", own.message);
            return;
        }
    }
    const char *plain = cleaner->plain.bytes;
    for (size_t i = first; i < last; i++) {
        extraction->articles[i].plain = plain;
        plain += extraction->articles[i].plain_length;
    }
}

static enum berth_status clean_batch(struct extraction *extraction, struct berth_error *error) {
    enum berth_status status = BERTH_OK;
    int threads = extraction->settings->threads;
#pragma omp parallel for schedule(static, 1) num_threads(threads)
    for (int thread = 0; thread < threads; thread++) {
        clean_run(extraction, thread, threads, &status, error);
    }
    return status;
}

// --- articles out -------------------------------------------------------------------------------

static enum berth_status write_articles(struct extraction *extraction, size_t first, size_t count,
                                        struct berth_error *error) {
    for (size_t i = first; i < first + count; i++) {
        const struct article *article = &extraction->articles[i];
        const struct wikipedia_article cleaned = {.id = article->id,
                                                  .url = extraction->url,
                                                  .title = extraction->batch.bytes + article->title,
                                                  .text = article->plain,
                                                  .length = article->plain_length,
                                                  .left_out = article->left_out,
                                                  .end = article->end,
                                                  .counts = article->counts};
        TRY(wikipedia_files_put(&extraction->files, &cleaned, error));
    }
    return BERTH_OK;
}

// --- from rank to rank ---------------------------------------------------------------------------

// What a rank passes on about each article, besides the text.
struct passed {
    int64_t id, left_out;
    uint64_t length;
};

static enum berth_status pack_cleaned(struct extraction *extraction, struct berth_error *error) {
    buffer_clear(&extraction->passed);
    for (size_t i = 0; i < extraction->own_count; i++) {
        const struct passed entry = {extraction->articles[i].id, extraction->articles[i].left_out,
                                     extraction->articles[i].plain_length};
        buffer_put(&extraction->passed, (const char *)&entry, sizeof entry);
    }
    for (int i = 0; i < extraction->settings->threads;
         i++) { // each thread has consecutive articles
        buffer_put(&extraction->passed, extraction->cleaners[i].plain.bytes,
                   extraction->cleaners[i].plain.length);
    }
    return extraction->passed.failed
               ? error_no_memory(error, extraction->passed.length, "cleaned text")
               : BERTH_OK;
}

// Copies the cleaned text of rank `root`, of *count articles, to all ranks.
static enum berth_status broadcast_cleaned(struct extraction *extraction, int root, size_t *count,
                                           struct berth_error *error) {
    struct comm *comm = extraction->comm;
    uint64_t sizes[2] = {extraction->own_count, extraction->passed.length};
    comm->broadcast(comm, sizes, sizeof sizes, root);
    enum berth_status status = comm->status(comm, error);
    if (status == BERTH_OK && comm->rank != root) {
        buffer_clear(&extraction->passed);
        status = buffer_reserve(&extraction->passed, sizes[1])
                     ? BERTH_OK
                     : error_no_memory(error, sizes[1], "cleaned text");
    }
    TRY(comm_settle(comm, status, error));
    *count = sizes[0];
    comm->broadcast(comm, extraction->passed.bytes, sizes[1], root);
    return comm->status(comm, error);
}

// Assigns the text that rank `owner` has passed on to the articles [first, first + count).
static enum berth_status assign_cleaned(struct extraction *extraction, int owner, size_t first,
                                        size_t count, struct berth_error *error) {
    const char *plain = extraction->passed.bytes + count * sizeof(struct passed);
    const size_t left = extraction->article_count - first;
    int same = count == left || (count < left && extraction->articles[first + count].owner > owner);
    for (size_t i = 0; i < count && same; i++) {
        struct passed entry;
        memcpy(&entry, extraction->passed.bytes + i * sizeof entry, sizeof entry);
        same = extraction->articles[first + i].owner == owner &&
               extraction->articles[first + i].id == entry.id;
        extraction->articles[first + i].plain = plain;
        extraction->articles[first + i].plain_length = entry.length;
        extraction->articles[first + i].left_out = entry.left_out;
        plain += entry.length;
    }
    return same ? BERTH_OK
                : error_set(error, BERTH_BAD_DATA,
                            "rank %d read different pages than rank 0: %s is not the same on all "
                            "hosts",
                            owner, extraction->settings->dump);
}

static enum berth_status write_others(struct extraction *extraction, struct berth_error *error) {
    size_t first = extraction->own_count, count;
    for (int owner = 1; owner < extraction->comm->size; owner++, first += count) {
        // Only now, because the text of the rank before was received in the same memory.
        enum berth_status status =
            extraction->comm->rank == owner ? pack_cleaned(extraction, error) : BERTH_OK;
        TRY(comm_settle(extraction->comm, status, error));
        TRY(broadcast_cleaned(extraction, owner, &count, error));
        if (extraction->comm->rank == 0) {
            status = assign_cleaned(extraction, owner, first, count, error);
            if (status == BERTH_OK) {
                status = write_articles(extraction, first, count, error);
            }
        }
        TRY(comm_settle(extraction->comm, status, error));
    }
    return BERTH_OK;
}

// --- the whole conversion ------------------------------------------------------------------------

// "https://en.wikipedia.org/wiki" of ".../wiki/Main_Page".
static enum berth_status make_url(struct extraction *extraction, struct berth_error *error) {
    const char *base = mediawiki_get_site(extraction->site_reader != NULL ? extraction->site_reader
                                                                          : extraction->reader)
                           ->base;
    if (extraction->url != NULL) {
        return BERTH_OK;
    }
    const char *slash = base != NULL ? strrchr(base, '/') : NULL;
    extraction->url =
        memory_string_of(base != NULL ? base : "", slash != NULL ? (size_t)(slash - base) : 0);
    return extraction->url != NULL ? BERTH_OK : error_no_memory(error, 1, "the wiki's address");
}

static enum berth_status clean_pages(struct extraction *extraction, struct berth_error *error) {
    TRY(make_url(extraction, error));
    return clean_batch(extraction, error);
}

static enum berth_status stop_at_first_page(void *context, const struct mediawiki_page *page,
                                            struct berth_error *error) {
    *(int *)context = 1;
    return error_set(error, BERTH_INTERRUPTED, "the head has been read");
}

// When a run resumes in the middle of a dump, reads the head again for the description of the wiki.
static enum berth_status read_site(struct extraction *extraction, struct berth_error *error) {
    const struct wikipedia_position begin = {0, 0, 0};
    struct dump dump;
    const char *bytes;
    size_t length = 1;
    int done = 0;
    enum berth_status status =
        dump_open(&dump, extraction->settings->dump, &dump_single_reader, &begin, error);
    if (status == BERTH_OK) {
        status = mediawiki_open(extraction->settings->dump, 0, stop_at_first_page, &done,
                                &extraction->site_reader, error);
    }
    while (status == BERTH_OK && length > 0) {
        status = dump_next(&dump, &bytes, &length, error);
        if (status == BERTH_OK) {
            status = mediawiki_feed(extraction->site_reader, bytes, length, error);
        }
    }
    dump_close(&dump);
    return done ? BERTH_OK : status;
}

// Opens the dump where the finished files end.
static enum berth_status open_dump(struct extraction *extraction, struct berth_error *error) {
    const struct wikipedia_position position = extraction->found.last.next;
    if (extraction->found.count > 0) {
        *extraction->counts = extraction->found.last.counts;
        log_note(extraction->log, "found %zu finished text files; resuming after page %" PRId64,
                 extraction->found.count, extraction->counts->pages);
        TRY(read_site(extraction, error));
    }
    const struct dump_readers readers = {extraction->settings->threads,
                                         extraction->comm->size > 1 ? extraction->comm : NULL,
                                         extraction->all_threads};
    TRY(dump_open(&extraction->dump, extraction->settings->dump, &readers, &position, error));
    return mediawiki_open(extraction->settings->dump, position.page, add_page, extraction,
                          &extraction->reader, error);
}

static int is_stop_requested(const atomic_int *stop) {
    return stop != NULL && *stop != 0;
}

// Reads until the batch is full or the dump ends; a single rank also stops when asked to.
static enum berth_status read_batch(struct extraction *extraction, const atomic_int *stop,
                                    int *at_end, struct berth_error *error) {
    const char *bytes;
    size_t length;
    while (extraction->batch_bytes <
           extraction->bytes_per_rank * (uint64_t)extraction->comm->size) {
        const enum berth_status status = dump_next(&extraction->dump, &bytes, &length, error);
        if (status != BERTH_OK) {
            extraction->all_failed = extraction->dump.is_divided;
            return status;
        }
        dump_progress(&extraction->dump, PHASE, extraction->log);
        if (length == 0) {
            *at_end = 1;
            return mediawiki_finish(extraction->reader, error);
        }
        // Feeds the parser, without the bytes before the first page to read.
        const uint64_t start_offset = extraction->start_offset;
        uint64_t skip =
            start_offset > extraction->dump.block ? start_offset - extraction->dump.block : 0;
        if (skip < length) {
            TRY(mediawiki_feed(extraction->reader, bytes + skip, length - (size_t)skip, error));
        }
        if (extraction->comm->size == 1 && is_stop_requested(stop)) {
            return BERTH_OK;
        }
    }
    return BERTH_OK;
}

static enum berth_status read_dump(struct extraction *extraction, const atomic_int *stop,
                                   struct berth_error *error) {
    extraction->start_offset = extraction->found.last.next.page;
    for (int at_end = 0; !at_end;) {
        const enum berth_status status = read_batch(extraction, stop, &at_end, error);
        TRY(extraction->all_failed ? status : comm_settle(extraction->comm, status, error));
        // A stop request to one rank stops all.
        struct comm *comm = extraction->comm;
        double requests = is_stop_requested(stop);
        comm->sum(comm, &requests, 1);
        TRY(comm->status(comm, error));
        if (requests > 0) {
            return error_set(error, BERTH_INTERRUPTED,
                             "stopped; %zu finished text files are kept, and the next run "
                             "continues after them",
                             extraction->files.state.count);
        }
        TRY(comm_settle(extraction->comm, clean_pages(extraction, error), error));
        TRY(comm_settle(extraction->comm,
                        extraction->comm->rank == 0
                            ? write_articles(extraction, 0, extraction->own_count, error)
                            : BERTH_OK,
                        error));
        if (extraction->comm->size > 1) {
            TRY(write_others(extraction, error));
        }
        extraction->article_count = extraction->own_count = extraction->own_length = 0;
        extraction->batch_bytes = 0;
        buffer_clear(&extraction->batch);
    }
    return BERTH_OK;
}

static enum berth_status finish(struct extraction *extraction, struct berth_error *error) {
    const struct wikipedia_counts *saved = &extraction->files.saved;
    if (saved->articles == 0) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: no articles found; pages: %" PRId64 ", redirects: %" PRId64
                         ", in other namespaces: %" PRId64 ", without text: %" PRId64
                         ", damaged or too long: %" PRId64,
                         extraction->settings->dump, extraction->counts->pages,
                         extraction->counts->redirects, extraction->counts->other_namespaces,
                         saved->empty, extraction->counts->damaged + extraction->counts->oversize);
    }
    return wikipedia_files_end(&extraction->files, extraction->counts, error);
}

// Rank 0 locks the folder and finds what earlier runs have finished.
static enum berth_status open_folder(struct extraction *extraction, struct berth_error *error) {
    if (extraction->comm->rank > 0) {
        return BERTH_OK;
    }
    TRY(wikipedia_files_open(&extraction->files, extraction->settings, error));
    extraction->found = (struct found){.complete = extraction->files.state.complete,
                                       .count = extraction->files.state.count,
                                       .last = extraction->files.last};
    return BERTH_OK;
}

static enum berth_status extract_articles(struct extraction *extraction, const atomic_int *stop,
                                          struct berth_error *error) {
    TRY(comm_settle(extraction->comm, open_folder(extraction, error), error));
    // Gives all ranks what they must agree on.
    struct comm *comm = extraction->comm;
    double threads = extraction->settings->threads;
    comm->broadcast(comm, &extraction->found, sizeof extraction->found, 0);
    comm->sum(comm, &threads, 1);
    TRY(comm->status(comm, error));
    extraction->all_threads = (int)threads;
    extraction->bytes_per_rank =
        BATCH_BYTES * (uint64_t)extraction->all_threads / (uint64_t)extraction->comm->size;
    if (extraction->found.complete) {
        *extraction->counts = extraction->found.last.counts;
        log_note(extraction->log, "%s: the text is complete (%zu file%s)",
                 extraction->settings->folder, extraction->found.count,
                 number_plural((int64_t)extraction->found.count));
        return BERTH_OK;
    }
    extraction->cleaners =
        memory_array_zeroed((size_t)extraction->settings->threads, sizeof *extraction->cleaners);
    TRY(comm_settle(extraction->comm,
                    extraction->cleaners != NULL
                        ? open_dump(extraction, error)
                        : error_no_memory(error, sizeof *extraction->cleaners, "the cleaners"),
                    error));
    TRY(read_dump(extraction, stop, error));
    return comm_settle(extraction->comm,
                       extraction->comm->rank == 0 ? finish(extraction, error) : BERTH_OK, error);
}

static void done(struct extraction *extraction) {
    mediawiki_close(extraction->reader);
    mediawiki_close(extraction->site_reader);
    dump_close(&extraction->dump);
    for (int i = 0; extraction->cleaners != NULL && i < extraction->settings->threads; i++) {
        wikitext_done(&extraction->cleaners[i].wikitext);
        buffer_done(&extraction->cleaners[i].plain);
    }
    memory_free(extraction->cleaners);
    memory_free(extraction->articles);
    memory_free(extraction->url);
    buffer_done(&extraction->batch);
    buffer_done(&extraction->passed);
    if (extraction->comm->rank == 0) {
        wikipedia_files_close(&extraction->files);
    }
}

enum berth_status wikipedia_text(const struct wikipedia_settings *settings,
                                 const struct berth_log *log, const atomic_int *stop,
                                 struct wikipedia_counts *counts, struct berth_error *error) {
    struct wikipedia_settings own = *settings;
    own.threads = own.threads > 0 ? own.threads : omp_get_max_threads();
    own.file_size = own.file_size > 0 ? own.file_size : WIKIPEDIA_FILE_SIZE;
    struct extraction extraction = {.settings = &own,
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
    const enum berth_status status = extract_articles(&extraction, stop, error);
    done(&extraction);
    if (status == BERTH_OK) {
        // The skipped pages.
        if (counts->damaged > 0) {
            log_warning(log,
                        "skipped %" PRId64 " page%s with invalid UTF-8, or without a title or id",
                        counts->damaged, number_plural(counts->damaged));
        }
        if (counts->oversize > 0) {
            log_warning(log, "skipped %" PRId64 " page%s longer than %zu bytes", counts->oversize,
                        number_plural(counts->oversize), MEDIAWIKI_TEXT_MAX);
        }
    } else if (settings->comm->rank == 0) {
        dir_remove_created(first.text, existing);
    }
    return status;
}
