// SPDX-License-Identifier: Apache-2.0
// Downloads: models and data sets of the hub, data sets known by name, files of any URL. The only
// user of src/net.
//
// A snapshot's ref is written when all its files are there, so whoever looks a name up in the cache
// finds a whole snapshot or the one before.
#include "api/model_files.h"
#include "berth.h"
#include "core/file.h"
#include "core/file_partial.h"
#include "core/memory.h"
#include "net/hub.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define DEFAULT_ENDPOINT "https://huggingface.co"
#define DEFAULT_RETRIES 5
#define TOKEN_LIMIT 4096
#define NAME_LIMIT 256
#define NO_SIZE (-1)

// --- data sets known by name --------------------------------------------------------------------

struct known_file {
    const char *name, *sha256;
};

// SHA-256 as published with the files' download scripts.
static const struct known_set {
    const char *names[3];
    const char *folder, *place;
    struct known_file files[2];
} known_sets[] = {
    {.names = {"squad", "squad-v1.1"},
     .folder = "datasets--squad",
     .place = "https://rajpurkar.github.io/SQuAD-explorer/dataset/",
     .files = {{"train-v1.1.json",
                "3527663986b8295af4f7fcdff1ba1ff3f72d07d61a20f487cb238a6ef92fd955"},
               {"dev-v1.1.json",
                "95aa6a52d5d6a735563366753ca50492a658031da74f301ac5238b03966972c9"}}},
    {.names = {"squad_v2", "squad-v2.0"},
     .folder = "datasets--squad_v2",
     .place = "https://rajpurkar.github.io/SQuAD-explorer/dataset/",
     .files = {
         {"train-v2.0.json", "68dcfbb971bd3e96d5b46c7177b16c1a4e7d4bdef19fb204502738552dede002"},
         {"dev-v2.0.json", "80a5225e94905956a6446d296ca1093975c4d3b3260f1d6c8f68bc2ab77182d8"}}}};

static const struct known_set *find_known(const char *name) {
    for (size_t i = 0; i < sizeof known_sets / sizeof *known_sets; i++) {
        for (size_t k = 0; known_sets[i].names[k] != NULL; k++) {
            if (strcmp(known_sets[i].names[k], name) == 0) {
                return &known_sets[i];
            }
        }
    }
    return NULL;
}

// --- what is to be fetched ----------------------------------------------------------------------

// One fetch while it runs.
struct fetch {
    const char *name;
    const struct berth_fetch_settings *settings;
    const struct known_set *known; // or NULL
    const char *revision;
    const char *type; // of the hub's repository: "model" or "dataset"
    int is_url;
    struct net net;
    char *root;  // the folder of all repositories
    char *repo;  // the one's folder
    char *locks; // the one's lock files
    char *path;  // the result
};

static enum berth_status no_memory(struct berth_error *error) {
    return error_set(error, BERTH_NO_MEMORY, "out of memory for a download's names");
}

static int is_whole_url(const char *name) {
    return strstr(name, "://") != NULL;
}

static enum berth_status check_hash(const char *option, enum digest_kind kind, const char *hex,
                                    struct berth_error *error) {
    if (hex == NULL || (strlen(hex) == digest_length(kind) &&
                        strspn(hex, "0123456789abcdefABCDEF") == digest_length(kind))) {
        return BERTH_OK;
    }
    return error_set(error, BERTH_USAGE, "option %s: expected %zu hexadecimal digits, found \"%s\"",
                     option, digest_length(kind), hex);
}

static enum berth_status check_settings(const struct fetch *fetch, struct berth_error *error) {
    const struct berth_fetch_settings *settings = fetch->settings;
    TRY(check_hash("sha256", DIGEST_SHA256, settings->sha256, error));
    TRY(check_hash("md5", DIGEST_MD5, settings->md5, error));
    if (!fetch->is_url && (settings->sha256 != NULL || settings->md5 != NULL)) {
        return error_set(error, BERTH_USAGE,
                         "options sha256 and md5 are for a URL; what the hub holds has its own");
    }
    if (!fetch->is_url && fetch->known == NULL && !hub_is_id(fetch->name)) {
        return error_set(error, BERTH_USAGE,
                         "\"%s\": expected a URL, a data set (squad, squad_v2), or a name of the "
                         "hub such as org/name",
                         fetch->name);
    }
    return hub_is_safe_path(fetch->revision)
               ? BERTH_OK
               : error_set(error, BERTH_USAGE, "revision \"%s\": no name of a branch or commit",
                           fetch->revision);
}

