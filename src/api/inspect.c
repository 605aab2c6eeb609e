// SPDX-License-Identifier: Apache-2.0
// The job inspect: lists the tensors of a checkpoint and its config, and the contents of
// pre-training data, of which it reads, and thereby checks, every row. Opening a model lists its
// tensors with the same function (open.c).
#include "api/inspect.h"

#include "api/job.h"
#include "core/file.h"
#include "core/json_line.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/terminal.h"
#include "core/text_util.h"
#include "data/pretraining/pretraining_file.h"
#include "data/pretraining/shard_origin.h"
#include "format/containers/containers.h"
#include "format/deepspeed/deepspeed.h"
#include "format/hdf5/hdf5.h"
#include "format/json/json.h"
#include "model/folder.h"

#include <inttypes.h>
#include <string.h>

// --- tensors -------------------------------------------------------------------------------------

// The data sets of an HDF5 file of pre-training data.
static enum berth_status inspect_hdf5(const char *path, inspect_visitor *visit, void *context,
                                      struct berth_error *error) {
    struct hdf5_file file;
    TRY(hdf5_open(&file, path, error));
    for (size_t i = 0; i < file.count; i++) {
        const struct hdf5_dataset *set = &file.sets[i];
        struct berth_tensor tensor = {.name = set->name,
                                      .dtype = tensor_dtype_name(set->dtype),
                                      .rank = (size_t)set->rank,
                                      .bytes = set->bytes};
        memcpy(tensor.shape, set->shape, sizeof tensor.shape);
        visit(context, &tensor);
    }
    hdf5_close(&file);
    return BERTH_OK;
}

static enum berth_status inspect_file(const char *path, inspect_visitor *visit, void *context,
                                      struct berth_error *error) {
    struct tensor_file file;
    int is_hdf5;
    TRY(hdf5_recognise(path, &is_hdf5, error));
    if (is_hdf5) {
        return inspect_hdf5(path, visit, context, error);
    }
    TRY(tensor_file_open(&file, path, error));
    for (size_t i = 0; i < file.count; i++) {
        const struct tensor_entry *entry = &file.entries[i];
        struct berth_tensor tensor = {.name = entry->name,
                                      .dtype = entry->dtype_name,
                                      .rank = (size_t)entry->rank,
                                      .bytes = (size_t)(entry->end - entry->begin)};
        memcpy(tensor.shape, entry->shape, sizeof tensor.shape);
        visit(context, &tensor);
    }
    tensor_file_close(&file);
    return BERTH_OK;
}

// One of a folder's weight files. training_args.bin, which transformers leaves there, has no
// tensors.
static int is_container(const char *name) {
    static const char *const endings[] = {".safetensors", ".index", ".bin", ".pt"};
    int found = 0;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        found |= name_has_suffix(name, endings[i]);
    }
    return found && strcmp(name, "training_args.bin") != 0;
}

// A DeepSpeed folder has several files of one model, one of which is read.
enum berth_status inspect_tensors(const char *path, inspect_visitor *visit, void *context,
                                  struct berth_error *error) {
    OWNED char *states = NULL;
    TRY(dir_exists(path) ? deepspeed_find(path, &states, error) : BERTH_OK);
    if (dir_exists(path) && states == NULL) {
        OWNED char **names = NULL;
        size_t containers = 0;
        TRY(dir_list(path, &names, error));
        for (size_t i = 0; names[i] != NULL; i++) {
            if (is_container(names[i])) {
                containers++;
                TRY(inspect_file(path_in(path, names[i]).text, visit, context, error));
            }
        }
        return containers > 0
                   ? BERTH_OK
                   : error_set(
                         error, BERTH_NO_INPUT,
                         "%s: nothing to inspect in this folder: expected .safetensors, .bin or "
                         ".pt files, a TensorFlow checkpoint, or files *.hdf5 or *.tfrecord of "
                         "pre-training data",
                         path);
    }
    return inspect_file(states != NULL ? states : path, visit, context, error);
}

enum berth_status inspect_config(const char *folder, char **text, struct berth_error *error) {
    OWNED char *path = folder_config_path(folder);
    size_t length;
    *text = NULL;
    return path == NULL        ? error_no_memory(error, 0, "a path")
           : file_exists(path) ? file_read(path, JSON_FILE_LIMIT, text, &length, error)
                               : BERTH_OK;
}

