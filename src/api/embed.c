// SPDX-License-Identifier: Apache-2.0
// Embeds a list of texts, as a job of all processes that were started together. The first rank has
// the texts and receives the embeddings.

#include "api/jobs.h"
#include "api/model.h"
#include "core/memory.h"
#include "model/sentence.h"
#include "train/machine/machine.h"

#include <string.h>

#define GROUP 1024 // texts that are batched together, whatever the number of ranks
#define ROUND_GROUPS_MAX ((size_t)64) // groups between two calls of `put`

struct embed {
    const struct berth_config *config;
    const struct berth_embed_job *job;
    struct berth_log log;
    struct comm *comm;
    struct task_model *model;
    const struct berth_text *texts; // [count] of all ranks
    size_t count;
    size_t cut, first_cut;       // texts that had more tokens than the model reads
    struct berth_text *received; // the texts of the other ranks, in `block`
    char *block;
    struct task_text *round; // [round_size], as all below
    struct task_text **items;
    float *embeddings; // [][size]; of the first rank
    size_t size;
    struct task_settings settings;
};

static int is_first(const struct embed *embed) {
    return embed->comm->rank == 0;
}

// A request to one rank stops all.
static enum berth_status check_stop(const struct embed *embed, size_t done,
                                    struct berth_error *error) {
    const volatile int *request = embed->job->stop;
    int stop = request != NULL && *request != 0;
    TRY(comm_settle_stop(embed->comm, BERTH_OK, &stop, error));
    if (stop == 0) {
        return BERTH_OK;
    }
    return error_set(error, BERTH_INTERRUPTED, "stopped on request after %zu of %zu texts", done,
                     embed->count);
}

// --- texts --------------------------------------------------------------------------------------

static enum berth_status read_texts(struct embed *embed, struct berth_error *error) {
    return embed->job->read(embed->job->context, &embed->texts, &embed->count, error);
}

static size_t total_bytes(const struct embed *embed) {
    size_t bytes = 0;
    for (size_t i = 0; i < embed->count; i++) {
        bytes += strlen(embed->texts[i].text) + 1;
    }
    return bytes;
}

// Concatenates the first rank's texts, each with its NUL.
static void fill_block(const struct embed *embed) {
    char *to = embed->block;
    for (size_t i = 0; i < embed->count; i++) {
        to = stpcpy(to, embed->texts[i].text) + 1;
    }
}

static void split_block(struct embed *embed) {
    const char *from = embed->block;
    for (size_t i = 0; i < embed->count; i++) {
        embed->received[i].text = from;
        from += strlen(from) + 1;
    }
    embed->texts = embed->received;
}

static enum berth_status allocate_block(struct embed *embed, size_t bytes,
                                        struct berth_error *error) {
    embed->block = memory_new(bytes + 1);
    embed->received = memory_array_zeroed(embed->count + 1, sizeof *embed->received);
    return embed->block != NULL && embed->received != NULL
               ? BERTH_OK
               : error_no_memory(error, bytes, "the texts of another rank");
}

// Only the first rank may be able to read them, as on standard input.
static enum berth_status broadcast_texts(struct embed *embed, struct berth_error *error) {
    struct comm *comm = embed->comm;
    uint64_t sizes[2] = {embed->count, total_bytes(embed)};
    if (comm->size == 1) {
        return BERTH_OK;
    }
    comm->broadcast(comm, sizes, sizeof sizes, 0);
    TRY(comm->status(comm, error));
    embed->count = sizes[0];
    TRY(comm_settle(comm, allocate_block(embed, sizes[1], error), error));
    if (is_first(embed)) {
        fill_block(embed);
    }
    comm->broadcast(comm, embed->block, sizes[1], 0);
    TRY(comm->status(comm, error));
    split_block(embed);
    return BERTH_OK;
}

// --- embeddings ---------------------------------------------------------------------------------

static size_t round_size(const struct embed *embed) {
    const size_t ranks = (size_t)embed->comm->size;
    return GROUP * (ranks < ROUND_GROUPS_MAX ? ranks : ROUND_GROUPS_MAX);
}

