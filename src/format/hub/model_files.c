// SPDX-License-Identifier: Apache-2.0
// Which files of a repository make up a model, and the search for a model or a data set by name in
// the hub's cache, among what `berth fetch` has put there: of a model a snapshot, of a data set
// with a name of its own one of its known files. Every command that is given a name comes here
// before it opens a file.
#include "format/hub/model_files.h"

#include "core/file.h"
#include "core/memory.h"
#include "core/text_util.h"
#include "format/hub/hub_cache.h"
#include "format/json/json.h"

#include <fnmatch.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define PATTERNS_MAX 3

// --- which files --------------------------------------------------------------------------------

static const char *const configurations[] = {"config.json", "bert_config.json"};

// Fetched if they exist.
static const char *const companions[] = {"tokenizer.json", "tokenizer_config.json",
                                         "special_tokens_map.json", "added_tokens.json",
                                         "sentence_bert_config.json"};

// Files of sentence-transformers, which describe the embeddings, and its modules. Its Transformer
// may be in a folder of its own.
static const char *const encoders[] = {"modules.json", "config_sentence_transformers.json",
                                       "[0-9]_*/config.json", "[0-9]_*/model.safetensors",
                                       "[0-9]_*/pytorch_model.bin"};
#define BODY "0_Transformer"
static const char body_prefix[] = BODY "/";

// A set of weights exists if a file matches its first pattern.
static const char *const weights[][PATTERNS_MAX] = {
    {"model.safetensors"},
    {"model.safetensors.index.json", "model-*-of-*.safetensors"},
    {"pytorch_model.bin"},
    {"pytorch_model.bin.index.json", "pytorch_model-*-of-*.bin"},
    {"bert_model.ckpt.index", "bert_model.ckpt.data-*", "checkpoint"}};

struct names {
    const char *const *names;
    size_t count;
    int in_body; // the model's files are those of the folder BODY
};

static const char *name_of(const struct names *names, size_t index) {
    const char *name = names->names[index];
    return !names->in_body                                           ? name
           : strncmp(name, body_prefix, sizeof body_prefix - 1) == 0 ? name + sizeof body_prefix - 1
                                                                     : "";
}

// Sets `role` for all names that match the pattern; returns their number.
static size_t mark(const struct names *names, const char *pattern, enum model_file role,
                   enum model_file *roles) {
    size_t found = 0;
    for (size_t i = 0; i < names->count; i++) {
        if (fnmatch(pattern, name_of(names, i), FNM_PATHNAME | FNM_PERIOD) == 0) {
            roles[i] = role;
            found++;
        }
    }
    return found;
}

static size_t mark_weights(const struct names *names, enum model_file *roles) {
    for (size_t set = 0; set < COUNT(weights); set++) {
        size_t found = mark(names, weights[set][0], MODEL_FILE_NEEDED, roles);
        for (size_t i = 1; found > 0 && i < PATTERNS_MAX && weights[set][i] != NULL; i++) {
            mark(names, weights[set][i], MODEL_FILE_NEEDED, roles);
        }
        if (found > 0) {
            return found;
        }
    }
    return 0;
}

static size_t mark_configs(const struct names *names, enum model_file *roles) {
    size_t found = 0;
    for (size_t i = 0; i < COUNT(configurations); i++) {
        found += mark(names, configurations[i], MODEL_FILE_NEEDED, roles);
    }
    return found;
}

enum berth_status model_files_pick(const char *const *names, size_t count, enum model_file *roles,
                                   const char *name, struct berth_error *error) {
    const struct names whole = {names, count, 0};
    struct names all = whole;
    for (size_t i = 0; i < count; i++) {
        roles[i] = MODEL_FILE_OTHER;
    }
    for (size_t i = 0; i < COUNT(encoders); i++) {
        mark(&whole, encoders[i], MODEL_FILE_WANTED, roles);
    }
    size_t configs = mark_configs(&all, roles);
    if (configs == 0) {
        all.in_body = 1;
        configs = mark_configs(&all, roles);
    }
    for (size_t i = 0; i < COUNT(companions); i++) {
        mark(&all, companions[i], MODEL_FILE_WANTED, roles);
    }
    if (mark(&all, "vocab.txt", MODEL_FILE_NEEDED, roles) == 0) {
        mark(&all, "tokenizer.json", MODEL_FILE_NEEDED, roles);
    }
    if (configs == 0) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: expected a model's config.json among its files, found none", name);
    }
    if (mark_weights(&all, roles) == 0) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: expected model.safetensors, pytorch_model.bin (or their indexes) or "
                         "bert_model.ckpt.index among its files, found none",
                         name);
    }
    return BERTH_OK;
}

// --- is a snapshot complete? --------------------------------------------------------------------

static enum berth_status no_memory(struct berth_error *error) {
    return error_no_memory(error, 0, "a list of files");
}