// --- pre-training data ---------------------------------------------------------------------------

// The contents of files of pre-training instances, packed or not.
struct data_info {
    int64_t files; // 0: the path holds no such data
    int64_t rows;
    int64_t max_length; // tokens of an HDF5 row; 0: TFRecord only
    int64_t instances, tokens, predictions;
    int64_t random_next;       // instances whose second segment is random
    int64_t shortest, longest; // tokens of an instance
};

static void add_instances(struct data_info *info, const struct instances *read) {
    info->files++;
    info->instances += (int64_t)read->count;
    info->tokens += (int64_t)read->token_count;
    info->predictions += (int64_t)read->prediction_count;
    for (size_t i = 0; i < read->count; i++) {
        int64_t length = read->items[i].length;
        info->random_next += read->items[i].is_random;
        info->longest = length > info->longest ? length : info->longest;
        info->shortest = info->shortest == 0 || length < info->shortest ? length : info->shortest;
    }
}

// Reads the number of rows and their width; *is_data is 0 if the file has no data set of ids.
static enum berth_status measure_hdf5(const char *path, struct data_info *info, int *is_data,
                                      struct berth_error *error) {
    struct hdf5_file file;
    TRY(hdf5_open(&file, path, error));
    const struct hdf5_dataset *ids = hdf5_find(&file, "input_ids");
    *is_data = ids != NULL && ids->rank == 2;
    if (*is_data) {
        info->rows += ids->shape[0];
        info->max_length = ids->shape[1] > info->max_length ? ids->shape[1] : info->max_length;
    }
    hdf5_close(&file);
    return BERTH_OK;
}

static enum berth_status add_file(const char *path, struct data_info *info,
                                  struct berth_error *error) {
    int is_hdf5;
    TRY(hdf5_recognise(path, &is_hdf5, error));
    if (is_hdf5 || name_has_extension(path, ".hdf5") || name_has_extension(path, ".h5")) {
        struct instances read DONE_BY(instances_done) = {0};
        int is_data;
        TRY(measure_hdf5(path, info, &is_data, error));
        if (is_data) {
            TRY(pretraining_read_hdf5(path, INT32_MAX, 0, &read, error));
            add_instances(info, &read);
        }
        return BERTH_OK;
    }
    if (pretraining_is_file(path_name(path))) {
        struct instances read DONE_BY(instances_done) = {0};
        TRY(pretraining_read_tfrecord(path, INT32_MAX, 0, &read, error));
        add_instances(info, &read);
        info->rows += (int64_t)read.count;
        return BERTH_OK;
    }
    return BERTH_OK;
}

static enum berth_status add_member(const char *path, void *context, struct berth_error *error) {
    return pretraining_is_file(path_name(path)) ? add_file(path, context, error) : BERTH_OK;
}

static void put_data(const struct job *job, const struct data_info *info) {
    json_line_open(job_line(job), "data", '{');
    job_put_integer(job, "files", info->files);
    job_put_integer(job, "rows", info->rows);
    job_put_integer(job, "max_seq_length", info->max_length);
    job_put_integer(job, "instances", info->instances);
    job_put_integer(job, "tokens", info->tokens);
    job_put_integer(job, "predictions", info->predictions);
    job_put_integer(job, "random_next", info->random_next);
    job_put_integer(job, "shortest", info->shortest);
    job_put_integer(job, "longest", info->longest);
    json_line_close(job_line(job), '}');
    job_say(job,
            "%" PRId64 " instance%s of %" PRId64 " to %" PRId64 " tokens in %" PRId64
            " row%s of %" PRId64 " file%s",
            info->instances, number_plural(info->instances), info->shortest, info->longest,
            info->rows, number_plural(info->rows), info->files, number_plural(info->files));
    if (info->max_length > 0) {
        job_say(job, ", rows of %" PRId64 " tokens %.1f %% full", info->max_length,
                number_percent(info->tokens, info->rows * info->max_length));
    }
    job_say(job,
            "\n%.1f %% of the tokens predicted, %.1f %% of the instances with a random second "
            "segment\n",
            number_percent(info->predictions, info->tokens),
            number_percent(info->random_next, info->instances));
}

