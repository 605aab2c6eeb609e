// SPDX-License-Identifier: Apache-2.0
// Packs window after window. Each window has an entry in the manifest besides those of its files,
// so that a resumed run knows the number of its files and its statistics without packing it again.
// Called by `berth pack` (api/prepare.c); which sequences share a row is decided by
// data/packing/packing.c.
#include "data/stages/pack_stage.h"

#include "core/buffer.h"
#include "core/memory.h"
#include "core/number.h"
#include "data/pretraining/shard_origin.h"
#include "data/stages/stage_work.h"
#include "format/checksum/digest.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>

struct input {
    char *path;
    struct pretraining_size size;
    uint64_t bytes;
};

// Consecutive inputs that are packed together.
struct window {
    size_t number;                  // of the window
    size_t first, count;            // inputs
    int64_t first_part, part_count; // output files
};

struct job {
    struct pack_stage *request;
    struct stage stage;
    struct stage_work work;
    struct input *inputs;
    size_t input_count;
    int max_length, max_predictions;
    struct packing *total;
    struct window *windows;
    size_t window_count;
    size_t round; // first of the windows that the ranks are packing
    // Of the window that this rank packs:
    struct instances instances;
    struct packing packing;
};

// --- the input ----------------------------------------------------------------------------------

static int is_input(const char *name) {
    return pretraining_is_file(name) && pretraining_part_of(name) == PART_TRAINING;
}

static enum berth_status add_input(struct job *job, const char *name, struct buffer *description,
                                   struct berth_error *error) {
    struct input *input = &job->inputs[job->input_count];
    struct file_reader file;
    char size[NUMBER_TEXT_SIZE];
    input->path = path_join(job->request->input, name);
    if (input->path == NULL) {
        return error_no_memory(error, 0, "a path");
    }
    job->input_count++;
    TRY(file_reader_open(&file, input->path, error));
    input->bytes = file.size;
    file_reader_close(&file);
    TRY(pretraining_measure(input->path, 0, &input->size, error));
    const struct pretraining_size *first = &job->inputs->size, *now = &input->size;
    if (now->packed || now->length != first->length || now->predictions != first->predictions) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: %srows of %" PRId64 " tokens and %" PRId64
                         " masked positions: expected rows with one instance of %" PRId64
                         " and %" PRId64 " as in %s",
                         input->path, now->packed ? "packed " : "", now->length, now->predictions,
                         first->length, first->predictions, job->inputs->path);
    }
    number_format(size, sizeof size, " %" PRIu64 "\n", input->bytes);
    buffer_put_text(description, name);
    buffer_put_text(description, size);
    return BERTH_OK;
}

static enum berth_status check_inputs(const struct job *job, struct berth_error *error) {
    int64_t sequences = 0;
    for (size_t i = 0; i < job->input_count; i++) {
        sequences += job->inputs[i].size.sequences;
    }
    if (job->input_count == 0) {
        return error_set(error, BERTH_NO_INPUT,
                         "%s: expected HDF5 or TFRecord files with \"training\" in their name, "
                         "found none",
                         job->request->input);
    }
    return sequences > 0 ? BERTH_OK
                         : error_set(error, BERTH_BAD_DATA,
                                     "%s: nothing to pack: its %zu files contain no sequences",
                                     job->request->input, job->input_count);
}

static enum berth_status add_inputs(struct job *job, char **names, char digest[DIGEST_HEX_SIZE],
                                    struct berth_error *error) {
    struct buffer description = {0};
    enum berth_status status = BERTH_OK;
    size_t count = 0;
    while (names[count] != NULL) {
        count++;
    }
    job->inputs = memory_array_zeroed(count + 1, sizeof *job->inputs);
    if (job->inputs == NULL) {
        return error_no_memory(error, count * sizeof *job->inputs, "the list of files");
    }
    for (size_t i = 0; i < count && status == BERTH_OK; i++) {
        status = is_input(names[i]) ? add_input(job, names[i], &description, error) : BERTH_OK;
    }
    if (status == BERTH_OK && description.failed) {
        status = error_no_memory(error, description.length, "the list of files");
    }
    if (status == BERTH_OK) {
        status = check_inputs(job, error);
    }
    if (status == BERTH_OK) {
        status = digest_memory(DIGEST_SHA256, description.bytes, description.length, digest, error);
    }
    buffer_done(&description);
    return status;
}