static enum berth_status check_names(const struct hub_snapshot *snapshot, const char *id,
                                     const struct names *names, struct berth_error *error) {
    enum model_file *roles = memory_array(names->count + 1, sizeof *roles);
    if (roles == NULL) {
        return no_memory(error);
    }
    enum berth_status status = model_files_pick(names->names, names->count, roles, id, error);
    for (size_t i = 0; i < names->count && status == BERTH_OK; i++) {
        if (roles[i] == MODEL_FILE_NEEDED &&
            !file_exists(path_in(snapshot->folder, names->names[i]).text)) {
            status =
                error_set(error, BERTH_NO_INPUT,
                          "%s: %s is not in the cache's snapshot %s: `berth fetch %s` completes it",
                          id, names->names[i], snapshot->folder, id);
        }
    }
    memory_free(roles);
    return status;
}

static enum berth_status check_folder(const struct hub_snapshot *snapshot, const char *id,
                                      struct berth_error *error) {
    struct path inner = path_in(snapshot->folder, BODY);
    const struct hub_snapshot own = {.folder = inner.text};
    char **list;
    snapshot = dir_exists(inner.text) ? &own : snapshot;
    TRY(dir_list(snapshot->folder, &list, error));
    struct names names = {.names = (const char *const *)list};
    while (list[names.count] != NULL) {
        names.count++;
    }
    enum berth_status status = check_names(snapshot, id, &names, error);
    memory_free(list);
    return status == BERTH_BAD_DATA
               ? error_prefix(error, BERTH_NO_INPUT, "the cache's snapshot %s is incomplete",
                              snapshot->folder)
               : status;
}

enum berth_status model_files_check(const struct hub_snapshot *snapshot, const char *id,
                                    struct berth_error *error) {
    // The listing of all files of the commit; NULL if none was stored.
    const struct path path = path_format("%s/trees/%s.json", snapshot->repo.text, snapshot->commit);
    json *tree = NULL;
    if (file_exists(path.text) && json_read_file(path.text, &tree, NULL) != BERTH_OK) {
        tree = NULL; // the folder itself suffices
    }
    const json *files = json_member(tree, "files");
    size_t count = json_length(files);
    if (!json_is_object_value(files) || count == 0) {
        json_free(tree);
        return check_folder(snapshot, id, error);
    }
    const char **list = memory_array(count, sizeof *list);
    enum berth_status status = list == NULL ? no_memory(error) : BERTH_OK;
    struct names names = {.names = list};
    struct json_walk walk = {.object = files};
    while (status == BERTH_OK && json_walk_next(&walk)) {
        list[names.count++] = walk.key;
    }
    status = status == BERTH_OK ? check_names(snapshot, id, &names, error) : status;
    memory_free(list);
    json_free(tree);
    return status;
}

// --- by name ------------------------------------------------------------------------------------

// Whether a name that could be the hub's means a file: it ends as files do, or is in a folder that
// exists.
static int means_file(const char *id) {
    static const char *const endings[] = {
        ".safetensors", ".bin",  ".pt",  ".pth", ".ckpt", ".index", ".json", ".jsonl",   ".txt",
        ".gguf",        ".onnx", ".npy", ".csv", ".tsv",  ".h5",    ".hdf5", ".tfrecord"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        if (name_has_suffix(id, endings[i])) {
            return 1;
        }
    }
    const char *slash = strchr(id, '/');
    return slash != NULL && dir_exists(path_format("%.*s", (int)(slash - id), id).text);
}

static enum berth_status find_in_cache(const char *id, char **path, struct berth_error *error) {
    char *root = hub_cache_root();
    struct hub_snapshot snapshot = {.folder = NULL};
    enum berth_status status =
        root == NULL ? no_memory(error)
                     : hub_snapshot_find(root, "model", id, HUB_MAIN, &snapshot, error);
    if (status == BERTH_OK && snapshot.folder == NULL) {
        status = means_file(id)
                     ? error_set(error, BERTH_NO_INPUT, "%s: no such file or folder", id)
                     : error_set(error, BERTH_NO_INPUT,
                                 "%s: no such folder, and no model with that name in the cache %s; "
                                 "`berth fetch %s` downloads it",
                                 id, root, id);
    } else if (status == BERTH_OK) {
        status = model_files_check(&snapshot, id, error);
    }
    if (status == BERTH_OK) {
        *path = snapshot.folder;
        snapshot.folder = NULL;
    }
    hub_snapshot_done(&snapshot);
    memory_free(root);
    return status;
}

// TensorFlow's name of a checkpoint, DIR/bert_model.ckpt, is the prefix of its files' names. Sets
// *index to the file that leads to the others; NULL if there is none.
static enum berth_status find_checkpoint(const char *prefix, char **index,
                                         struct berth_error *error) {
    const struct path path = path_format("%s.index", prefix);
    const int is_there = file_exists(path.text);
    *index = is_there ? memory_string(path.text) : NULL;
    return !is_there || *index != NULL ? BERTH_OK : no_memory(error);
}