// "urls--HOST--16 digits of the URL's SHA-256"
static enum berth_status url_folder(const char *url, char folder[NAME_LIMIT],
                                    struct berth_error *error) {
    char hex[DIGEST_HEX_SIZE];
    char *host;
    TRY(http_host(url, &host, error));
    if (host == NULL) {
        return error_set(error, BERTH_USAGE, "\"%s\": expected an http or https URL", url);
    }
    for (char *at = host; *at != '\0'; at++) {
        *at = isalnum((unsigned char)*at) || *at == '.' || *at == '-' ? *at : '_';
    }
    enum berth_status status = digest_memory(DIGEST_SHA256, url, strlen(url), hex, error);
    snprintf(folder, NAME_LIMIT, "urls--%.200s--%.16s", host, hex);
    memory_free(host);
    return status;
}

static enum berth_status find_folders(struct fetch *fetch, struct berth_error *error) {
    const char *given = fetch->settings->cache_dir;
    int of_hub = !fetch->is_url && fetch->known == NULL;
    char name[NAME_LIMIT] = "";
    fetch->root = given != NULL ? memory_string(given)
                  : of_hub      ? hub_cache_root()
                                : hub_assets_root();
    if (fetch->is_url) {
        TRY(url_folder(fetch->name, name, error));
    } else if (fetch->known != NULL) {
        snprintf(name, sizeof name, "%s", fetch->known->folder);
    }
    if (fetch->root != NULL) {
        fetch->repo = of_hub ? hub_repo_folder(fetch->root, fetch->type, fetch->name)
                             : path_join(fetch->root, name);
    }
    if (fetch->repo == NULL) {
        return no_memory(error);
    }
    const char *folder = strrchr(fetch->repo, '/') + 1;
    char *all = path_join(fetch->root, ".locks");
    fetch->locks = all != NULL ? path_join(all, folder) : NULL;
    memory_free(all);
    return fetch->locks != NULL ? BERTH_OK : no_memory(error);
}

// Backup programs leave out folders with such a file.
static enum berth_status tag_cache(const struct fetch *fetch, struct berth_error *error) {
    static const char tag[] = "Signature: 8a477f597d28d172789f06886806bc55\n"
                              "# A cache of downloads; see https://bford.info/cachedir/\n";
    TRY(dir_make(fetch->repo, error));
    char *path = path_join(fetch->root, "CACHEDIR.TAG");
    if (path == NULL) {
        return no_memory(error);
    }
    enum berth_status status =
        file_exists(path) ? BERTH_OK : file_write(path, tag, sizeof tag - 1, error);
    memory_free(path);
    return status;
}

// --- snapshots ----------------------------------------------------------------------------------

static enum berth_status snapshot_folder(const struct fetch *fetch, const char *commit,
                                         char **folder, struct berth_error *error) {
    char *all = path_join(fetch->repo, "snapshots");
    *folder = all != NULL ? path_join(all, commit) : NULL;
    memory_free(all);
    if (*folder == NULL) {
        return no_memory(error);
    }
    TRY(dir_make(*folder, error));
    return file_lies_in(*folder, fetch->repo)
               ? BERTH_OK
               : error_set(error, BERTH_BAD_DATA, "%s leaves the cache's folder %s: refused",
                           *folder, fetch->repo);
}

struct snapshot_file {
    const char *path, *blob;
};

// Links the files, then says that the revision is this snapshot. fetch->path becomes its folder.
static enum berth_status publish(struct fetch *fetch, const char *commit,
                                 const struct snapshot_file *files, size_t count,
                                 struct berth_error *error) {
    TRY(snapshot_folder(fetch, commit, &fetch->path, error));
    for (size_t i = 0; i < count; i++) {
        TRY(hub_link_blob(fetch->path, files[i].path, files[i].blob, error));
    }
    return hub_is_commit(fetch->revision)
               ? BERTH_OK
               : hub_write_ref(fetch->repo, fetch->revision, commit, error);
}

// --- the hub ------------------------------------------------------------------------------------

