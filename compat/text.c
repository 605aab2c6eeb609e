// SPDX-License-Identifier: Apache-2.0
// What `berth as` prints: its programs, the flags of one of them, and the commands of a plan as
// lines for a shell. Called by cli/as.c.
#include "core/options.h"
#include "program.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE_WIDTH = 100 };

// --- commands ------------------------------------------------------------------------------------

static void put_word(struct buffer *text, const char *word) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_./:=,+@%^";
    if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
        buffer_put_text(text, word);
        return;
    }
    buffer_put_byte(text, '\'');
    for (const char *at = word; *at != '\0'; at++) {
        if (*at == '\'') {
            buffer_put_text(text, "'\\''");
        } else {
            buffer_put_byte(text, *at);
        }
    }
    buffer_put_byte(text, '\'');
}

// Continues the command in the same line, or in the next one if it would be too long.
static void put_part(struct buffer *text, size_t *line, const struct buffer *part) {
    if (text->length - *line + 1 + part->length > LINE_WIDTH - 2) {
        buffer_put_text(text, " \\\n");
        *line = text->length;
        buffer_put_text(text, "   ");
    }
    buffer_put_byte(text, ' ');
    buffer_put(text, part->bytes, part->length);
}

void compat_put_commands(struct buffer *text, const struct compat_plan *plan) {
    if (plan->command_count > 1) {
        buffer_put_text(text, "set -e\n");
    }
    for (size_t i = 0; i < plan->command_count; i++) {
        const struct compat_command *command = &plan->commands[i];
        size_t line = text->length;
        if (plan->launcher_count > 0 && geteuid() == 0) { // Open MPI asks for both
            buffer_put_text(text, "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ");
        }
        for (size_t k = 0; k < plan->launcher_count; k++) {
            put_word(text, plan->launcher[k]);
            buffer_put_byte(text, ' ');
        }
        buffer_print(text, "berth %s", command->verb);
        for (size_t k = 0; k < command->count; k++) {
            const struct compat_option *option = &command->options[k];
            struct buffer part = {0};
            if (option->name != NULL) {
                buffer_print(&part, "--%s ", option->name);
            }
            put_word(&part, option->value);
            put_part(text, &line, &part);
            text->failed |= part.failed;
            memory_free(part.bytes);
        }
        buffer_put_byte(text, '\n');
    }
}

// --- programs ------------------------------------------------------------------------------------

int compat_is_script(const char *word) {
    const size_t length = strlen(word);
    return length > 3 && strcmp(word + length - 3, ".sh") == 0;
}

// Shell scripts of the systems, which call the programs: deploy/scripts.
static const char *const scripts[][2] = {
    {"deepspeed", "run_squad_deepspeed.sh run_squad_baseline.sh run_BingBertSquad.sh run_tests.sh"},
    {"intel", "fp32_squad_training.sh fp32_squad_training_demo.sh fp32_training_demo.sh "
              "fp32_classifier_training.sh fp32_training_single_node.sh "
              "fp32_training_multi_node.sh"},
    {"habana", "create_datasets_from_start.sh squad_download.sh"},
};

void compat_put_programs(struct buffer *text) {
    for (size_t i = 0; compat_systems[i] != NULL; i++) {
        const char *system = NULL;
        for (const struct compat_program *program = compat_systems[i]; program->name != NULL;
             program++) {
            if (system == NULL || strcmp(system, program->system) != 0) {
                system = program->system;
                buffer_print(text, "\n%s\n", system);
            }
            buffer_print(text, "  %-36s %s\n", program->name, program->summary);
        }
    }
    buffer_put_text(text,
                    "\nScripts that call these programs, to be copied and edited (installed in "
                    "share/berth/scripts):\n");
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        const char *names = scripts[i][1];
        char name[OPTION_NAME_SIZE];
        while (option_next_name(&names, name)) {
            buffer_print(text, "  %-36s %s\n", name, scripts[i][0]);
        }
    }
}