static enum berth_status open_encoder(struct embed *embed, struct berth_error *error) {
    const struct task_opening opening = {.comm = embed->comm, .log = &embed->log};
    TRY(task_model_open(task_find("embed"), embed->config, &opening, &embed->model, error));
    embed->model->group = GROUP;
    const size_t whole = embed->model->task->width(embed->model);
    const size_t wanted = (size_t)embed->settings.dimensions;
    embed->size = wanted > 0 && wanted < whole ? wanted : whole;
    const size_t texts = round_size(embed), numbers = is_first(embed) ? texts * embed->size : 0;
    embed->embeddings = memory_array(numbers, sizeof *embed->embeddings);
    embed->round = memory_array(texts, sizeof *embed->round);
    embed->items = memory_array(texts, sizeof *embed->items);
    return embed->embeddings != NULL && embed->round != NULL && embed->items != NULL
               ? BERTH_OK
               : error_no_memory(error, numbers * sizeof *embed->embeddings, "embeddings");
}

static enum berth_status begin(struct embed *embed, struct berth_error *error) {
    return is_first(embed) ? embed->job->begin(embed->job->context, embed->size, error) : BERTH_OK;
}

// Moves the results of a round to one array; the first text that failed ends the job.
static enum berth_status gather(struct embed *embed, size_t first, size_t count,
                                struct berth_error *error) {
    for (size_t i = 0; i < count; i++) {
        struct task_text *text = &embed->round[i];
        task_text_check_fit(embed->model, text);
        if (text->truncated && embed->cut++ == 0) {
            embed->first_cut = first + i;
        }
        if (text->status != BERTH_OK) {
            return error_set(error, text->status, "text %zu: %s", first + i + 1, text->message);
        }
        if (is_first(embed)) {
            memcpy(embed->embeddings + i * embed->size, text->rows, embed->size * sizeof(float));
        }
    }
    return BERTH_OK;
}

static enum berth_status embed_round(struct embed *embed, size_t first, struct berth_error *error) {
    const struct berth_embed_job *job = embed->job;
    const size_t left = embed->count - first;
    const size_t count = left < round_size(embed) ? left : round_size(embed);
    for (size_t i = 0; i < count; i++) {
        embed->round[i] = (struct task_text){.texts = {embed->texts[first + i].text},
                                             .settings = embed->settings};
        embed->items[i] = &embed->round[i];
    }
    enum berth_status status = embed->model->task->run(embed->model, embed->items, count, error);
    if (status == BERTH_OK) {
        // Only the first rank receives the embeddings, so only it knows of a failure.
        status = comm_settle(embed->comm, gather(embed, first, count, error), error);
    }
    for (size_t i = 0; i < count; i++) {
        task_text_done(&embed->round[i]);
    }
    TRY(status);
    TRY(check_stop(embed, first, error));
    return comm_settle(embed->comm,
                       is_first(embed) ? job->put(job->context, embed->embeddings, count, error)
                                       : BERTH_OK,
                       error);
}

static void note_cut(const struct embed *embed) {
    if (embed->cut > 0) {
        log_note(&embed->log,
                 "%zu of %zu texts have more tokens than max_seq_length %lld, and what is beyond "
                 "was left out; the first is text %zu",
                 embed->cut, embed->count, (long long)embed->model->max_tokens,
                 embed->first_cut + 1);
    }
}

static enum berth_status run(struct embed *embed, struct berth_error *error) {
    struct comm *comm = embed->comm;
    const struct berth_embed_job *job = embed->job;
    TRY(comm_settle(comm, is_first(embed) ? read_texts(embed, error) : BERTH_OK, error));
    TRY(broadcast_texts(embed, error));
    TRY(check_stop(embed, 0, error));
    TRY(comm_settle(comm, open_encoder(embed, error), error));
    TRY(embed_compare_ranks(embed->model, error));
    TRY(comm_settle(comm, begin(embed, error), error));
    for (size_t first = 0; first < embed->count; first += round_size(embed)) {
        TRY(embed_round(embed, first, error));
    }
    note_cut(embed);
    return comm_settle(comm, is_first(embed) ? job->end(job->context, error) : BERTH_OK, error);
}

enum berth_status berth_embed(const struct berth_config *config, struct berth_log log,
                              const struct berth_embed_job *job, struct berth_error *error) {
    struct berth_error unwanted;
    error = error != NULL ? error : &unwanted; // the job's functions fill it in
    struct embed embed = {.config = config, .job = job, .log = log, .comm = comm_self()};
    TRY(task_settings_read(task_find("embed"), job->settings, &embed.settings, error));
    enum berth_status status = machine_comm_open("embed", config, &embed.log, &embed.comm, error);
    if (status == BERTH_OK) {
        status = run(&embed, error);
    }
    embed.comm->close(embed.comm);
    task_model_close(embed.model);
    memory_free(embed.embeddings);
    memory_free(embed.round);
    memory_free(embed.items);
    memory_free(embed.received);
    memory_free(embed.block);
    return status;
}
