// SPDX-License-Identifier: Apache-2.0
// Finds the verb that the words of a command line name, among those of verb_list.c, and suggests
// the nearest one for a word that is none. Called by main.c before any option is read, by help,
// manual pages and completion; options are read by arguments.c.
#include "cli.h"
#include "task/task.h"

#include <stdio.h>
#include <string.h>

static const struct cli_verb *const *verbs; // those of the program

void cli_use_verbs(const struct cli_verb *const *list) {
    verbs = list;
}

const struct cli_verb *cli_verb_at(size_t index) {
    return verbs[index];
}

int cli_is_task(const struct cli_verb *verb, const char *word) {
    const struct training_task *training = task_training_find(word);
    const char *own = verb->library_task != NULL ? verb->library_task : verb->task;
    return verb->task != NULL && (strcmp(word, verb->task) == 0 || strcmp(word, own) == 0 ||
                                  (training != NULL && strcmp(training->name, own) == 0));
}

int cli_shares_words(const struct cli_verb *verb) {
    return verb->objective != NULL && verb->library_task != NULL;
}

// How well a verb fits a task and an objective: by its task first.
static int fits(const struct cli_verb *verb, const char *task, const char *objective) {
    const int has_task = task != NULL && cli_is_task(verb, task);
    const int has_objective =
        objective != NULL && verb->objective != NULL && strcmp(objective, verb->objective) == 0;
    return 2 * has_task + (has_objective && (has_task || verb->task == NULL));
}

const struct cli_verb *cli_find_verb(const char *name, const char *task, const char *objective) {
    const struct cli_verb *verb, *found = NULL;
    int best = -1;
    for (size_t i = 0; (verb = cli_verb_at(i)) != NULL; i++) {
        const int fit = strcmp(name, verb->name) == 0 ? fits(verb, task, objective) : -1;
        if (fit > best) {
            found = verb;
            best = fit;
        }
    }
    return found;
}

const char *cli_objective_of(size_t count, const char *const *words) {
    static const char option[] = "--objective";
    const size_t length = sizeof option - 1;
    for (size_t i = 0; i < count && strcmp(words[i], "--") != 0; i++) {
        if (strncmp(words[i], option, length) == 0 && words[i][length] == '=') {
            return words[i] + length + 1;
        }
        if (strcmp(words[i], option) == 0 && i + 1 < count) {
            return words[i + 1];
        }
    }
    return NULL;
}

void cli_verb_words(const struct cli_verb *verb, const char *between, char *text, size_t size) {
    const int has_task = verb->task != NULL;
    snprintf(text, size, "%s%s%s", verb->name, has_task ? between : "", has_task ? verb->task : "");
}

void cli_list_tasks(const char *name, char *text, size_t size) {
    enum { TASKS_MAX = 16 };
    const char *tasks[TASKS_MAX];
    const struct cli_verb *verb;
    size_t count = 0, used = 0;
    for (size_t i = 0; (verb = cli_verb_at(i)) != NULL && count < TASKS_MAX; i++) {
        if (strcmp(name, verb->name) == 0 && !cli_shares_words(verb)) {
            tasks[count++] = verb->task;
        }
    }
    text[0] = '\0';
    for (size_t i = 0; i < count && used < size; i++) {
        const char *joint = i == 0 ? "" : i + 1 < count ? ", " : " or ";
        used += (size_t)snprintf(text + used, size - used, "%s%s", joint, tasks[i]);
    }
}

// The verb nearest to the word, or the first with a task of that name; NULL: none.
static const struct cli_verb *meant_verb(const char *word, int *is_task) {
    const struct cli_verb *verb, *best = NULL;
    unsigned best_distance = ~0u;
    for (size_t i = 0; (verb = cli_verb_at(i)) != NULL; i++) {
        if (verb->task != NULL && strcmp(word, verb->task) == 0) {
            *is_task = 1;
            return verb;
        }
        unsigned distance = option_distance(word, verb->name);
        if (distance < best_distance) {
            best = verb;
            best_distance = distance;
        }
    }
    *is_task = 0;
    return option_is_near(word, best_distance) ? best : NULL;
}

enum berth_status cli_unknown_word(const char *what, const char *name, struct berth_error *error) {
    int is_task;
    const struct cli_verb *meant = meant_verb(name, &is_task);
    char hint[96] = "";
    if (meant != NULL) {
        snprintf(hint, sizeof hint, "did you mean \"%s%s%s\"? ", meant->name, is_task ? " " : "",
                 is_task ? meant->task : "");
    }
    return error_set(error, BERTH_USAGE, "unknown %s \"%s\"; %s`berth --help` lists the verbs",
                     what, name, hint);
}
