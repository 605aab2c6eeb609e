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

struct pack_run {
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

static enum berth_status add_input(struct pack_run *run, const char *name,
                                   struct buffer *description, struct berth_error *error) {
    struct input *input = &run->inputs[run->input_count];
    struct file_reader file;
    char size[NUMBER_TEXT_SIZE];
    input->path = path_join(run->request->input, name);
    if (input->path == NULL) {
        return error_no_memory(error, 0, "a path");
    }
    run->input_count++;
    TRY(file_reader_open(&file, input->path, error));
    input->bytes = file.size;
    file_reader_close(&file);
    TRY(pretraining_measure(input->path, 0, &input->size, error));
    const struct pretraining_size *first = &run->inputs->size, *now = &input->size;
    if (now->packed || now->length != first->length || now->predictions != first->predictions) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: %srows of %" PRId64 " tokens and %" PRId64
                         " masked positions: expected rows with one instance of %" PRId64
                         " and %" PRId64 " as in %s",
                         input->path, now->packed ? "packed " : "", now->length, now->predictions,
                         first->length, first->predictions, run->inputs->path);
    }
    number_format(size, sizeof size, " %" PRIu64 "\n", input->bytes);
    buffer_put_text(description, name);
    buffer_put_text(description, size);
    return BERTH_OK;
}

static enum berth_status check_inputs(const struct pack_run *run, struct berth_error *error) {
    int64_t sequences = 0;
    for (size_t i = 0; i < run->input_count; i++) {
        sequences += run->inputs[i].size.sequences;
    }
    if (run->input_count == 0) {
        return error_set(error, BERTH_NO_INPUT,
                         "%s: expected HDF5 or TFRecord files with \"training\" in their name, "
                         "found none",
                         run->request->input);
    }
    return sequences > 0 ? BERTH_OK
                         : error_set(error, BERTH_BAD_DATA,
                                     "%s: nothing to pack: its %zu files contain no sequences",
                                     run->request->input, run->input_count);
}

static enum berth_status add_inputs(struct pack_run *run, char **names,
                                    char digest[DIGEST_HEX_SIZE], struct berth_error *error) {
    struct buffer description = {0};
    enum berth_status status = BERTH_OK;
    size_t count = 0;
    while (names[count] != NULL) {
        count++;
    }
    run->inputs = memory_array_zeroed(count + 1, sizeof *run->inputs);
    if (run->inputs == NULL) {
        return error_no_memory(error, count * sizeof *run->inputs, "the list of files");
    }
    for (size_t i = 0; i < count && status == BERTH_OK; i++) {
        status = pretraining_is_file(names[i]) && pretraining_part_of(names[i]) == PART_TRAINING
                     ? add_input(run, names[i], &description, error)
                     : BERTH_OK;
    }
    if (status == BERTH_OK && description.failed) {
        status = error_no_memory(error, description.length, "the list of files");
    }
    if (status == BERTH_OK) {
        status = check_inputs(run, error);
    }
    if (status == BERTH_OK) {
        status = digest_memory(DIGEST_SHA256, description.bytes, description.length, digest, error);
    }
    buffer_done(&description);
    return status;
}

static enum berth_status check_length(const struct pack_run *run, struct berth_error *error) {
    const int wanted = run->request->length;
    return wanted == 0 || wanted == run->max_length
               ? BERTH_OK
               : error_set(
                     error, BERTH_CONFIG,
                     "%s: max_seq_length is %d, but the rows have %d tokens; leave it out, or "
                     "make instances of that length",
                     run->request->input, wanted, run->max_length);
}

static enum berth_status find_inputs(struct pack_run *run, char digest[DIGEST_HEX_SIZE],
                                     struct berth_error *error) {
    char **names;
    TRY(dir_list(run->request->input, &names, error));
    enum berth_status status = add_inputs(run, names, digest, error);
    memory_free(names);
    run->max_length = run->inputs != NULL ? (int)run->inputs->size.length : 0;
    run->max_predictions = run->inputs != NULL ? (int)run->inputs->size.predictions : 0;
    return status == BERTH_OK ? check_length(run, error) : status;
}