// Whether `path` is in the list of patterns, which are separated by commas.
static int is_listed(const char *path, const char *patterns) {
    char pattern[NAME_LIMIT];
    for (const char *at = patterns; *at != '\0';) {
        size_t length = strcspn(at, ",");
        snprintf(pattern, sizeof pattern, "%.*s", (int)length, at);
        if (fnmatch(pattern, path, 0) == 0) {
            return 1;
        }
        at += length + (at[length] == ',');
    }
    return 0;
}

static enum berth_status pick_model(const struct fetch *fetch, const struct hub_listing *listing,
                                    unsigned char *taken, struct berth_error *error) {
    const char **names = memory_array(listing->count + 1, sizeof *names);
    enum model_file *roles = memory_array(listing->count + 1, sizeof *roles);
    enum berth_status status = names == NULL || roles == NULL ? no_memory(error) : BERTH_OK;
    for (size_t i = 0; i < listing->count && status == BERTH_OK; i++) {
        names[i] = listing->files[i].path;
    }
    if (status == BERTH_OK) {
        status = model_files_pick(names, listing->count, roles, fetch->name, error);
    }
    int vocabulary = 0;
    for (size_t i = 0; i < listing->count && status == BERTH_OK; i++) {
        taken[i] = roles[i] != MODEL_FILE_OTHER;
        vocabulary = vocabulary || strcmp(names[i], "vocab.txt") == 0;
    }
    if (status == BERTH_OK && !vocabulary) {
        log_warning(&fetch->net.log, "%s has no vocab.txt: give one with --vocab_file",
                    fetch->name);
    }
    memory_free(names);
    memory_free(roles);
    return status;
}

// taken[i]: whether listing->files[i] is to be fetched.
static enum berth_status pick(const struct fetch *fetch, const struct hub_listing *listing,
                              unsigned char *taken, struct berth_error *error) {
    const char *patterns = fetch->settings->files;
    if (patterns == NULL && strcmp(fetch->type, "model") == 0) {
        return pick_model(fetch, listing, taken, error);
    }
    size_t count = 0;
    for (size_t i = 0; i < listing->count; i++) {
        const char *path = listing->files[i].path;
        taken[i] = patterns != NULL ? is_listed(path, patterns) != 0 : path[0] != '.';
        count += taken[i];
    }
    return count > 0 ? BERTH_OK
                     : error_set(error, BERTH_NO_INPUT, "%s has no file%s%s", fetch->name,
                                 patterns != NULL ? " that matches " : "",
                                 patterns != NULL ? patterns : "");
}

static enum berth_status check_room(const struct fetch *fetch, const struct hub_listing *listing,
                                    const unsigned char *taken, struct berth_error *error) {
    uint64_t needed = 0, room = dir_free_bytes(fetch->repo);
    for (size_t i = 0; i < listing->count; i++) {
        needed += taken[i] ? (uint64_t)listing->files[i].size : 0;
    }
    // Files that are there already are counted: only the transfer of one knows (download.h).
    if (needed > room) {
        log_warning(&fetch->net.log, "%s needs up to %llu bytes in %s, where %llu are free",
                    fetch->name, (unsigned long long)needed, fetch->repo, (unsigned long long)room);
    }
    return BERTH_OK;
}

static enum berth_status fetch_file(const struct fetch *fetch, const struct hub *hub,
                                    const char *commit, const struct hub_file *file,
                                    struct berth_error *error) {
    char *url = hub_file_url(hub, commit, file->path);
    if (url == NULL) {
        return no_memory(error);
    }
    struct download what = {.url = url,
                            .token = hub->token,
                            .name = file->path,
                            .repo = fetch->repo,
                            .locks = fetch->locks,
                            .key = file->etag,
                            .etag_is_key = 1,
                            .size = file->size,
                            .digests = {{.kind = file->kind, .hex = file->etag}}};
    struct download_result result;
    enum berth_status status = download(&fetch->net, &what, &result, error);
    memory_free(url);
    return status;
}

static enum berth_status fetch_listing(struct fetch *fetch, const struct hub *hub,
                                       const struct hub_listing *listing,
                                       const unsigned char *taken, struct snapshot_file *files,
                                       struct berth_error *error) {
    size_t count = 0;
    TRY(check_room(fetch, listing, taken, error));
    for (size_t i = 0; i < listing->count; i++) {
        if (taken[i]) {
            const struct hub_file *file = &listing->files[i];
            TRY(fetch_file(fetch, hub, listing->commit, file, error));
            files[count++] = (struct snapshot_file){.path = file->path, .blob = file->etag};
        }
    }
    TRY(hub_write_tree(listing, fetch->repo, error));
    return publish(fetch, listing->commit, files, count, error);
}

