// SPDX-License-Identifier: Apache-2.0
// The programs of all systems, in the order in which `berth as` lists them, and finding one by its
// name. Called by translate.c and cli/as.c.
#include "core/options.h"
#include "program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct compat_program compat_cscs[], compat_deepspeed[], compat_google[],
    compat_intel[], compat_nvidia[], compat_hugging_face[];

const struct compat_program *const compat_systems[] = {
    compat_cscs,   compat_deepspeed,    compat_google, compat_intel,
    compat_nvidia, compat_hugging_face, NULL};

const char *compat_program_name(size_t index) {
    for (size_t i = 0; compat_systems[i] != NULL; i++) {
        for (const struct compat_program *program = compat_systems[i]; program->name != NULL;
             program++) {
            if (index-- == 0) {
                return program->name;
            }
        }
    }
    return NULL;
}

const char *compat_last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

// Whether the folder that the path names the program in, or BERTH_AS, is the program's system.
static int is_of_system(const struct compat_program *program, const char *path) {
    const char *name = compat_last_part(path), *named = getenv("BERTH_AS");
    const size_t length = strlen(program->system);
    return (named != NULL && strcmp(named, program->system) == 0) ||
           ((size_t)(name - path) > length &&
            strncmp(name - 1 - length, program->system, length) == 0 &&
            ((size_t)(name - path) == length + 1 || name[-2 - (ptrdiff_t)length] == '/'));
}

size_t compat_find_programs(const char *path,
                            const struct compat_program *found[COMPAT_CANDIDATES_MAX]) {
    size_t count = 0, chosen = 0;
    for (size_t i = 0; compat_systems[i] != NULL; i++) {
        for (const struct compat_program *program = compat_systems[i]; program->name != NULL;
             program++) {
            if (strcmp(program->name, compat_last_part(path)) == 0 &&
                count < COMPAT_CANDIDATES_MAX) {
                found[count++] = program;
            }
        }
    }
    for (size_t i = 0; count > 1 && i < count; i++) {
        if (is_of_system(found[i], path)) {
            found[chosen++] = found[i];
        }
    }
    return chosen > 0 ? chosen : count;
}

enum berth_status compat_find_program(const char *path, const struct compat_program **found,
                                      struct berth_error *error) {
    const struct compat_program *programs[COMPAT_CANDIDATES_MAX];
    const size_t count = compat_find_programs(path, programs);
    if (count == 0) {
        struct option_spelling nearest = {.distance = ~0u};
        const char *name;
        for (size_t i = 0; (name = compat_program_name(i)) != NULL; i++) {
            option_nearer(compat_last_part(path), name, &nearest);
        }
        return error_set(error, BERTH_USAGE,
                         "\"%s\": `berth as` has no program of that name%s%s%s; `berth as` alone "
                         "lists them",
                         compat_last_part(path), nearest.distance < 8 ? "; did you mean " : "",
                         nearest.distance < 8 ? nearest.text : "", nearest.distance < 8 ? "?" : "");
    }
    *found = programs[0];
    if (count > 1) {
        char names[256] = "";
        for (size_t i = 0; i < count; i++) {
            const size_t used = strlen(names);
            snprintf(names + used, sizeof names - used, "%s%s/%s", i > 0 ? ", " : "",
                     programs[i]->system, programs[i]->name);
        }
        return error_set(error, BERTH_USAGE, "%s is a program of several systems: %s; name one",
                         compat_last_part(path), names);
    }
    return BERTH_OK;
}