// A folder of sentence-transformers may have its Transformer in a folder of its own, whose files
// are then the model's.
static enum berth_status enter_body(char **folder, struct berth_error *error) {
    const struct path list = path_in(*folder, "modules.json");
    json *modules = NULL;
    if (!file_exists(list.text) || file_exists(path_in(*folder, "config.json").text)) {
        return BERTH_OK;
    }
    TRY(json_read_file(list.text, &modules, error));
    const char *name = json_text(json_member(json_at(modules, 0), "path"));
    char *body = name != NULL && name[0] != '\0' && name[0] != '.' && strchr(name, '/') == NULL
                     ? path_join(*folder, name)
                     : NULL;
    json_free(modules);
    if (body != NULL && file_exists(path_in(body, "config.json").text)) {
        memory_free(*folder);
        *folder = body;
    } else {
        memory_free(body);
    }
    return BERTH_OK;
}

enum berth_status hub_find_model(const char *name_or_path, char **path, struct berth_error *error) {
    *path = NULL;
    if (!file_exists(name_or_path) && !dir_exists(name_or_path)) {
        TRY(find_checkpoint(name_or_path, path, error));
        if (*path == NULL && hub_is_id(name_or_path)) {
            TRY(find_in_cache(name_or_path, path, error));
        }
    }
    if (*path == NULL && (*path = memory_string(name_or_path)) == NULL) {
        return no_memory(error);
    }
    const enum berth_status status = enter_body(path, error);
    if (status != BERTH_OK) {
        memory_free(*path);
        *path = NULL;
    }
    return status;
}

// --- data sets ----------------------------------------------------------------------------------

static enum berth_status no_data_memory(struct berth_error *error) {
    return error_no_memory(error, 0, "a data set's path");
}

// --- data sets -----------------------------------------------------------------------------------

// SHA-256 as published with the files' download scripts.
static const struct known_set known_sets[] = {
    {.names = {"squad", "squad-v1.1"},
     .folder = "datasets--squad",
     .url_prefix = "https://rajpurkar.github.io/SQuAD-explorer/dataset/",
     .files = {{"train-v1.1.json",
                "3527663986b8295af4f7fcdff1ba1ff3f72d07d61a20f487cb238a6ef92fd955"},
               {"dev-v1.1.json",
                "95aa6a52d5d6a735563366753ca50492a658031da74f301ac5238b03966972c9"}}},
    {.names = {"squad_v2", "squad-v2.0"},
     .folder = "datasets--squad_v2",
     .url_prefix = "https://rajpurkar.github.io/SQuAD-explorer/dataset/",
     .files = {
         {"train-v2.0.json", "68dcfbb971bd3e96d5b46c7177b16c1a4e7d4bdef19fb204502738552dede002"},
         {"dev-v2.0.json", "80a5225e94905956a6446d296ca1093975c4d3b3260f1d6c8f68bc2ab77182d8"}}}};

const struct known_set *known_set_find(const char *name) {
    for (size_t i = 0; i < sizeof known_sets / sizeof *known_sets; i++) {
        for (size_t k = 0; known_sets[i].names[k] != NULL; k++) {
            if (strcmp(known_sets[i].names[k], name) == 0) {
                return &known_sets[i];
            }
        }
    }
    return NULL;
}

static enum berth_status find_known_file(const struct known_set *known, const char *file,
                                         char **path, struct berth_error *error) {
    struct hub_snapshot snapshot = {.folder = NULL};
    const struct path root = hub_assets_root();
    enum berth_status status =
        hub_snapshot_find(root.text, "dataset", known->names[0], HUB_MAIN, &snapshot, error);
    if (status == BERTH_OK && snapshot.folder == NULL) {
        status = error_set(error, BERTH_NO_INPUT,
                           "%s: no such file, and the data set is not in the cache %s; `berth "
                           "fetch %s` downloads it",
                           known->names[0], root.text, known->names[0]);
    } else if (status == BERTH_OK) {
        *path = path_join(snapshot.folder, file);
        status = *path != NULL ? BERTH_OK : no_data_memory(error);
    }
    hub_snapshot_done(&snapshot);
    return status;
}

enum berth_status hub_find_data(const char *name, const char *split, char **path,
                                struct berth_error *error) {
    *path = NULL;
    const struct known_set *known = known_set_find(name);
    if (known != NULL && !file_exists(name)) {
        return find_known_file(known, known->files[strcmp(split, "dev") == 0].name, path, error);
    }
    *path = memory_string(name);
    return *path != NULL ? BERTH_OK : no_data_memory(error);
}