static enum berth_status fetch_repo(struct fetch *fetch, const struct hub *hub,
                                    struct berth_error *error) {
    struct hub_listing listing;
    TRY(hub_list(hub, fetch->revision, &listing, error));
    unsigned char *taken = memory_array_zeroed(listing.count + 1, 1);
    struct snapshot_file *files = memory_array(listing.count + 1, sizeof *files);
    enum berth_status status =
        taken == NULL || files == NULL ? no_memory(error) : pick(fetch, &listing, taken, error);
    if (status == BERTH_OK) {
        status = tag_cache(fetch, error);
    }
    if (status == BERTH_OK) {
        status = fetch_listing(fetch, hub, &listing, taken, files, error);
    }
    memory_free(files);
    memory_free(taken);
    hub_listing_done(&listing);
    return status;
}

// --- the token ----------------------------------------------------------------------------------

// Without the blanks around it; anything that could not stand in a header is refused unseen.
static enum berth_status clean_token(char *text, const char *source, struct berth_error *error) {
    size_t length = strlen(text), first = strspn(text, " \t\r\n");
    while (length > first && strchr(" \t\r\n", text[length - 1]) != NULL) {
        length--;
    }
    memmove(text, text + first, length - first);
    text[length - first] = '\0';
    for (const char *at = text; *at != '\0'; at++) {
        if (*at <= ' ' || *at >= 127) {
            return error_set(error, BERTH_CONFIG, "%s holds no token: it has blanks or such in it",
                             source);
        }
    }
    return BERTH_OK;
}

static enum berth_status read_token_file(const char *path, char **token,
                                         struct berth_error *error) {
    size_t length;
    TRY(file_read(path, TOKEN_LIMIT, token, &length, error));
    return clean_token(*token, path, error);
}

// --token_file, HF_TOKEN, the file that `hf auth login` leaves. *token: NULL for none.
static enum berth_status find_token(const struct fetch *fetch, char **token,
                                    struct berth_error *error) {
    const char *set = getenv("HF_TOKEN");
    *token = NULL;
    if (fetch->settings->token_file != NULL) {
        return read_token_file(fetch->settings->token_file, token, error);
    }
    if (set != NULL && *set != '\0') {
        *token = memory_string(set);
        return *token != NULL ? clean_token(*token, "HF_TOKEN", error) : no_memory(error);
    }
    char *path = hub_token_path();
    enum berth_status status = path == NULL        ? no_memory(error)
                               : file_exists(path) ? read_token_file(path, token, error)
                                                   : BERTH_OK;
    memory_free(path);
    return status;
}

static enum berth_status fetch_as(struct fetch *fetch, const char *endpoint,
                                  struct berth_error *error) {
    char *token;
    enum berth_status status = find_token(fetch, &token, error);
    if (status == BERTH_OK) {
        struct hub hub = {.net = &fetch->net,
                          .endpoint = endpoint,
                          .token = token,
                          .type = fetch->type,
                          .id = fetch->name};
        if (token != NULL && (*token == '\0' || !http_is_private(endpoint))) {
            hub.token = NULL;
            if (*token != '\0') {
                log_warning(&fetch->net.log, "the token is not sent to %s: it is not https",
                            endpoint);
            }
        }
        status = fetch_repo(fetch, &hub, error);
    }
    memory_free(token);
    return status;
}

static enum berth_status fetch_from_hub(struct fetch *fetch, struct berth_error *error) {
    const char *set = getenv("HF_ENDPOINT");
    char *endpoint = memory_string(set != NULL && *set != '\0' ? set : DEFAULT_ENDPOINT);
    if (endpoint == NULL) {
        return no_memory(error);
    }
    for (size_t length = strlen(endpoint); length > 0 && endpoint[length - 1] == '/'; length--) {
        endpoint[length - 1] = '\0';
    }
    char *host;
    enum berth_status status = http_host(endpoint, &host, error);
    if (status == BERTH_OK && host == NULL) {
        status = error_set(error, BERTH_CONFIG,
                           "HF_ENDPOINT: expected an http or https URL, found \"%s\"", set);
    } else if (status == BERTH_OK) {
        status = fetch_as(fetch, endpoint, error);
    }
    memory_free(host);
    memory_free(endpoint);
    return status;
}

