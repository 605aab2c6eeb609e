// SPDX-License-Identifier: Apache-2.0
// Runs verbs of the program one after another in one process, for dev/mutate-files and
// dev/fail-calls: a start of the sanitizers costs a hundred times what a verb on a small file does.
// A line of standard input holds a verb and its words, separated by tabs. The answer, a line of
// standard output, is its exit code and the numbers of allocations and of calls for files that it
// made. The first word may name one to fail: "@memory:N", with "@memory:N+" all later ones as well,
// or "@file:N:ERRNO" (memory_fail_at, file_fail_at).
// An empty line asks for what was lost since the start; the answer is 1 where memory was or a
// descriptor is still open. Standard error is emptied before each verb, so that it is best a file;
// what a verb prints is lost.
#include "core/file.h"
#include "core/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS_MOST 64

// Of the leak sanitizer, where it is there.
int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

int cli_main(int count, char **words); // main of cli/main.c

static int split(char *line, char **words) {
    int count = 0;
    char *rest = line;
    for (char *word = strsep(&rest, "\t\n"); word != NULL && count < WORDS_MOST;
         word = strsep(&rest, "\t\n")) {
        if (*word != '\0') {
            words[count++] = word;
        }
    }
    words[count] = NULL;
    return count;
}

// Whether the word names a call to fail.
static int plan_failure(const char *word) {
    uint64_t number;
    int errno_value;
    char ever = '\0';
    memory_fail_at(0, 0);
    file_fail_at(0, 0);
    if (sscanf(word, "@memory:%" SCNu64 "%c", &number, &ever) >= 1) {
        memory_fail_at(number, ever == '+');
        return 1;
    }
    if (sscanf(word, "@file:%" SCNu64 ":%d", &number, &errno_value) == 2) {
        file_fail_at(number, errno_value);
        return 1;
    }
    return 0;
}

static void run_verb(int count, char **words, FILE *answers) {
    if (lseek(STDERR_FILENO, 0, SEEK_SET) == 0 && ftruncate(STDERR_FILENO, 0) != 0) {
        perror("standard error");
    }
    const int planned = plan_failure(words[1]);
    words[planned] = words[0];
    const int code = cli_main(count - planned, words + planned);
    const uint64_t allocations = memory_fail_at(0, 0), calls = file_fail_at(0, 0);
    fflush(stdout);
    fprintf(answers, "%d %" PRIu64 " %" PRIu64 "\n", code, allocations, calls);
}

static int lowest_free_descriptor(void) {
    int descriptor = dup(STDIN_FILENO);
    close(descriptor);
    return descriptor;
}

// The sanitizer's own thread opens a file for moments, which passes.
static int descriptors_are_open(int free_before) {
    for (int i = 0; i < 100; i++) {
        if (lowest_free_descriptor() <= free_before) {
            return 0;
        }
        usleep(1000);
    }
    fputs("a descriptor was left open\n", stderr);
    return 1;
}

static int memory_is_lost(void) {
    return __lsan_do_recoverable_leak_check != NULL && __lsan_do_recoverable_leak_check() != 0;
}

// The stream itself, out of the way of verbs, which get /dev/null in its place.
static FILE *take(FILE *stream, const char *mode) {
    FILE *taken = fdopen(dup(fileno(stream)), mode);
    if (taken == NULL || freopen("/dev/null", mode, stream) == NULL) {
        perror("standard input and output");
        exit(1);
    }
    return taken;
}

int main(void) {
    FILE *requests = take(stdin, "r"), *answers = take(stdout, "w");
    int free_before = lowest_free_descriptor();
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, requests) > 0) {
        char name[] = "berth", *words[WORDS_MOST + 2] = {name};
        int count = 1 + split(line, words + 1);
        if (count > 1) {
            run_verb(count, words, answers);
        } else {
            fprintf(answers, "%d\n", descriptors_are_open(free_before) || memory_is_lost());
        }
        fflush(answers);
    }
    free(line);
    fclose(requests);
    fclose(answers);
    return 0;
}