static enum berth_status check_length(const struct job *job, struct berth_error *error) {
    const int wanted = job->request->length;
    return wanted == 0 || wanted == job->max_length
               ? BERTH_OK
               : error_set(
                     error, BERTH_CONFIG,
                     "%s: max_seq_length is %d, but the rows have %d tokens; leave it out, or "
                     "make instances of that length",
                     job->request->input, wanted, job->max_length);
}

static enum berth_status find_inputs(struct job *job, char digest[DIGEST_HEX_SIZE],
                                     struct berth_error *error) {
    char **names;
    TRY(dir_list(job->request->input, &names, error));
    enum berth_status status = add_inputs(job, names, digest, error);
    memory_free(names);
    job->max_length = job->inputs != NULL ? (int)job->inputs->size.length : 0;
    job->max_predictions = job->inputs != NULL ? (int)job->inputs->size.predictions : 0;
    return status == BERTH_OK ? check_length(job, error) : status;
}

// Hands the vocabulary on, and warns of an input that was not made to its end.
static enum berth_status find_origin(struct job *job, struct manifest_settings *settings,
                                     struct berth_error *error) {
    struct shard_origin origin;
    const enum berth_status status = shard_origin_read(job->request->input, &origin, error);
    if (status == BERTH_OK && origin.vocabulary[0] != '\0') {
        manifest_set_text(settings, SHARD_VOCABULARY, origin.vocabulary);
    }
    if (status == BERTH_OK) {
        shard_origin_warn(&origin, job->work.log);
    }
    shard_origin_done(&origin);
    return status;
}

// --- the entry of a window ----------------------------------------------------------------------

static void part_name(char *name, size_t size, int64_t part) {
    number_format(name, size, "mixed_strategies_part_%" PRId64 ".hdf5", part);
}

static void window_name(char *name, size_t size, const struct window *window) {
    number_format(name, size, "window %zu", window->number);
}

// Returns NULL if the window was not packed. If it was, some of its files may still be missing.
static const json *entry_of(const struct job *job, const struct window *window) {
    char name[64];
    window_name(name, sizeof name, window);
    return stage_find(&job->stage, name);
}

static int has_all_files(const struct job *job, const struct window *window) {
    char name[64];
    int complete = 1;
    for (int64_t i = 0; i < window->part_count && complete; i++) {
        part_name(name, sizeof name, window->first_part + i);
        complete = stage_find(&job->stage, name) != NULL;
    }
    return complete;
}

// A flat list of pairs: the index of a strategy, the number of its rows.
static json *counts_to_json(const struct packing *packing) {
    json *list = json_new_array();
    int failed = list == NULL;
    for (size_t i = 0; i < packing->strategy_count; i++) {
        if (packing->counts[i] > 0) {
            failed |= json_append(list, json_new_integer((int64_t)i));
            failed |= json_append(list, json_new_integer((int64_t)packing->counts[i]));
        }
    }
    return json_unless_failed(list, failed);
}

static enum berth_status add_window_entry(struct job *job, const struct window *window,
                                          struct berth_error *error) {
    const struct packing *packing = &job->packing;
    char name[64];
    json *entry = json_new_object();
    window_name(name, sizeof name, window);
    int failed = json_set(entry, "bytes", json_new_real(NAN)); // null: not a file
    failed |= json_set(entry, "parts", json_new_integer(window->part_count));
    failed |= json_set(entry, "rows", json_new_integer((int64_t)packing->count));
    failed |= json_set(entry, "sequences", json_new_integer((int64_t)packing->sequences));
    failed |= json_set(entry, "tokens", json_new_integer((int64_t)packing->tokens));
    failed |= json_set(entry, "strategies", counts_to_json(packing));
    if (failed) {
        json_free(entry);
        return error_no_memory(error, 0, "a manifest");
    }
    TRY(stage_put(&job->stage, name, entry, error));
    return stage_save(&job->stage, error);
}