// --- URLs ---------------------------------------------------------------------------------------

static int hex_value(char c) {
    return c >= '0' && c <= '9' ? c - '0' : isxdigit((unsigned char)c) ? (c | 32) - 'a' + 10 : -1;
}

// The last part of the URL's path, decoded; "download" where that is no file's name.
static void url_file_name(const char *url, char name[NAME_LIMIT]) {
    const char *path = strchr(strstr(url, "://") + 3, '/');
    size_t length = path != NULL ? strcspn(path, "?#") : 0, first = length, used = 0;
    while (first > 0 && path[first - 1] != '/') {
        first--;
    }
    for (size_t i = first; i < length && used + 1 < NAME_LIMIT; i++) {
        int escaped = path[i] == '%' && i + 2 < length && hex_value(path[i + 1]) >= 0 &&
                      hex_value(path[i + 2]) >= 0;
        name[used++] =
            (char)(escaped ? hex_value(path[i + 1]) * 16 + hex_value(path[i + 2]) : path[i]);
        i += escaped ? 2 : 0;
    }
    name[used] = '\0';
    if (!hub_is_safe_path(name) || strchr(name, '/') != NULL) {
        snprintf(name, NAME_LIMIT, "download");
    }
}

// The snapshot's name: 40 digits of the SHA-256 of its files' digests.
static enum berth_status commit_of(const struct snapshot_file *files, size_t count,
                                   char commit[HUB_COMMIT_SIZE], struct berth_error *error) {
    char all[2 * DIGEST_HEX_SIZE] = "", hex[DIGEST_HEX_SIZE];
    for (size_t i = 0; i < count; i++) {
        strncat(all, files[i].blob, sizeof all - strlen(all) - 1);
    }
    TRY(digest_memory(DIGEST_SHA256, all, strlen(all), hex, error));
    snprintf(commit, HUB_COMMIT_SIZE, "%.40s", hex);
    return BERTH_OK;
}

// What is in the cache of a URL: the folder of its snapshot and the etag it came under.
struct cached_url {
    char *file; // NULL: nothing
    char *etag;
};

static enum berth_status find_cached(const struct fetch *fetch, const char *name,
                                     struct cached_url *cached, struct berth_error *error) {
    char *ref = path_join(fetch->repo, "refs/" HUB_MAIN);
    char *commit = NULL;
    size_t length;
    enum berth_status status = ref == NULL ? no_memory(error) : BERTH_OK;
    if (status == BERTH_OK && file_exists(ref)) {
        status = file_read(ref, HUB_COMMIT_SIZE, &commit, &length, error);
    }
    memory_free(ref);
    if (commit != NULL && hub_is_commit(commit)) {
        char below[HUB_COMMIT_SIZE + NAME_LIMIT + 16];
        snprintf(below, sizeof below, "snapshots/%s/%s", commit, name);
        cached->file = path_join(fetch->repo, below);
    }
    memory_free(commit);
    if (cached->file != NULL &&
        (!file_exists(cached->file) || !file_lies_in(cached->file, fetch->repo))) {
        memory_free(cached->file);
        cached->file = NULL;
    }
    char *path = path_join(fetch->repo, "etag");
    if (cached->file != NULL && path != NULL && file_exists(path)) {
        file_read(path, NAME_LIMIT, &cached->etag, &length, NULL);
    }
    memory_free(path);
    return status;
}

// Whether what is in the cache has the digest that was asked for.
static int is_as_asked(const struct fetch *fetch, const char *file) {
    const char *sha256 = fetch->settings->sha256, *md5 = fetch->settings->md5;
    char hex[DIGEST_HEX_SIZE];
    return (sha256 == NULL || (digest_file(DIGEST_SHA256, file, hex, NULL) == BERTH_OK &&
                               strcasecmp(hex, sha256) == 0)) &&
           (md5 == NULL ||
            (digest_file(DIGEST_MD5, file, hex, NULL) == BERTH_OK && strcasecmp(hex, md5) == 0));
}