// Warns of a folder of data that was not made to its end.
static enum berth_status check_origin(const struct job *job, const char *folder,
                                      struct berth_error *error) {
    struct shard_origin origin DONE_BY(shard_origin_done);
    TRY(shard_origin_read(folder, &origin, error));
    shard_origin_warn(&origin, &job->log);
    return BERTH_OK;
}

// --- the job -------------------------------------------------------------------------------------

struct listing {
    const struct job *job;
    size_t tensors;
    uint64_t elements, bytes;
};

static void put_tensor(void *context, const struct berth_tensor *tensor) {
    struct listing *listing = context;
    struct json_line *line = job_line(listing->job);
    char shape[TENSOR_SHAPE_SIZE], name[4096];
    uint64_t elements = 1;
    json_line_open(line, NULL, '{');
    json_line_text(line, "name", tensor->name);
    json_line_text(line, "dtype", tensor->dtype);
    json_line_open(line, "shape", '[');
    for (size_t i = 0; i < tensor->rank; i++) {
        json_line_integer(line, NULL, tensor->shape[i]);
        elements *= (uint64_t)tensor->shape[i];
    }
    json_line_close(line, ']');
    json_line_integer(line, "bytes", (int64_t)tensor->bytes);
    json_line_close(line, '}');
    tensor_print_shape(shape, sizeof shape, tensor->shape, (int)tensor->rank);
    terminal_escape(name, sizeof name, tensor->name, "");
    job_say(listing->job, "%-5s %-16s %s\n", tensor->dtype, shape, name);
    listing->tensors++;
    listing->elements += elements;
    listing->bytes += tensor->bytes;
}

static enum berth_status run_inspect(struct job *job, struct berth_error *error) {
    struct listing listing = {.job = job};
    struct data_info info = {0};
    const char *path = job_text(job, "path");
    OWNED char *config = NULL;
    // One file of instances (HDF5, or TFRecord by its name) or all of a folder.
    TRY(path_require(path, "a file or a folder to inspect", error));
    TRY(dir_exists(path) ? dir_each(path, add_member, &info, error) : add_file(path, &info, error));
    TRY(info.files > 0 && dir_exists(path) ? check_origin(job, path, error) : BERTH_OK);
    json_line_open(job_line(job), "tensors", '[');
    // Data folders and TFRecord files have no tensors to list.
    if (info.files == 0 || (info.files == 1 && info.max_length > 0 && !dir_exists(path))) {
        TRY(dir_exists(path) ? inspect_config(path, &config, error) : BERTH_OK);
        TRY(inspect_tensors(path, put_tensor, &listing, error));
    }
    json_line_close(job_line(job), ']');
    job_put_integer(job, "parameters", (int64_t)listing.elements);
    job_put_integer(job, "bytes", (int64_t)listing.bytes);
    json_line_text(job_line(job), "config", config);
    if (listing.tensors > 0) {
        job_say(job, "%zu tensor%s, %" PRIu64 " parameter%s, %" PRIu64 " bytes\n", listing.tensors,
                number_plural((int64_t)listing.tensors), listing.elements,
                number_plural((int64_t)listing.elements), listing.bytes);
    }
    if (config != NULL) {
        job_say(job, "config.json:\n%s\n", config);
    }
    if (info.files > 0) {
        put_data(job, &info);
    }
    return BERTH_OK;
}

static const struct option_row settings[] = {
    {JOB_TEXT("path", NULL), .unit = "PATH", .help = "model, file of tensors or data"},
};

const struct job_row job_inspect = {
    .about = {"inspect",
              "list a checkpoint's tensors, types, shapes, config; look into pre-training data"},
    JOB_SETTINGS(settings),
    .arguments = 1,
    .models = 1,
    .usage = "PATH [--json]",
    .example = "berth inspect squad-minilm\n"
               "berth inspect squad-minilm/model.safetensors\n"
               "berth inspect data/hdf5_lower_case_1_.../wikicorpus_en",
    .json = "print one JSON object",
    .only_reads = 1,
    .run = run_inspect,
};
