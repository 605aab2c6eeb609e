// SPDX-License-Identifier: Apache-2.0
// Runs verbs of the program one after another in one process, for dev/mutate-files: a start of the
// sanitizers costs a hundred times what a verb on a small file does. A line of standard input holds
// a verb and its words, separated by tabs; the answer, a line of standard output, is its exit code.
// An empty line asks for what was lost since the start; the answer is 1 where memory was or a
// descriptor is still open. Standard error is emptied before each verb, so that it is best a file;
// what a verb prints is lost.
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

static int run_verb(int count, char **words) {
    if (lseek(STDERR_FILENO, 0, SEEK_SET) == 0 && ftruncate(STDERR_FILENO, 0) != 0) {
        perror("standard error");
    }
    int code = cli_main(count, words);
    fflush(stdout);
    return code;
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
        fprintf(answers, "%d\n",
                count > 1 ? run_verb(count, words)
                          : descriptors_are_open(free_before) || memory_is_lost());
        fflush(answers);
    }
    free(line);
    fclose(requests);
    fclose(answers);
    return 0;
}