static enum berth_status keep_etag(const struct fetch *fetch, const char *etag,
                                   struct berth_error *error) {
    char *path = path_join(fetch->repo, "etag");
    enum berth_status status = path == NULL    ? no_memory(error)
                               : *etag != '\0' ? file_write(path, etag, strlen(etag), error)
                                               : file_remove(path, error);
    memory_free(path);
    return status;
}

static enum berth_status take_file(struct fetch *fetch, char *file) {
    memory_free(fetch->path);
    fetch->path = file;
    return BERTH_OK;
}

static enum berth_status download_url(struct fetch *fetch, const char *name,
                                      struct cached_url *cached, struct berth_error *error) {
    char key[DIGEST_HEX_SIZE], commit[HUB_COMMIT_SIZE];
    struct download_result result;
    TRY(digest_memory(DIGEST_SHA256, fetch->name, strlen(fetch->name), key, error));
    struct download what = {
        .url = fetch->name,
        .name = name,
        .repo = fetch->repo,
        .locks = fetch->locks,
        .key = key,
        .by_content = 1,
        .size = NO_SIZE,
        .digests = {{DIGEST_SHA256, fetch->settings->sha256}, {DIGEST_MD5, fetch->settings->md5}},
        .known_etag = cached->etag};
    TRY(download(&fetch->net, &what, &result, error));
    if (result.unchanged) {
        char *file = cached->file;
        cached->file = NULL;
        return take_file(fetch, file);
    }
    const struct snapshot_file file = {.path = name, .blob = result.blob};
    TRY(commit_of(&file, 1, commit, error));
    TRY(publish(fetch, commit, &file, 1, error));
    TRY(keep_etag(fetch, result.etag, error));
    char *path = path_join(fetch->path, name);
    return path != NULL ? take_file(fetch, path) : no_memory(error);
}

static enum berth_status fetch_url(struct fetch *fetch, int offline, struct berth_error *error) {
    char name[NAME_LIMIT];
    struct cached_url cached = {.file = NULL};
    url_file_name(fetch->name, name);
    enum berth_status status = find_cached(fetch, name, &cached, error);
    int given = fetch->settings->sha256 != NULL || fetch->settings->md5 != NULL;
    int good = status == BERTH_OK && cached.file != NULL && (offline || given) &&
               is_as_asked(fetch, cached.file);
    if (good) {
        status = take_file(fetch, cached.file);
        cached.file = NULL;
    } else if (status == BERTH_OK && offline) {
        status = error_set(error, BERTH_UNAVAILABLE, "%s is not in the cache %s", fetch->name,
                           fetch->root);
    } else if (status == BERTH_OK) {
        if (given) { // what is there is something else
            memory_free(cached.etag);
            cached.etag = NULL;
        }
        status = tag_cache(fetch, error);
        status = status == BERTH_OK ? download_url(fetch, name, &cached, error) : status;
    }
    memory_free(cached.file);
    memory_free(cached.etag);
    return status;
}

// --- data sets known by name --------------------------------------------------------------------

static enum berth_status fetch_known_file(const struct fetch *fetch, const struct known_file *file,
                                          struct berth_error *error) {
    char url[NAME_LIMIT];
    struct download_result result;
    snprintf(url, sizeof url, "%s%s", fetch->known->place, file->name);
    struct download what = {.url = url,
                            .name = file->name,
                            .repo = fetch->repo,
                            .locks = fetch->locks,
                            .key = file->sha256,
                            .size = NO_SIZE,
                            .digests = {{DIGEST_SHA256, file->sha256}}};
    return download(&fetch->net, &what, &result, error);
}

static enum berth_status fetch_known(struct fetch *fetch, int offline, struct berth_error *error) {
    enum { COUNT = sizeof fetch->known->files / sizeof *fetch->known->files };
    struct snapshot_file files[COUNT];
    char commit[HUB_COMMIT_SIZE];
    for (size_t i = 0; i < COUNT; i++) {
        files[i] =
            (struct snapshot_file){fetch->known->files[i].name, fetch->known->files[i].sha256};
        char *blob = path_join(fetch->repo, "blobs");
        char *path = blob != NULL ? path_join(blob, files[i].blob) : NULL;
        int there = path != NULL && file_exists(path);
        memory_free(path);
        memory_free(blob);
        if (offline && !there) {
            return error_set(error, BERTH_UNAVAILABLE, "%s of %s is not in the cache %s",
                             files[i].path, fetch->name, fetch->root);
        }
    }
    TRY(tag_cache(fetch, error));
    for (size_t i = 0; i < COUNT && !offline; i++) {
        TRY(fetch_known_file(fetch, &fetch->known->files[i], error));
    }
    TRY(commit_of(files, COUNT, commit, error));
    return publish(fetch, commit, files, COUNT, error);
}

