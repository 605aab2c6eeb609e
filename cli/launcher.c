// SPDX-License-Identifier: Apache-2.0
// Command lines of Intel's launcher, `--model-name ... -- key=value ...`: their verb, their
// variables and folders, and the processes that the launcher would start.
#include "core/launcher.h"

#include "cli.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/number.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Tells a process that mpirun was already called for it.
#define STARTED "BERTH_STARTED_BY_MPIRUN"

// --- the verb -----------------------------------------------------------------------------------

static const struct {
    const char *option; // value of train_option
    const char *name, *task;
    unsigned job;
} trainings[] = {{"SQuAD", "finetune", "squad", JOB_FINETUNE_SQUAD},
                 {"Classifier", "finetune", "classify", JOB_FINETUNE_CLASSIFY},
                 {"Pretraining", "pretrain", NULL, JOB_PRETRAIN}};
#define TRAININGS (sizeof trainings / sizeof *trainings)

static size_t find_training(const char *option) {
    size_t i = 0;
    while (i < TRAININGS && strcmp(trainings[i].option, option) != 0) {
        i++;
    }
    return i;
}

static const struct cli_verb *find_verb(size_t training) {
    const struct cli_verb *verb;
    for (size_t i = 0; (verb = cli_verb_at(i)) != NULL; i++) {
        if ((verb->jobs & trainings[training].job) != 0) {
            return verb;
        }
    }
    return NULL;
}

// Its short options, where they are not Berth's.
static const char *const letters[][2] = {
    {"-m", "--model_name"},        {"-f", "--framework"},
    {"-p", "--precision"},         {"-mo", "--mode"},
    {"-b", "--batch_size"},        {"-d", "--data_location"},
    {"-c", "--checkpoint"},        {"-i", "--socket_id"},
    {"-n", "--num_cores"},         {"-a", "--num_intra_threads"},
    {"-e", "--num_inter_threads"}, {"-k", "--benchmark_only"},
    {"-ts", "--num_train_steps"},
};

static void spell_out(int count, char **words) {
    for (int i = 0; i < count && strcmp(words[i], "--") != 0; i++) {
        for (size_t k = 0; k < sizeof letters / sizeof *letters; k++) {
            if (strcmp(words[i], letters[k][0]) == 0) {
                words[i] = (char *)letters[k][1];
            }
        }
    }
}

// What follows the option's name in the word and "=", or the next word; NULL: another option.
static const char *value_of(char **words, int count, int i, const char *name) {
    const char *word = words[i] + strspn(words[i], "-");
    const size_t length = strcspn(word, "=");
    char own[OPTION_NAME_SIZE];
    snprintf(own, sizeof own, "%.*s", (int)length, word);
    if (!option_same_name(own, name)) {
        return NULL;
    }
    return word[length] == '=' ? word + length + 1 : i + 1 < count ? words[i + 1] : "";
}

const struct cli_verb *cli_launcher_verb(int count, char **words) {
    const char *option = trainings[0].option;
    int is_launcher = 0;
    if (words[0][0] != '-') {
        return NULL;
    }
    spell_out(count, words);
    for (int i = 0; i < count; i++) {
        const char *value = value_of(words, count, i, "train_option");
        is_launcher |= value_of(words, count, i, "model_name") != NULL;
        option = value != NULL ? value : option;
    }
    const size_t training = find_training(option);
    return is_launcher ? find_verb(training < TRAININGS ? training : 0) : NULL;
}

enum berth_status cli_launcher_check_verb(const struct cli_call *call, const char *option,
                                          struct berth_error *error) {
    const size_t i = find_training(option);
    if (i == TRAININGS) {
        return error_set(error, BERTH_USAGE,
                         "option train_option: expected SQuAD, Classifier or Pretraining, found "
                         "\"%s\"",
                         option);
    }
    return (call->verb->jobs & trainings[i].job) != 0
               ? BERTH_OK
               : error_set(error, BERTH_USAGE, "train_option %s is `berth %s%s%s`", option,
                           trainings[i].name, trainings[i].task != NULL ? " " : "",
                           trainings[i].task != NULL ? trainings[i].task : "");
}

// --- its variables and folders ------------------------------------------------------------------