// --- the entry of a window ----------------------------------------------------------------------

static void part_name(char *name, size_t size, int64_t part) {
    number_format(name, size, "mixed_strategies_part_%" PRId64 ".hdf5", part);
}

static void window_name(char *name, size_t size, const struct window *window) {
    number_format(name, size, "window %zu", window->number);
}

// Returns NULL if the window was not packed. If it was, some of its files may still be missing.
static const json *entry_of(const struct pack_run *run, const struct window *window) {
    char name[64];
    window_name(name, sizeof name, window);
    return stage_find(&run->stage, name);
}

static int has_all_files(const struct pack_run *run, const struct window *window) {
    char name[64];
    int complete = 1;
    for (int64_t i = 0; i < window->part_count && complete; i++) {
        part_name(name, sizeof name, window->first_part + i);
        complete = stage_find(&run->stage, name) != NULL;
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

static enum berth_status add_window_entry(struct pack_run *run, const struct window *window,
                                          struct berth_error *error) {
    const struct packing *packing = &run->packing;
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
    TRY(stage_put(&run->stage, name, entry, error));
    return stage_save(&run->stage, error);
}

// --- a window -----------------------------------------------------------------------------------

static enum berth_status read_window(struct pack_run *run, const struct window *window,
                                     struct berth_error *error) {
    for (size_t i = window->first; i < window->first + window->count; i++) {
        TRY(pretraining_read(run->inputs[i].path, INT32_MAX, run->max_length, &run->instances,
                             error));
        stage_advance(&run->work, (int64_t)run->inputs[i].bytes / 4);
        if (stage_should_stop(&run->work)) {
            return stage_outcome(&run->work, error);
        }
    }
    return BERTH_OK;
}

static enum berth_status write_part(struct pack_run *run, const struct window *window, int64_t part,
                                    struct berth_error *error) {
    const struct packing *packing = &run->packing;
    char name[64];
    struct file_reader file DONE_BY(file_reader_close) = {.descriptor = -1};
    size_t first = (size_t)part * PACK_ROWS, left = packing->count - first;
    const struct pretraining_packs packs = {packing->packs + first,
                                            left < PACK_ROWS ? left : PACK_ROWS};
    part_name(name, sizeof name, window->first_part + part);
    const struct path path = path_in(run->request->folder, name);
    TRY(pretraining_write_packed(path.text, &run->instances, packs, run->max_length,
                                 run->max_predictions, error));
    TRY(file_reader_open(&file, path.text, error));
    json *entry = json_new_object();
    if (json_set(entry, "bytes", json_new_integer((int64_t)file.size)) != 0) {
        json_free(entry);
        entry = NULL;
    }
    return stage_put(&run->stage, name, entry, error);
}

static enum berth_status write_parts(struct pack_run *run, const struct window *window,
                                     struct berth_error *error) {
    const int64_t parts = window->part_count;
    int64_t bytes = 0;
    for (size_t i = window->first; i < window->first + window->count; i++) {
        bytes += (int64_t)run->inputs[i].bytes - (int64_t)run->inputs[i].bytes / 4;
    }
    const int64_t each = parts > 0 ? bytes / parts : 0; // files may have no sequence
#pragma omp parallel for schedule(dynamic, 1) num_threads(run->request->threads)
    for (int64_t part = 0; part < parts; part++) {
        struct berth_error own;
        if (stage_should_stop(&run->work)) {
            continue;
        }
        enum berth_status status = write_part(run, window, part, &own);
        if (status != BERTH_OK) {
            stage_fail(&run->work, status, &own);
        } else {
            stage_advance(&run->work, each);
        }
    }
    TRY(stage_outcome(&run->work, error));
    stage_advance(&run->work, bytes - each * parts);
    return add_window_entry(run, window, error);
}

static void drop_window(struct pack_run *run) {
    packing_done(&run->packing);
    instances_done(&run->instances);
    run->packing = (struct packing){0};
    run->instances = (struct instances){0};
}

static enum berth_status assign_rows(struct pack_run *run, struct window *window,
                                     struct berth_error *error) {
    drop_window(run);
    TRY(read_window(run, window, error));
    TRY(packing_make(&run->instances, run->max_length, run->request->seed, &run->packing, error));
    window->part_count = (int64_t)((run->packing.count + PACK_ROWS - 1) / PACK_ROWS);
    return BERTH_OK;
}

// A window that was packed before has the number of its files in its entry, even if some of the
// files are missing.
static enum berth_status assign_window(void *context, size_t item, struct berth_error *error) {
    struct pack_run *run = context;
    struct window *window = &run->windows[run->round + item];
    const json *entry = entry_of(run, window);
    window->part_count = json_as_integer(json_member(entry, "parts"));
    return entry != NULL ? BERTH_OK : assign_rows(run, window, error);
}

static enum berth_status make_files(void *context, size_t item, struct berth_error *error) {
    struct pack_run *run = context;
    struct window *window = &run->windows[run->round + item];
    if (entry_of(run, window) != NULL && has_all_files(run, window)) {
        for (size_t i = window->first; i < window->first + window->count; i++) {
            stage_advance(&run->work, (int64_t)run->inputs[i].bytes);
        }
        return BERTH_OK;
    }
    if (entry_of(run, window) != NULL) {
        TRY(assign_rows(run, window, error));
    }
    return write_parts(run, window, error);
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
static size_t window_count(const struct pack_run *run, size_t first) {
    int64_t limit = run->request->window > 0 ? run->request->window : PACK_WINDOW, tokens = 0;
    size_t i = first;
    for (; i < run->input_count; i++) {
        tokens += run->inputs[i].size.sequences * run->max_length;
        if (i > first && tokens > limit) {
            break;
        }
    }
    return i - first;
}

static enum berth_status pack_all(struct pack_run *run, struct berth_error *error) {
    struct stage_items items = {.threads = 1, .context = run};
    for (size_t i = 0; i < run->input_count; i++) {
        run->work.total += (int64_t)run->inputs[i].bytes;
    }
    for (; run->round < run->window_count; run->round += items.count) {
        const size_t left = run->window_count - run->round;
        const size_t ranks = (size_t)run->request->comm->size;
        items.count = left < ranks ? left : ranks;
        items.make = assign_window;
        TRY(stage_make(&run->work, &items, error));
        // Numbers the files of the windows [first, first + count), each of which one rank has
        // packed.
        const size_t first = run->round;
        struct comm *comm = run->request->comm;
        for (size_t i = first; i < first + items.count; i++) {
            struct window *window = &run->windows[i];
            double parts = i - first == (size_t)comm->rank ? (double)window->part_count : 0;
            comm->sum(comm, &parts, 1);
            TRY(comm->status(comm, error));
            window->part_count = (int64_t)parts;
            window->first_part = i > 0 ? window[-1].first_part + window[-1].part_count : 0;
        }
        items.make = make_files;
        TRY(stage_make(&run->work, &items, error));
        drop_window(run);
    }
    return stage_gather(&run->stage, error);
}

static struct path path_beside(const struct pack_run *run, const char *ending) {
    const char *const folder = run->request->folder;
    return path_format("%.*s%s", (int)path_length(folder), folder, ending);
}

// Prepares the work of the stage; each rank does this by itself.
static enum berth_status prepare(struct pack_run *run, struct manifest_settings *settings,
                                 struct berth_error *error) {
    char digest[DIGEST_HEX_SIZE];
    TRY(find_inputs(run, digest, error));
    // Hands the vocabulary on, and warns of an input that was not made to its end.
    struct shard_origin origin;
    const enum berth_status status = shard_origin_read(run->request->input, &origin, error);
    if (status == BERTH_OK && origin.vocabulary[0] != '\0') {
        manifest_set_text(settings, SHARD_VOCABULARY, origin.vocabulary);
    }
    if (status == BERTH_OK) {
        shard_origin_warn(&origin, run->work.log);
    }
    shard_origin_done(&origin);
    TRY(status);
    run->windows = memory_array_zeroed(run->input_count, sizeof *run->windows);
    if (run->windows == NULL) {
        return error_no_memory(error, run->input_count * sizeof *run->windows, "windows");
    }
    for (size_t first = 0; first < run->input_count;) {
        struct window *window = &run->windows[run->window_count];
        *window = (struct window){run->window_count, first, window_count(run, first), 0, 0};
        first += window->count;
        run->window_count++;
    }
    run->total = &run->request->packing;
    *run->total = (struct packing){.length = run->max_length,
                                   .strategy_count = packing_strategies(run->max_length)};
    run->total->counts =
        memory_array_zeroed(run->total->strategy_count + 1, sizeof *run->total->counts);
    if (run->total->counts == NULL) {
        return error_no_memory(error, run->total->strategy_count * 8, "packing");
    }
    manifest_set_text(settings, "input_sha256", digest);
    manifest_set_integer(settings, "seed", run->request->seed);
    manifest_set_integer(settings, "window",
                         (uint64_t)(run->request->window > 0 ? run->request->window : PACK_WINDOW));
    return BERTH_OK;
}

// Runs on rank 0, which has the entries of all windows.
static enum berth_status finish(struct pack_run *run, struct berth_error *error) {
    for (size_t i = 0; i < run->window_count; i++) {
        const json *entry = entry_of(run, &run->windows[i]);
        struct packing *total = run->total;
        const json *strategies = json_member(entry, "strategies");
        total->count += (size_t)json_as_integer(json_member(entry, "rows"));
        total->sequences += (uint64_t)json_as_integer(json_member(entry, "sequences"));
        total->tokens += (uint64_t)json_as_integer(json_member(entry, "tokens"));
        run->request->files += json_as_integer(json_member(entry, "parts"));
        for (size_t k = 0; k + 1 < json_length(strategies); k += 2) {
            int64_t number = json_as_integer(json_at(strategies, k));
            if (number >= 0 && (size_t)number < total->strategy_count) {
                total->counts[number] += (uint64_t)json_as_integer(json_at(strategies, k + 1));
            }
        }
    }
    for (size_t i = 0; i < run->total->strategy_count; i++) {
        run->total->strategies_used += run->total->counts[i] > 0;
    }
    return packing_write_metadata(run->total, path_beside(run, "_metadata.json").text, error);
}

static enum berth_status pack_instances(struct pack_run *run, struct manifest_settings *settings,
                                        struct berth_error *error) {
    struct comm *comm = run->request->comm;
    const struct path manifest = path_beside(run, PACK_MANIFEST);
    const struct stage_location location = {run->request->folder, manifest.text, comm};
    TRY(comm_settle(comm, prepare(run, settings, error), error));
    TRY(stage_open(&run->stage, &location, settings, error));
    TRY(pack_all(run, error));
    TRY(comm_settle(comm, comm->rank == 0 ? finish(run, error) : BERTH_OK, error));
    return run->stage.complete ? BERTH_OK : stage_finish(&run->stage, error);
}

enum berth_status pack_stage_run(struct pack_stage *stage, const struct berth_log *log,
                                 const atomic_int *stop, struct berth_error *error) {
    struct pack_run run = {.request = stage, .stage.lock.descriptor = -1};
    struct manifest_settings settings = {.count = 0};
    run.work = (struct stage_work){.reporting = PTHREAD_MUTEX_INITIALIZER,
                                   .log = log,
                                   .stop = stop,
                                   .comm = stage->comm,
                                   .phase = "packing",
                                   .in_bytes = 1};
    stage->files = 0;
    stage->packing = (struct packing){0};
    enum berth_status status = pack_instances(&run, &settings, error);
    stage_close(&run.stage);
    drop_window(&run);
    for (size_t i = 0; i < run.input_count; i++) {
        memory_free(run.inputs[i].path);
    }
    memory_free(run.inputs);
    memory_free(run.windows);
    return status;
}