// --- offline ------------------------------------------------------------------------------------

// The variable that forbids this fetch to use the network, or NULL.
static const char *offline_variable(const struct fetch *fetch) {
    static const char *const all[] = {"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE",
                                      "HF_DATASETS_OFFLINE"};
    size_t count = strcmp(fetch->type, "model") == 0 ? 2 : 3;
    for (size_t i = 0; i < count; i++) {
        if (hub_is_truthy(getenv(all[i]))) {
            return all[i];
        }
    }
    return NULL;
}

static enum berth_status find_snapshot(struct fetch *fetch, struct berth_error *error) {
    struct hub_snapshot snapshot;
    TRY(hub_snapshot_find(fetch->root, fetch->type, fetch->name, fetch->revision, &snapshot,
                          error));
    enum berth_status status = BERTH_OK;
    if (snapshot.folder == NULL) {
        status = error_set(error, BERTH_UNAVAILABLE, "%s, revision %s, is not in the cache %s",
                           fetch->name, fetch->revision, fetch->root);
    } else if (strcmp(fetch->type, "model") == 0) {
        status = model_files_check(&snapshot, fetch->name, error);
    }
    if (status == BERTH_OK) {
        take_file(fetch, snapshot.folder);
        snapshot.folder = NULL;
    }
    hub_snapshot_done(&snapshot);
    return status;
}

static enum berth_status fetch_offline(struct fetch *fetch, const char *variable,
                                       struct berth_error *error) {
    enum berth_status status = fetch->is_url          ? fetch_url(fetch, 1, error)
                               : fetch->known != NULL ? fetch_known(fetch, 1, error)
                                                      : find_snapshot(fetch, error);
    if (status == BERTH_OK) {
        log_note(&fetch->net.log, "%s is set: taken from the cache as it is", variable);
        return BERTH_OK;
    }
    return error_prefix(error, status == BERTH_NO_INPUT ? BERTH_UNAVAILABLE : status,
                        "%s is set, nothing is downloaded", variable);
}

// --- all of it ----------------------------------------------------------------------------------

static enum berth_status fetch_online(struct fetch *fetch, const volatile int *stop,
                                      struct berth_error *error) {
    TRY(http_open(&fetch->net.http, stop, error));
    enum berth_status status = fetch->is_url          ? fetch_url(fetch, 0, error)
                               : fetch->known != NULL ? fetch_known(fetch, 0, error)
                                                      : fetch_from_hub(fetch, error);
    http_close(fetch->net.http);
    return status;
}

enum berth_status berth_fetch(const char *name, const struct berth_fetch_settings *settings,
                              struct berth_log log, const volatile int *stop, char **path,
                              struct berth_error *error) {
    int is_url = is_whole_url(name);
    const struct known_set *known = is_url || settings->dataset ? NULL : find_known(name);
    int model = !is_url && known == NULL && !settings->dataset;
    struct fetch fetch = {
        .name = name,
        .settings = settings,
        .known = known,
        .is_url = is_url,
        .revision = settings->revision != NULL ? settings->revision : HUB_MAIN,
        .type = model ? "model" : "dataset",
        .net = {.log = log,
                .stop = stop,
                .retries = settings->retries >= 0 ? settings->retries : DEFAULT_RETRIES}};
    *path = NULL;
    TRY(check_settings(&fetch, error));
    enum berth_status status = find_folders(&fetch, error);
    if (status == BERTH_OK) {
        const char *variable = offline_variable(&fetch);
        status = variable != NULL ? fetch_offline(&fetch, variable, error)
                                  : fetch_online(&fetch, stop, error);
    }
    if (status == BERTH_OK) {
        *path = fetch.path;
        fetch.path = NULL;
    }
    memory_free(fetch.path);
    memory_free(fetch.root);
    memory_free(fetch.repo);
    memory_free(fetch.locks);
    return status;
}
