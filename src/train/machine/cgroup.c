// SPDX-License-Identifier: Apache-2.0
// /proc/self/cgroup names the group of the process; /proc/self/mountinfo names the folder where its
// hierarchy is mounted and the group at the root of that mount, because a container may see only a
// part of the hierarchy.
//
// Leaves out swap, and groups of version 1 whose parents do not limit them (use_hierarchy 0, which
// current kernels refuse): the parents' limits are assumed to apply.
#include "train/machine/cgroup.h"

#include "core/file.h"
#include "core/memory.h"
#include "core/text_util.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROC_FILE_LIMIT ((size_t)1 << 20)
#define PATH_SIZE (2 * PATH_MAX)

// A controller in one version of control groups.
struct version {
    const char *type;       // type of the mount's file system
    const char *controller; // in /proc/self/cgroup and in the mount's options; "" for version 2
    // What a group's limit leaves; UINT64_MAX: no limit.
    uint64_t (*available)(const struct version *version, const char *folder);
    const char *limit;
    const char *used;     // usage of memory; period of the CPU quota
    const char *cache[2]; // lines of memory.stat
};

// NULL if there is no such file.
static char *read_text(const char *folder, const char *name) {
    char path[PATH_SIZE + NAME_MAX], *text;
    size_t length;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return file_read(path, PROC_FILE_LIMIT, &text, &length, NULL) == BERTH_OK ? text : NULL;
}

// Reads a file that contains one number; `fallback` for anything else ("max", no such file).
static uint64_t read_number(const char *folder, const char *name, uint64_t fallback) {
    char *text = read_text(folder, name), *end;
    if (text == NULL) {
        return fallback;
    }
    uint64_t value = strtoull(text, &end, 10);
    uint64_t result = end != text ? value : fallback;
    memory_free(text);
    return result;
}

// --- one group ----------------------------------------------------------------------------------

static uint64_t cache_of(const struct version *version, const char *folder) {
    char *text = read_text(folder, "memory.stat");
    uint64_t bytes = 0;
    for (size_t i = 0; text != NULL && i < 2; i++) {
        const char *line = strstr(text, version->cache[i]);
        bytes += line != NULL ? strtoull(line + strlen(version->cache[i]), NULL, 10) : 0;
    }
    memory_free(text);
    return bytes;
}

// Usage that cannot be read counts as 0, so that the run is not refused.
static uint64_t available_memory(const struct version *version, const char *folder) {
    uint64_t limit = read_number(folder, version->limit, UINT64_MAX);
    if (limit == UINT64_MAX) {
        return UINT64_MAX;
    }
    uint64_t used = read_number(folder, version->used, 0), cache = cache_of(version, folder);
    used -= cache < used ? cache : used;
    return limit > used ? limit - used : 0;
}

static uint64_t round_up(uint64_t quota, uint64_t period) {
    return quota == UINT64_MAX || period == 0 ? UINT64_MAX : (quota + period - 1) / period;
}

// "200000 100000" or "max 100000": quota and period.
static uint64_t available_processors_2(const struct version *version, const char *folder) {
    char *text = read_text(folder, version->limit);
    unsigned long long quota, period;
    uint64_t count = text != NULL && sscanf(text, "%llu %llu", &quota, &period) == 2
                         ? round_up(quota, period)
                         : UINT64_MAX;
    memory_free(text);
    return count;
}

// Without a limit the quota is -1.
static uint64_t available_processors_1(const struct version *version, const char *folder) {
    uint64_t quota = read_number(folder, version->limit, UINT64_MAX);
    return round_up(quota, read_number(folder, version->used, 0));
}

static const struct version memory_versions[] = {
    {"cgroup2",
     "",
     available_memory,
     "memory.max",
     "memory.current",
     {"\nactive_file ", "\ninactive_file "}},
    {"cgroup",
     "memory",
     available_memory,
     "memory.limit_in_bytes",
     "memory.usage_in_bytes",
     {"\ntotal_active_file ", "\ntotal_inactive_file "}},
};

static const struct version processor_versions[] = {
    {.type = "cgroup2", .controller = "", .available = available_processors_2, .limit = "cpu.max"},
    {.type = "cgroup",
     .controller = "cpu",
     .available = available_processors_1,
     .limit = "cpu.cfs_quota_us",
     .used = "cpu.cfs_period_us"},
};

