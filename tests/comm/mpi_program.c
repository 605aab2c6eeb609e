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

static void print_format(void *context, const struct berth_record *record) {
    (void)context;
    if (record->text != NULL && strstr(record->text, "also contains the result") != NULL) {
        printf("%s\n", record->text);
    }
}

int main(int count, char **words) {
    struct berth_config config;
    struct berth_error error;
    if (count != 5 || !initialize(words[1])) {
        return 1;
    }
    forget_launcher();
    berth_config_init(&config);
    config.model_name_or_path = words[2];
    config.train_file = words[3];
    config.output_dir = words[4];
    config.save_format = "torch";
    config.max_steps = config.threads = 1;
    config.max_seq_length = 48;
    config.doc_stride = config.max_query_length = 16;
    config.train_batch_size = 8;
    const enum berth_status status = berth_train(
        "squad", &config, (struct berth_log){.write = print_format}, NULL, NULL, &error);
    if (status != BERTH_OK) {
        fprintf(stderr, "%s\n", error.message);
    }
    finalize();
    return status;
}
