// SPDX-License-Identifier: Apache-2.0
// Where Hugging Face's cache is, by its environment variables, and what a name means in it:
// folders, references, snapshots and links. `berth fetch` writes there, and every command that is
// given a model's name looks there; which files a model has is model_files.c's.
#include "format/hub/hub_cache.h"

#include "core/caseless.h"
#include "core/memory.h"
#include "format/checksum/digest.h"
#include "format/hub/hub_blob.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ID_LIMIT 96
#define COMPONENT_LIMIT 255
#define PATH_LIMIT 1024
#define SNAPSHOT_DEPTH 4

// --- paths --------------------------------------------------------------------------------------

// The value of an environment variable; NULL when unset or empty.
static const char *get_variable(const char *name) {
    const char *value = getenv(name);
    return value != NULL && *value != '\0' ? value : NULL;
}

static struct path home_folder(const char *name) {
    const char *home = get_variable("HOME");
    return path_in(home != NULL ? home : ".", name);
}

static struct path expand(const char *path) {
    return strncmp(path, "~/", 2) == 0 ? home_folder(path + 2) : path_format("%s", path);
}

static struct path hf_home(void) {
    const char *set = get_variable("HF_HOME"), *xdg = get_variable("XDG_CACHE_HOME");
    if (set != NULL) {
        return expand(set);
    }
    return xdg != NULL ? path_in(expand(xdg).text, "huggingface")
                       : home_folder(".cache/huggingface");
}

char *hub_cache_root(void) {
    const char *set = get_variable("HF_HUB_CACHE");
    set = set != NULL ? set : get_variable("HUGGINGFACE_HUB_CACHE");
    return memory_string((set != NULL ? expand(set) : path_in(hf_home().text, "hub")).text);
}

struct path hub_assets_root(void) {
    const char *set = get_variable("HF_ASSETS_CACHE");
    return path_in((set != NULL ? expand(set) : path_in(hf_home().text, "assets")).text, "berth");
}

struct path hub_token_path(void) {
    const char *set = get_variable("HF_TOKEN_PATH");
    return set != NULL ? expand(set) : path_in(hf_home().text, "token");
}

int hub_is_truthy(const char *value) {
    static const char *const words[] = {"1", "on", "yes", "true"};
    for (size_t i = 0; value != NULL && i < sizeof words / sizeof *words; i++) {
        if (caseless_equal(value, words[i])) {
            return 1;
        }
    }
    return 0;
}

// --- names --------------------------------------------------------------------------------------

static int is_plain(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Whether the text is valid as one half of an id.
static int is_id_half(const char *text, size_t length) {
    if (length == 0 || !is_plain(text[0]) || !is_plain(text[length - 1])) {
        return 0;
    }
    for (size_t i = 0; i < length; i++) {
        int is_separator = text[i] == '.' || text[i] == '-';
        if (!is_separator && !is_plain(text[i])) {
            return 0;
        }
        if (is_separator && text[i + 1] == text[i]) {
            return 0; // "--" separates the halves in folder names, ".." leads upwards
        }
    }
    return 1;
}

int hub_is_id(const char *text) {
    const char *slash = strchr(text, '/');
    if (strlen(text) > ID_LIMIT) {
        return 0;
    }
    return slash == NULL ? is_id_half(text, strlen(text))
                         : is_id_half(text, (size_t)(slash - text)) &&
                               is_id_half(slash + 1, strlen(slash + 1));
}

int hub_is_commit(const char *text) {
    return digest_is_hex(DIGEST_GIT_BLOB, text);
}

int hub_is_safe_path(const char *path) {
    size_t length = strlen(path);
    if (length == 0 || length > PATH_LIMIT) {
        return 0;
    }
    for (const char *component = path;; component++) {
        size_t size = strcspn(component, "/");
        int dots = size <= 2 && strspn(component, ".") >= size; // "", "." and ".."
        if (dots || size > COMPONENT_LIMIT) {
            return 0;
        }
        for (size_t i = 0; i < size; i++) {
            if (iscntrl((unsigned char)component[i]) || component[i] == '\\') {
                return 0;
            }
        }
        component += size;
        if (*component == '\0') {
            return 1;
        }
    }
}

struct path hub_repo_folder(const char *root, const char *type, const char *id) {
    const char *slash = strchr(id, '/');
    const struct path name =
        slash == NULL ? path_format("%ss--%s", type, id)
                      : path_format("%ss--%.*s--%s", type, (int)(slash - id), id, slash + 1);
    return path_in(root, name.text);
}

// --- finding ------------------------------------------------------------------------------------

static struct path ref_path(const char *repo, const char *revision) {
    return path_format("%s/refs/%s", repo, revision);
}

// Reads the commit of a branch or tag; empty when there is no such ref. Editors and shells may have
// put a line end after it.
static enum berth_status read_ref(const char *repo, const char *revision,
                                  char commit[HUB_COMMIT_SIZE], struct berth_error *error) {
    const struct path path = ref_path(repo, revision);
    OWNED char *text = NULL;
    size_t length;
    commit[0] = '\0';
    if (!file_exists(path.text)) {
        return BERTH_OK;
    }
    TRY(file_read(path.text, PATH_LIMIT, &text, &length, error));
    const int is_text = strlen(text) == length;
    if (is_text) {
        size_t kept = strlen(text);
        while (kept > 0 && strchr(" \t\r\n", text[kept - 1]) != NULL) {
            kept--;
        }
        text[kept] = '\0';
    }
    if (!is_text || !hub_is_commit(text)) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: expected a commit (40 hexadecimal digits); remove the file and fetch "
                         "again",
                         path.text);
    }
    memcpy(commit, text, HUB_COMMIT_SIZE);
    return BERTH_OK;
}