// --- finding the groups --------------------------------------------------------------------------

// The group's path in its hierarchy: the third field of "4:memory:/path" or "0::/path". Modifies
// `text`; NULL: the process is in no group.
static const char *find_group(const struct version *version, char *text) {
    char *rest;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        char *controllers = strchr(line, ':');
        char *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (path == NULL) {
            continue;
        }
        *path++ = '\0';
        controllers++;
        int found = version->controller[0] == '\0'
                        ? controllers[0] == '\0'
                        : words_contain(controllers, ',', version->controller);
        if (found) {
            return path;
        }
    }
    return NULL;
}

struct mount {
    const char *group, *folder;
};

// Parses "ID PARENT DEVICE GROUP FOLDER OPTIONS [OPTIONAL...] - TYPE SOURCE OPTIONS"; modifies the
// line.
static int is_mount(const struct version *version, char *line, struct mount *mount) {
    char *separator = strstr(line, " - "), *fields[5], *rest;
    if (separator == NULL) {
        return 0;
    }
    *separator = '\0';
    for (int i = 0; i < 5; i++) {
        fields[i] = strtok_r(i == 0 ? line : NULL, " ", &rest);
    }
    const char *type = strtok_r(separator + 3, " ", &rest), *source = strtok_r(NULL, " ", &rest);
    const char *options = strtok_r(NULL, " ", &rest);
    if (fields[4] == NULL || source == NULL || options == NULL ||
        strcmp(type, version->type) != 0 ||
        (version->controller[0] != '\0' && !words_contain(options, ',', version->controller))) {
        return 0;
    }
    *mount = (struct mount){.group = fields[3], .folder = fields[4]};
    return 1;
}

// Modifies `text`.
static int find_mount(const struct version *version, char *text, struct mount *mount) {
    char *rest;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        if (is_mount(version, line, mount)) {
            return 1;
        }
    }
    return 0;
}

// The remainder of the group's path within the mount; "" if the mount does not show the group.
static const char *path_within(const struct mount *mount, const char *group) {
    size_t length = strcmp(mount->group, "/") == 0 ? 0 : strlen(mount->group);
    int is_within = strncmp(group, mount->group, length) == 0 &&
                    (group[length] == '/' || group[length] == '\0');
    return is_within && strstr(group, "/..") == NULL ? group + length : "";
}

// --- the minimum over the groups -----------------------------------------------------------------

// The minimum over the group and its parents, up to the mount.
static uint64_t least_of_group(const struct version *version, const char *root,
                               const struct mount *mount, const char *group) {
    char folder[PATH_SIZE];
    uint64_t min = UINT64_MAX;
    int top = snprintf(folder, sizeof folder, "%s%s", root, mount->folder);
    int length =
        snprintf(folder, sizeof folder, "%s%s%s", root, mount->folder, path_within(mount, group));
    if (length >= (int)sizeof folder) {
        return min;
    }
    for (;;) {
        uint64_t rest = version->available(version, folder);
        min = rest < min ? rest : min;
        if (length <= top) {
            return min;
        }
        while (length > top && folder[length - 1] != '/') {
            length--;
        }
        length -= length > top;
        folder[length] = '\0';
    }
}

static uint64_t available_in(const struct version *version, const char *root) {
    char *groups = read_text(root, "proc/self/cgroup"), *mounts = NULL;
    const char *group = groups != NULL ? find_group(version, groups) : NULL;
    struct mount mount;
    uint64_t rest = UINT64_MAX;
    if (group != NULL) {
        mounts = read_text(root, "proc/self/mountinfo");
    }
    if (mounts != NULL && find_mount(version, mounts, &mount)) {
        rest = least_of_group(version, root, &mount, group);
    }
    memory_free(groups);
    memory_free(mounts);
    return rest;
}

static uint64_t least_of_versions(const struct version versions[2], const char *root) {
    const uint64_t first = available_in(&versions[0], root),
                   second = available_in(&versions[1], root);
    return first < second ? first : second;
}

uint64_t cgroup_memory_available(const char *root) {
    return least_of_versions(memory_versions, root);
}

uint64_t cgroup_processors(const char *root) {
    return least_of_versions(processor_versions, root);
}