static void add_to_total(struct job *job, const json *entry) {
    struct packing *total = job->total;
    const json *strategies = json_member(entry, "strategies");
    total->count += (size_t)json_as_integer(json_member(entry, "rows"));
    total->sequences += (uint64_t)json_as_integer(json_member(entry, "sequences"));
    total->tokens += (uint64_t)json_as_integer(json_member(entry, "tokens"));
    job->request->files += json_as_integer(json_member(entry, "parts"));
    for (size_t i = 0; i + 1 < json_length(strategies); i += 2) {
        int64_t number = json_as_integer(json_at(strategies, i));
        if (number >= 0 && (size_t)number < total->strategy_count) {
            total->counts[number] += (uint64_t)json_as_integer(json_at(strategies, i + 1));
        }
    }
}

// --- a window -----------------------------------------------------------------------------------

static enum berth_status read_window(struct job *job, const struct window *window,
                                     struct berth_error *error) {
    for (size_t i = window->first; i < window->first + window->count; i++) {
        TRY(pretraining_read(job->inputs[i].path, INT32_MAX, job->max_length, &job->instances,
                             error));
        stage_advance(&job->work, (int64_t)job->inputs[i].bytes / 4);
        if (stage_should_stop(&job->work)) {
            return stage_outcome(&job->work, error);
        }
    }
    return BERTH_OK;
}

static enum berth_status write_part(struct job *job, const struct window *window, int64_t part,
                                    struct berth_error *error) {
    const struct packing *packing = &job->packing;
    char name[64];
    struct file_reader file DONE_BY(file_reader_close) = {.descriptor = -1};
    size_t first = (size_t)part * PACK_ROWS, left = packing->count - first;
    const struct pretraining_packs packs = {packing->packs + first,
                                            left < PACK_ROWS ? left : PACK_ROWS};
    part_name(name, sizeof name, window->first_part + part);
    const struct path path = path_in(job->request->folder, name);
    TRY(pretraining_write_packed(path.text, &job->instances, packs, job->max_length,
                                 job->max_predictions, error));
    TRY(file_reader_open(&file, path.text, error));
    json *entry = json_new_object();
    if (json_set(entry, "bytes", json_new_integer((int64_t)file.size)) != 0) {
        json_free(entry);
        entry = NULL;
    }
    return stage_put(&job->stage, name, entry, error);
}

static enum berth_status write_parts(struct job *job, const struct window *window,
                                     struct berth_error *error) {
    const int64_t parts = window->part_count;
    int64_t bytes = 0;
    for (size_t i = window->first; i < window->first + window->count; i++) {
        bytes += (int64_t)job->inputs[i].bytes - (int64_t)job->inputs[i].bytes / 4;
    }
    const int64_t each = parts > 0 ? bytes / parts : 0; // files may have no sequence
#pragma omp parallel for schedule(dynamic, 1) num_threads(job->request->threads)
    for (int64_t part = 0; part < parts; part++) {
        struct berth_error own;
        if (stage_should_stop(&job->work)) {
            continue;
        }
        enum berth_status status = write_part(job, window, part, &own);
        if (status != BERTH_OK) {
            stage_fail(&job->work, status, &own);
        } else {
            stage_advance(&job->work, each);
        }
    }
    TRY(stage_outcome(&job->work, error));
    stage_advance(&job->work, bytes - each * parts);
    return add_window_entry(job, window, error);
}

static void drop_window(struct job *job) {
    packing_done(&job->packing);
    instances_done(&job->instances);
    job->packing = (struct packing){0};
    job->instances = (struct instances){0};
}

static enum berth_status assign_rows(struct job *job, struct window *window,
                                     struct berth_error *error) {
    drop_window(job);
    TRY(read_window(job, window, error));
    TRY(packing_make(&job->instances, job->max_length, job->request->seed, &job->packing, error));
    window->part_count = (int64_t)((job->packing.count + PACK_ROWS - 1) / PACK_ROWS);
    return BERTH_OK;
}

