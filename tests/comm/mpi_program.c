// SPDX-License-Identifier: Apache-2.0
// A program that has initialized MPI itself and then trains with the library, started by a launcher
// that Berth does not know (test_mpi.sh). Prints the notes on formats of the result.
//
// usage: mpi_program MODULE MODEL QUESTIONS OUTPUT   MODULE: of Berth, linked with the MPI
#include <berth.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALL_THREADS = 3 }; // MPI_THREAD_MULTIPLE of both MPIs

static int initialize(const char *module) {
    int (*initialize_mpi)(int *, char ***, int, int *);
    int level;
    void *mpi = dlopen(module, RTLD_NOW | RTLD_GLOBAL);
    *(void **)&initialize_mpi = mpi != NULL ? dlsym(mpi, "MPI_Init_thread") : NULL;
    return initialize_mpi != NULL && initialize_mpi(NULL, NULL, ALL_THREADS, &level) == 0;
}

static void finalize(void) {
    int (*finalize_mpi)(void);
    *(void **)&finalize_mpi = dlsym(RTLD_DEFAULT, "MPI_Finalize");
    finalize_mpi();
}

static void forget_launcher(void) {
    static const char *const variables[] = {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK",
                                            "PMI_SIZE", "PMI_RANK", "PMIX_RANK"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        unsetenv(variables[i]);
    }
}

static enum berth_wish print_format(void *context, const struct berth_record *record) {
    (void)context;
    if (record->text != NULL && strstr(record->text, "also contains the result") != NULL) {
        printf("%s\n", record->text);
    }
    return BERTH_CONTINUE;
}

int main(int count, char **words) {
    struct berth_error error;
    const struct berth_watch watch = {.see = print_format};
    if (count != 5 || !initialize(words[1])) {
        return 1;
    }
    forget_launcher();
    const char *const settings[] = {"task",
                                    "answer",
                                    "model_name_or_path",
                                    words[2],
                                    "train_file",
                                    words[3],
                                    "output_dir",
                                    words[4],
                                    "save_format",
                                    "torch",
                                    "max_steps",
                                    "1",
                                    "threads",
                                    "1",
                                    "max_seq_length",
                                    "48",
                                    "doc_stride",
                                    "16",
                                    "max_query_length",
                                    "16",
                                    "train_batch_size",
                                    "8",
                                    NULL};
    struct berth_result *result = berth_job("train", settings, &watch, &error);
    if (result == NULL) {
        fprintf(stderr, "%s\n", error.message);
    }
    berth_result_free(result);
    finalize();
    return error.status;
}