static enum berth_status check_entry(const char *path, const char *repo,
                                     struct berth_error *error) {
    if (!file_exists(path) && !dir_exists(path)) {
        return error_set(
            error, BERTH_NO_INPUT,
            "%s: broken link: the snapshot is incomplete; complete it with `berth fetch`", path);
    }
    // A path outside the repository and outside ROOT/blobs, which holds blobs shared by several, is
    // refused.
    if (!path_is_inside(path, repo) && !path_is_inside(path, path_in(repo, "../blobs").text)) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: a link to a file outside the cache's folder %s: refused", path, repo);
    }
    return file_exists(path) ? hub_blob_check(repo, path, error) : BERTH_OK;
}

// Checks the folder and its contents down to `depth` more levels: nothing reads deeper files.
static enum berth_status check_folder(const char *folder, const char *repo, int depth,
                                      struct berth_error *error) {
    char **names;
    TRY(check_entry(folder, repo, error));
    TRY(dir_list(folder, &names, error));
    enum berth_status status = BERTH_OK;
    for (size_t i = 0; names[i] != NULL && status == BERTH_OK; i++) {
        char *path = path_join(folder, names[i]);
        status = path == NULL                    ? error_no_memory(error, 0, "a path")
                 : depth > 0 && dir_exists(path) ? check_folder(path, repo, depth - 1, error)
                                                 : check_entry(path, repo, error);
        memory_free(path);
    }
    memory_free(names);
    return status;
}

static enum berth_status find_commit(const char *repo, const char *revision,
                                     char commit[HUB_COMMIT_SIZE], struct berth_error *error) {
    if (hub_is_commit(revision)) {
        memcpy(commit, revision, HUB_COMMIT_SIZE);
        return BERTH_OK;
    }
    return read_ref(repo, revision, commit, error);
}

// A cache that was copied by hand may have snapshots, but no ref that says which one is meant.
// Which file to write is in the message.
static enum berth_status refuse_without_ref(const char *repo, const char *revision,
                                            struct berth_error *error) {
    const struct path folder = path_in(repo, "snapshots");
    char **names = NULL;
    enum berth_status status =
        dir_exists(folder.text) ? dir_list(folder.text, &names, error) : BERTH_OK;
    for (size_t i = 0; names != NULL && names[i] != NULL && status == BERTH_OK; i++) {
        if (hub_is_commit(names[i])) {
            status = error_set(error, BERTH_NO_INPUT,
                               "%s/refs/%s: no such file, so it is not known which snapshot in %s "
                               "is revision %s; write the snapshot's name (%s) into that file",
                               repo, revision, folder.text, revision, names[i]);
        }
    }
    memory_free(names);
    return status;
}

static enum berth_status find_folder(struct hub_snapshot *snapshot, const char *revision,
                                     struct berth_error *error) {
    const char *const repo = snapshot->repo.text;
    TRY(find_commit(repo, revision, snapshot->commit, error));
    if (snapshot->commit[0] == '\0') {
        return refuse_without_ref(repo, revision, error);
    }
    const struct path folder = path_format("%s/snapshots/%s", repo, snapshot->commit);
    if (!dir_exists(folder.text)) {
        return BERTH_OK;
    }
    snapshot->folder = memory_string(folder.text);
    return snapshot->folder == NULL ? error_no_memory(error, 0, "a path")
                                    : check_folder(folder.text, repo, SNAPSHOT_DEPTH, error);
}

enum berth_status hub_snapshot_find(const char *root, const char *type, const char *id,
                                    const char *revision, struct hub_snapshot *snapshot,
                                    struct berth_error *error) {
    *snapshot = (struct hub_snapshot){.repo = hub_repo_folder(root, type, id)};
    if (!hub_is_safe_path(revision)) {
        return error_set(error, BERTH_USAGE,
                         "revision \"%s\": expected the name of a branch or a commit", revision);
    }
    enum berth_status status = find_folder(snapshot, revision, error);
    if (status != BERTH_OK) {
        hub_snapshot_done(snapshot);
    }
    return status;
}

void hub_snapshot_done(struct hub_snapshot *snapshot) {
    memory_free(snapshot->folder);
    snapshot->folder = NULL;
}

// --- publishing ---------------------------------------------------------------------------------

// Creates the folder of `path`, which must be inside `folder` even if others have put links there.
static enum berth_status make_parent(const char *path, const char *folder,
                                     struct berth_error *error) {
    const struct path parent = path_parent(path);
    TRY(dir_make(parent.text, error));
    return path_is_inside(parent.text, folder)
               ? BERTH_OK
               : error_set(error, BERTH_BAD_DATA, "%s is outside the cache's folder %s: refused",
                           parent.text, folder);
}

enum berth_status hub_link_blob(const char *snapshot_folder, const char *path, const char *blob,
                                struct berth_error *error) {
    char target[PATH_LIMIT * 2] = "../../";
    for (const char *at = strchr(path, '/'); at != NULL; at = strchr(at + 1, '/')) {
        strncat(target, "../", sizeof target - strlen(target) - 1);
    }
    size_t used = strlen(target);
    snprintf(target + used, sizeof target - used, "blobs/%s", blob);
    const struct path link = path_in(snapshot_folder, path);
    TRY(make_parent(link.text, snapshot_folder, error));
    return file_link(target, link.text, error);
}

enum berth_status hub_write_ref(const char *repo, const char *revision, const char *commit,
                                struct berth_error *error) {
    char found[HUB_COMMIT_SIZE];
    if (read_ref(repo, revision, found, NULL) == BERTH_OK && strcmp(found, commit) == 0) {
        return BERTH_OK;
    }
    const struct path path = ref_path(repo, revision);
    TRY(make_parent(path.text, repo, error));
    return file_write(path.text, commit, strlen(commit), error);
}