// The option's value, else that of the variable, with a note.
static const char *value_or_variable(const struct cli_call *call, const char *value,
                                     const char *variable, const char *option) {
    const char *text = getenv(variable);
    if (value != NULL || text == NULL || text[0] == '\0') {
        return value;
    }
    cli_note(call, "%s is not given: %s is %s", option, variable, text);
    return text;
}

// The row's value is FOLDER/NAME, if it is not given and there is such a file or folder.
static enum berth_status set_inside(struct cli_call *call, const char *row, const char *folder,
                                    const char *name, struct berth_error *error) {
    char *path = cli_own(path_join(folder, name));
    if (path == NULL) {
        return path_no_memory(error);
    }
    const int is_there = file_exists(path) || dir_exists(path);
    return is_there ? cli_set_default(call, row, path, error) : BERTH_OK;
}

static enum berth_status set_data(struct cli_call *call, const char *folder,
                                  struct berth_error *error) {
    const unsigned jobs = call->verb->jobs;
    if (folder == NULL) {
        return BERTH_OK;
    }
    if ((jobs & JOB_FINETUNE_SQUAD) != 0) {
        TRY(set_inside(call, "train_file", folder, "train-v1.1.json", error));
        return set_inside(call, "validation_file", folder, "dev-v1.1.json", error);
    }
    if ((jobs & JOB_FINETUNE_CLASSIFY) != 0) {
        TRY(call->config.task_name != NULL
                ? set_inside(call, "data_dir", folder, call->config.task_name, error)
                : BERTH_OK);
        return cli_set_default(call, "data_dir", folder, error);
    }
    return cli_set_default(call, "input_dir", folder, error);
}

enum berth_status cli_launcher_follow(struct cli_call *call, struct berth_error *error) {
    struct cli_launcher *own = &call->launcher;
    if (!own->is_used) {
        return BERTH_OK;
    }
    const struct {
        const char *row, *value, *variable, *option;
    } folders[] = {{"model_name_or_path", own->checkpoint, "CHECKPOINT_DIR", "init_checkpoint"},
                   {"output_dir", NULL, "OUTPUT_DIR", "output_dir"}};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        if (!cli_is_given(call, folders[i].row)) {
            const char *value =
                value_or_variable(call, folders[i].value, folders[i].variable, folders[i].option);
            TRY(value != NULL ? cli_set(call, folders[i].row, value, error) : BERTH_OK);
        }
    }
    own->processes =
        value_or_variable(call, own->processes, "MPI_NUM_PROCESSES", "mpi_num_processes");
    return set_data(call, value_or_variable(call, own->data, "DATASET_DIR", "data_location"),
                    error);
}

// --- its processes ------------------------------------------------------------------------------

enum { WORDS_MAX = 16 }; // before those of the program

struct mpirun {
    const char *words[WORDS_MAX + 1]; // "mpirun", "-np", "2", ...
    size_t count;
    char mapping[64];
};

static void add(struct mpirun *mpirun, const char *option, const char *value) {
    mpirun->words[mpirun->count++] = option;
    mpirun->words[mpirun->count++] = value;
}

// Whether the first mpirun on PATH is MPICH's, some of whose options have other names.
static int is_hydra(void) {
    const char *path = getenv("PATH");
    for (const char *at = path != NULL ? path : ""; *at != '\0';) {
        const size_t length = strcspn(at, ":");
        char file[4096], *real = NULL;
        snprintf(file, sizeof file, "%.*s/mpirun", (int)length, at);
        real = realpath(file, NULL);
        if (real != NULL) {
            const int answer = strstr(real, "hydra") != NULL;
            free(real); // realpath's
            return answer;
        }
        at += length + (at[length] == ':');
    }
    return 0;
}

// One process for each socket in turn, as the launcher places them.
static void plan_mpirun(const struct cli_launcher *own, struct mpirun *mpirun) {
    const int hydra = is_hydra();
    *mpirun = (struct mpirun){.words = {"mpirun"}, .count = 1};
    add(mpirun, "-np", own->processes);
    snprintf(mpirun->mapping, sizeof mpirun->mapping,
             own->per_socket != NULL ? "ppr:%s:socket" : "socket", own->per_socket);
    add(mpirun, hydra ? "-map-by" : "--map-by", hydra ? "socket" : mpirun->mapping);
    if (own->hosts != NULL) {
        add(mpirun, hydra ? "-hosts" : "--host", own->hosts);
    }
}

