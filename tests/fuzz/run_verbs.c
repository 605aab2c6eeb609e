// SPDX-License-Identifier: Apache-2.0
// Runs verbs of the program one after another in one process, for dev/mutate-files: a start of the
// sanitizers costs a hundred times what a verb on a small file does. A line of standard input holds
// a verb and its words, separated by tabs; the answer, a line of standard output, is its exit code.
// An empty line asks for leaks; the answer is 1 where memory was lost since the start. Standard
// error is emptied before each verb, so that it is best a file; what a verb prints is lost. Where a
// verb damages memory or leaves a descriptor open, the process ends.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS_MOST 64

int cli_main(int count, char **words);                            // main of cli/main.c
int __lsan_do_recoverable_leak_check(void) __attribute__((weak)); // of the leak sanitizer

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

static int lowest_free_descriptor(void) {
    int descriptor = dup(STDIN_FILENO);
    close(descriptor);
    return descriptor;
}

static int run_verb(int count, char **words) {
    int free_before = lowest_free_descriptor();
    if (lseek(STDERR_FILENO, 0, SEEK_SET) == 0 && ftruncate(STDERR_FILENO, 0) != 0) {
        perror("standard error");
    }
    int code = cli_main(count, words);
    fflush(stdout);
    if (lowest_free_descriptor() != free_before) {
        fputs("a descriptor was left open\n", stderr);
        abort();
    }
    return code;
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

static int has_lost_memory(void) {
    return __lsan_do_recoverable_leak_check != NULL && __lsan_do_recoverable_leak_check() != 0;
}

int main(void) {
    FILE *requests = take(stdin, "r"), *answers = take(stdout, "w");
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, requests) > 0) {
        char name[] = "berth", *words[WORDS_MOST + 2] = {name};
        int count = 1 + split(line, words + 1);
        fprintf(answers, "%d\n", count > 1 ? run_verb(count, words) : has_lost_memory());
        fflush(answers);
    }
    free(line);
    fclose(requests);
    fclose(answers);
    return 0;
}