// A window that was packed before has the number of its files in its entry, even if some of the
// files are missing.
static enum berth_status assign_window(void *context, size_t item, struct berth_error *error) {
    struct job *job = context;
    struct window *window = &job->windows[job->round + item];
    const json *entry = entry_of(job, window);
    window->part_count = json_as_integer(json_member(entry, "parts"));
    return entry != NULL ? BERTH_OK : assign_rows(job, window, error);
}

static enum berth_status make_files(void *context, size_t item, struct berth_error *error) {
    struct job *job = context;
    struct window *window = &job->windows[job->round + item];
    if (entry_of(job, window) != NULL && has_all_files(job, window)) {
        for (size_t i = window->first; i < window->first + window->count; i++) {
            stage_advance(&job->work, (int64_t)job->inputs[i].bytes);
        }
        return BERTH_OK;
    }
    if (entry_of(job, window) != NULL) {
        TRY(assign_rows(job, window, error));
    }
    return write_parts(job, window, error);
}

// --- what is known before there are instances ---------------------------------------------------

static int row_has_room(const struct instance_options *options) {
    return packing_predictions(options) <= options->max_predictions + PRETRAINING_PACK_MAX;
}

enum berth_status pack_stage_check(const struct instance_options *options,
                                   struct berth_error *error) {
    if (options->max_length > PACKING_LENGTH_MAX) {
        return error_set(error, BERTH_BAD_DATA,
                         "max_seq_length: expected at most %d, the longest row that the stage pack "
                         "writes, found %d",
                         PACKING_LENGTH_MAX, options->max_length);
    }
    struct instance_options sufficient = *options;
    while (!row_has_room(&sufficient)) {
        sufficient.max_predictions++;
    }
    return sufficient.max_predictions == options->max_predictions
               ? BERTH_OK
               : error_set(
                     error, BERTH_BAD_DATA,
                     "max_predictions_per_seq: expected at least %d for the stage pack, found "
                     "%d: three instances in a row of %d tokens can have %d masked positions, "
                     "but the row has room for max_predictions_per_seq + %d; raise it, or "
                     "lower masked_lm_prob",
                     sufficient.max_predictions, options->max_predictions, options->max_length,
                     packing_predictions(options), PRETRAINING_PACK_MAX);
}

// --- the whole stage -----------------------------------------------------------------------------

// The number of inputs from `first` that make a window.
static size_t window_count(const struct job *job, size_t first) {
    int64_t limit = job->request->window > 0 ? job->request->window : PACK_WINDOW, tokens = 0;
    size_t i = first;
    for (; i < job->input_count; i++) {
        tokens += job->inputs[i].size.sequences * job->max_length;
        if (i > first && tokens > limit) {
            break;
        }
    }
    return i - first;
}

static enum berth_status find_windows(struct job *job, struct berth_error *error) {
    job->windows = memory_array_zeroed(job->input_count, sizeof *job->windows);
    if (job->windows == NULL) {
        return error_no_memory(error, job->input_count * sizeof *job->windows, "windows");
    }
    for (size_t first = 0; first < job->input_count;) {
        struct window *window = &job->windows[job->window_count];
        *window = (struct window){job->window_count, first, window_count(job, first), 0, 0};
        first += window->count;
        job->window_count++;
    }
    return BERTH_OK;
}

// Numbers the files of the windows [first, first + count), each of which one rank has packed.
static enum berth_status number_files(struct job *job, size_t first, size_t count,
                                      struct berth_error *error) {
    struct comm *comm = job->request->comm;
    for (size_t i = first; i < first + count; i++) {
        struct window *window = &job->windows[i];
        double parts = i - first == (size_t)comm->rank ? (double)window->part_count : 0;
        comm->sum(comm, &parts, 1);
        TRY(comm->status(comm, error));
        window->part_count = (int64_t)parts;
        window->first_part = i > 0 ? window[-1].first_part + window[-1].part_count : 0;
    }
    return BERTH_OK;
}