static void print_mpirun(const struct mpirun *mpirun, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < mpirun->count && used < size; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s ", mpirun->words[i]);
    }
}

// Replaces this process by mpirun with the program's own words. Returns only if that fails.
static enum berth_status start_processes(const struct mpirun *mpirun, char **command,
                                         struct berth_error *error) {
    char program[4096], text[512];
    size_t count = 0;
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    while (command[count] != NULL) {
        count++;
    }
    char **words = memory_array(mpirun->count + count + 1, sizeof *words);
    if (words == NULL || length <= 0) {
        memory_free(words);
        return path_no_memory(error);
    }
    program[length] = '\0';
    memcpy(words, mpirun->words, mpirun->count * sizeof *words);
    memcpy(words + mpirun->count, command, (count + 1) * sizeof *words);
    words[mpirun->count] = program;
    setenv(STARTED, "1", 1);
    if (geteuid() == 0) { // as in the launcher's container; Open MPI asks for both
        setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
        setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    }
    execvp(words[0], words);
    memory_free(words);
    print_mpirun(mpirun, text, sizeof text);
    return error_set(error, BERTH_UNAVAILABLE,
                     "mpi_num_processes: cannot start mpirun, which starts the processes; install "
                     "an MPI (`berth doctor` lists them) and run: %sberth ...",
                     text);
}

int cli_launcher_has_started(void) {
    return getenv(STARTED) != NULL;
}

static enum berth_status check_count(const struct cli_launcher *own, int64_t count,
                                     const struct launch *launch, struct berth_error *error) {
    if (cli_launcher_has_started() && launch->size == 1) {
        return error_set(error, BERTH_UNAVAILABLE,
                         "mpi_num_processes: mpirun has started processes that do not know of each "
                         "other: it belongs to an MPI for which Berth has no module (`berth "
                         "doctor`)");
    }
    return launch->size == 1 || launch->size == count
               ? BERTH_OK
               : error_set(error, BERTH_CONFIG,
                           "mpi_num_processes is %s, but %s started %" PRId64 " processes",
                           own->processes, launch->launcher->name, launch->size);
}

static void note_unused_placement(const struct cli_call *call) {
    const char *without = "has no effect without --mpi_num_processes of at least 2";
    if (call->launcher.hosts != NULL) {
        cli_note(call, "--mpi_hostnames %s", without);
    }
    if (call->launcher.per_socket != NULL) {
        cli_note(call, "--mpi_num_processes_per_socket %s", without);
    }
}

enum berth_status cli_launcher_start(const struct cli_call *call, char **command,
                                     struct berth_error *error) {
    const struct cli_launcher *own = &call->launcher;
    const struct launch launch = launch_find();
    struct mpirun mpirun;
    int64_t count = 1;
    char text[512];
    if (own->processes == NULL) {
        note_unused_placement(call);
        return BERTH_OK;
    }
    if (!number_parse_integer(own->processes, &count) || count < 1) {
        return error_set(error, BERTH_USAGE,
                         "option mpi_num_processes: expected a positive integer, found \"%s\"",
                         own->processes);
    }
    if (count == 1 && launch.size == 1) {
        note_unused_placement(call);
        return BERTH_OK;
    }
    TRY(check_count(own, count, &launch, error));
    if (launch.size > 1) {
        return BERTH_OK;
    }
    plan_mpirun(own, &mpirun);
    print_mpirun(&mpirun, text, sizeof text);
    cli_note(call, "mpi_num_processes: %sberth ...%s", text,
             call->config.dry_run ? " would run; the plan is that of one process" : "");
    if ((call->verb->jobs & JOB_FINETUNE_SQUAD) != 0 && !cli_is_given(call, "workers")) {
        cli_note(call, "the processes divide each update; --mpi_workers_sync_gradients false, the "
                       "launcher's default, lets each train a model of its own");
    }
    return call->config.dry_run ? BERTH_OK : start_processes(&mpirun, command, error);
}
