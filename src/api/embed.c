// SPDX-License-Identifier: Apache-2.0
// Embeds a list of texts, as a job of all processes that were started together. The first rank has
// the texts and receives the embeddings.
#include "task/arguments.h"
#include "task/encoder.h"
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
    struct berth_encoder *encoder;
    struct encoder_texts all;
    struct encoder_cut cut;
    const char **received; // the texts of the other ranks, in `block`
    char *block;
    float *embeddings; // [round_size][size]; of the first rank
    size_t size;
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
                     embed->all.count);
}

// --- texts --------------------------------------------------------------------------------------

static enum berth_status read_texts(struct embed *embed, struct berth_error *error) {
    struct encoder_texts *all = &embed->all;
    TRY(embed->job->read(embed->job->context, &all->texts, &all->count, error));
    return argument_texts(all->texts, all->count, "text", error);
}

static size_t total_bytes(const struct encoder_texts *texts) {
    size_t bytes = 0;
    for (size_t i = 0; i < texts->count; i++) {
        bytes += strlen(texts->texts[i]) + 1;
    }
    return bytes;
}

// Concatenates the first rank's texts, each with its NUL.
static void fill_block(const struct embed *embed) {
    char *to = embed->block;
    for (size_t i = 0; i < embed->all.count; i++) {
        to = stpcpy(to, embed->all.texts[i]) + 1;
    }
}

static void split_block(struct embed *embed) {
    const char *from = embed->block;
    for (size_t i = 0; i < embed->all.count; i++) {
        embed->received[i] = from;
        from += strlen(from) + 1;
    }
    embed->all.texts = embed->received;
}

static enum berth_status allocate_block(struct embed *embed, size_t bytes,
                                        struct berth_error *error) {
    embed->block = memory_new(bytes + 1);
    embed->received = memory_array(embed->all.count + 1, sizeof *embed->received);
    return embed->block != NULL && embed->received != NULL
               ? BERTH_OK
               : error_no_memory(error, bytes, "the texts of another rank");
}

// Only the first rank may be able to read them, as on standard input.
static enum berth_status broadcast_texts(struct embed *embed, struct berth_error *error) {
    struct comm *comm = embed->comm;
    uint64_t sizes[2] = {embed->all.count, total_bytes(&embed->all)};
    if (comm->size == 1) {
        return BERTH_OK;
    }
    comm->broadcast(comm, sizes, sizeof sizes, 0);
    TRY(comm->status(comm, error));
    embed->all.count = sizes[0];
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
    TRY(encoder_open(embed->config, embed->comm, &embed->log, &embed->encoder, error));
    embed->size = berth_encoder_size(embed->encoder);
    const size_t numbers = is_first(embed) ? round_size(embed) * embed->size : 0;
    embed->embeddings = memory_array(numbers, sizeof *embed->embeddings);
    return embed->embeddings != NULL
               ? BERTH_OK
               : error_no_memory(error, numbers * sizeof *embed->embeddings, "embeddings");
}

// The job's choices take precedence over the settings and the model's folder.
static enum berth_status begin(struct embed *embed, struct berth_error *error) {
    const struct berth_embed_job *job = embed->job;
    const struct berth_embedding usual = berth_encoder_usual(embed->encoder);
    embed->all.group = GROUP;
    embed->all.cut = &embed->cut;
    embed->all.how = (struct berth_embedding){
        .pooling = job->pooling >= 0 ? (enum berth_pooling)job->pooling : usual.pooling,
        .normalize = job->normalize >= 0 ? job->normalize : usual.normalize};
    return is_first(embed) ? job->begin(job->context, usual, embed->size, error) : BERTH_OK;
}

static enum berth_status embed_round(struct embed *embed, size_t first, struct berth_error *error) {
    const struct berth_embed_job *job = embed->job;
    struct encoder_texts texts = embed->all;
    const size_t left = texts.count - first;
    texts.texts += first;
    texts.before = first;
    texts.count = left < round_size(embed) ? left : round_size(embed);
    TRY(encoder_embed(embed->encoder, &texts, embed->embeddings, error));
    TRY(check_stop(embed, first, error));
    return comm_settle(
        embed->comm,
        is_first(embed) ? job->put(job->context, embed->embeddings, texts.count, error) : BERTH_OK,
        error);
}

static void note_cut(const struct embed *embed) {
    if (embed->cut.count > 0) {
        log_note(&embed->log,
                 "%zu of %zu texts have more tokens than max_seq_length %lld, and what is beyond "
                 "was left out; the first is text %zu",
                 embed->cut.count, embed->all.count,
                 (long long)berth_encoder_max_length(embed->encoder), embed->cut.first + 1);
    }
}

static enum berth_status run(struct embed *embed, struct berth_error *error) {
    struct comm *comm = embed->comm;
    const struct berth_embed_job *job = embed->job;
    TRY(comm_settle(comm, is_first(embed) ? read_texts(embed, error) : BERTH_OK, error));
    TRY(broadcast_texts(embed, error));
    TRY(check_stop(embed, 0, error));
    TRY(comm_settle(comm, open_encoder(embed, error), error));
    TRY(encoder_compare_ranks(embed->encoder, embed->config->model_name_or_path, error));
    TRY(comm_settle(comm, begin(embed, error), error));
    for (size_t first = 0; first < embed->all.count; first += round_size(embed)) {
        TRY(embed_round(embed, first, error));
    }
    note_cut(embed);
    return comm_settle(comm, is_first(embed) ? job->end(job->context, error) : BERTH_OK, error);
}

enum berth_status berth_embed(const struct berth_config *config, struct berth_log log,
                              const struct berth_embed_job *job, struct berth_error *error) {
    struct berth_error unwanted;
    error = error != NULL ? error : &unwanted; // the job's functions fill it in
    REQUIRE_CONFIG(config, error);
    REQUIRE(job, error);
    REQUIRE(job->read, error);
    REQUIRE(job->begin, error);
    REQUIRE(job->put, error);
    REQUIRE(job->end, error);
    if (job->pooling >= 0) {
        TRY(encoder_check_pooling(job->pooling, error));
    }
    struct embed embed = {.config = config, .job = job, .log = log, .comm = comm_self()};
    struct berth_config compared = *config; // of the ranks
    if (job->pooling >= 0) {
        compared.pooling = sentence_pooling_names[job->pooling];
    }
    if (job->normalize >= 0) {
        compared.normalize = job->normalize;
    }
    enum berth_status status =
        machine_comm_open("embed", &compared, &embed.log, &embed.comm, error);
    if (status == BERTH_OK) {
        status = run(&embed, error);
    }
    embed.comm->close(embed.comm);
    berth_encoder_close(embed.encoder);
    memory_free(embed.embeddings);
    memory_free(embed.received);
    memory_free(embed.block);
    return status;
}