// --- flags ---------------------------------------------------------------------------------------

static const char *value_word(const struct compat_flag *flag) {
    static const char *const words[] = {[COMPAT_VALUE] = " VALUE",
                                        [COMPAT_SWITCH] = "",
                                        [COMPAT_OPTIONAL] = " [VALUE]",
                                        [COMPAT_LIST] = " VALUE..."};
    return words[flag->kind];
}

// What a flag becomes, after its name.
static void put_meaning(struct buffer *text, const struct compat_flag *flag, const char *name) {
    if (flag->only != NULL) {
        buffer_print(text, "only %s: %s", flag->only, flag->meaning);
    } else if (flag->option == NULL) {
        buffer_print(text, "not needed: %s", flag->meaning);
    } else if (flag->option == COMPAT_READ) {
        buffer_put_text(text, flag->meaning);
    } else if (flag->on != NULL) {
        buffer_print(text, "--%s %s", flag->option, flag->on);
        if (flag->off != NULL) {
            buffer_print(text, "; false: --%s %s", flag->option, flag->off);
        }
    } else {
        buffer_print(text, "--%s", flag->option[0] != '\0' ? flag->option : name);
    }
}

enum berth_status compat_put_help(struct buffer *text, const char *word,
                                  struct berth_error *error) {
    const struct compat_program *program;
    TRY(compat_find_program(word, &program, error));
    buffer_print(text, "%s/%s: %s\n\n", program->system, program->name, program->summary);
    if (program->verb != NULL) {
        buffer_print(text, "It becomes `berth %s`", program->verb);
        buffer_print(text, "%s%s.\n\n", program->settings != NULL ? " with " : "",
                     program->settings != NULL ? program->settings : "");
    }
    for (size_t i = 0; program->flags[i] != NULL; i++) {
        for (const struct compat_flag *flag = program->flags[i]; flag->names != NULL; flag++) {
            const char *names = flag->names;
            char name[OPTION_NAME_SIZE], shown[OPTION_NAME_SIZE + 16];
            while (option_next_name(&names, name)) {
                snprintf(shown, sizeof shown, "%s%s%s", name[1] == '\0' ? "-" : "--", name,
                         value_word(flag));
                buffer_print(text, "  %-38s ", shown);
                put_meaning(text, flag, name);
                buffer_put_byte(text, '\n');
            }
        }
    }
    return BERTH_OK;
}

// The first row with the flag; *count: how many programs have it.
static const struct compat_flag *
find_in_programs(const char *name, const struct compat_program **owner, size_t *count) {
    const struct compat_flag *found = NULL;
    char each[OPTION_NAME_SIZE];
    *count = 0;
    for (size_t i = 0; compat_systems[i] != NULL; i++) {
        for (const struct compat_program *program = compat_systems[i]; program->name != NULL;
             program++) {
            for (size_t k = 0; program->flags[k] != NULL; k++) {
                for (const struct compat_flag *flag = program->flags[k]; flag->names != NULL;
                     flag++) {
                    const char *names = flag->names;
                    while (option_next_name(&names, each)) {
                        if (option_same_name(each, name)) {
                            *owner = found == NULL ? program : *owner;
                            found = found == NULL ? flag : found;
                            ++*count;
                        }
                    }
                }
            }
        }
    }
    return found;
}

void compat_describe_flag(const char *name, char *text, size_t size) {
    const struct compat_program *owner = NULL;
    size_t count;
    const struct compat_flag *flag = find_in_programs(name, &owner, &count);
    struct buffer meaning = {0};
    text[0] = '\0';
    if (flag == NULL) {
        return;
    }
    put_meaning(&meaning, flag, name);
    buffer_put_byte(&meaning, '\0');
    snprintf(text, size, "%s of %s has it (`berth as %s/%s`)%s%s", owner->name, owner->system,
             owner->system, owner->name, meaning.failed ? "" : ", where it is ",
             meaning.failed ? "" : meaning.bytes);
    memory_free(meaning.bytes);
}