static enum berth_status pack_all(struct job *job, struct berth_error *error) {
    struct stage_items items = {.threads = 1, .context = job};
    for (size_t i = 0; i < job->input_count; i++) {
        job->work.total += (int64_t)job->inputs[i].bytes;
    }
    for (; job->round < job->window_count; job->round += items.count) {
        const size_t left = job->window_count - job->round;
        const size_t ranks = (size_t)job->request->comm->size;
        items.count = left < ranks ? left : ranks;
        items.make = assign_window;
        TRY(stage_make(&job->work, &items, error));
        TRY(number_files(job, job->round, items.count, error));
        items.make = make_files;
        TRY(stage_make(&job->work, &items, error));
        drop_window(job);
    }
    return stage_gather(&job->stage, error);
}

static struct path path_beside(const struct job *job, const char *ending) {
    const char *const folder = job->request->folder;
    return path_format("%.*s%s", (int)path_length(folder), folder, ending);
}

static enum berth_status write_metadata(struct job *job, struct berth_error *error) {
    for (size_t i = 0; i < job->total->strategy_count; i++) {
        job->total->strategies_used += job->total->counts[i] > 0;
    }
    return packing_write_metadata(job->total, path_beside(job, "_metadata.json").text, error);
}

static enum berth_status open_total(struct job *job, struct berth_error *error) {
    job->total = &job->request->packing;
    *job->total = (struct packing){.length = job->max_length,
                                   .strategy_count = packing_strategies(job->max_length)};
    job->total->counts =
        memory_array_zeroed(job->total->strategy_count + 1, sizeof *job->total->counts);
    return job->total->counts != NULL
               ? BERTH_OK
               : error_no_memory(error, job->total->strategy_count * 8, "packing");
}

// Prepares the work of the stage; each rank does this by itself.
static enum berth_status prepare(struct job *job, struct manifest_settings *settings,
                                 struct berth_error *error) {
    char digest[DIGEST_HEX_SIZE];
    TRY(find_inputs(job, digest, error));
    TRY(find_origin(job, settings, error));
    TRY(find_windows(job, error));
    TRY(open_total(job, error));
    manifest_set_text(settings, "input_sha256", digest);
    manifest_set_integer(settings, "seed", job->request->seed);
    manifest_set_integer(settings, "window",
                         (uint64_t)(job->request->window > 0 ? job->request->window : PACK_WINDOW));
    return BERTH_OK;
}

// Runs on rank 0, which has the entries of all windows.
static enum berth_status finish(struct job *job, struct berth_error *error) {
    for (size_t i = 0; i < job->window_count; i++) {
        add_to_total(job, entry_of(job, &job->windows[i]));
    }
    return write_metadata(job, error);
}

static enum berth_status run(struct job *job, struct manifest_settings *settings,
                             struct berth_error *error) {
    struct comm *comm = job->request->comm;
    const struct path manifest = path_beside(job, PACK_MANIFEST);
    const struct stage_location location = {job->request->folder, manifest.text, comm};
    TRY(comm_settle(comm, prepare(job, settings, error), error));
    TRY(stage_open(&job->stage, &location, settings, error));
    TRY(pack_all(job, error));
    TRY(comm_settle(comm, comm->rank == 0 ? finish(job, error) : BERTH_OK, error));
    return job->stage.complete ? BERTH_OK : stage_finish(&job->stage, error);
}

enum berth_status pack_stage_run(struct pack_stage *stage, const struct berth_log *log,
                                 const atomic_int *stop, struct berth_error *error) {
    struct job job = {.request = stage, .stage.lock.descriptor = -1};
    struct manifest_settings settings = {.count = 0};
    job.work = (struct stage_work){.reporting = PTHREAD_MUTEX_INITIALIZER,
                                   .log = log,
                                   .stop = stop,
                                   .comm = stage->comm,
                                   .phase = "packing",
                                   .in_bytes = 1};
    stage->files = 0;
    stage->packing = (struct packing){0};
    enum berth_status status = run(&job, &settings, error);
    stage_close(&job.stage);
    drop_window(&job);
    for (size_t i = 0; i < job.input_count; i++) {
        memory_free(job.inputs[i].path);
    }
    memory_free(job.inputs);
    memory_free(job.windows);
    return status;
}
