// SPDX-License-Identifier: Apache-2.0
// Decides how many threads a process has and which processors they run on. When a communicator has
// been opened, ranks of one host that may run on the same processors divide them by socket and
// core, and bind their threads, unless the user has said how many threads there are. Starting the
// threads is left to machine.c and OpenMP.
#include "train/machine/cores.h"

#include "core/launcher.h"
#include "core/memory.h"
#include "train/machine/cgroup.h"

#include <dlfcn.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORD 32 // processors per double, which is summed exactly
#define WORDS (CPU_SETSIZE / WORD)

// --- after a fork -------------------------------------------------------------------------------

static int forked;

// OpenMP's threads exist only in the parent, so the child's next parallel region would wait for
// them forever. With no active levels each region has one thread, whatever number it requests.
static void use_one_thread(void) {
    forked = 1;
    omp_set_max_active_levels(0);
}

static void register_handler(void) {
    (void)pthread_atfork(NULL, NULL, use_one_thread);
}

static void watch_forks(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_handler);
}

int cores_is_forked_child(void) {
    return forked;
}

// --- this process -------------------------------------------------------------------------------

static int omp_threads(void) { // "4", "4,2"
    const char *text = getenv("OMP_NUM_THREADS");
    long count = text != NULL ? strtol(text, NULL, 10) : 0;
    return count > 0 && count <= CPU_SETSIZE ? (int)count : 0;
}

static int is_divided; // cores_divide has bound this process's threads

// An OpenMP that is loaded.
struct openmp {
    omp_proc_bind_t (*proc_bind)(void);
    int (*places)(void), (*processors)(int place);
    void (*processor_ids)(int place, int *ids);
};

static const struct openmp of_compiler = {omp_get_proc_bind, omp_get_num_places,
                                          omp_get_place_num_procs, omp_get_place_proc_ids};

// Whether OMP_PROC_BIND, OMP_PLACES or the like makes OpenMP bind each of its threads to a place.
static int threads_have_places(const struct openmp *openmp) {
    return openmp->proc_bind() != omp_proc_bind_false && openmp->places() > 0;
}

static cpu_set_t place_processors(const struct openmp *openmp, int place) {
    int numbers[CPU_SETSIZE];
    cpu_set_t set;
    CPU_ZERO(&set);
    const int count = openmp->processors(place);
    if (count <= CPU_SETSIZE) {
        openmp->processor_ids(place, numbers);
        for (int i = 0; i < count; i++) {
            CPU_SET(numbers[i], &set);
        }
    }
    return set;
}

static void leave_first_place(const struct openmp *openmp) {
    cpu_set_t now, all;
    if (!threads_have_places(openmp) || sched_getaffinity(0, sizeof now, &now) != 0) {
        return;
    }
    all = place_processors(openmp, 0);
    if (!CPU_EQUAL(&now, &all)) {
        return;
    }
    for (int place = 1; place < openmp->places(); place++) {
        const cpu_set_t set = place_processors(openmp, place);
        CPU_OR(&all, &all, &set);
    }
    sched_setaffinity(0, sizeof all, &all);
}

// GCC's OpenMP binds the first thread when it is loaded, as by a library beside clang's OpenMP,
// whose places are the processors that it then finds when it is first called.
static void leave_first_place_of_gcc(void) {
    struct openmp gcc;
    void *library = dlopen("libgomp.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (library == NULL) {
        return;
    }
    *(void **)&gcc.proc_bind = dlsym(library, "omp_get_proc_bind");
    *(void **)&gcc.places = dlsym(library, "omp_get_num_places");
    *(void **)&gcc.processors = dlsym(library, "omp_get_place_num_procs");
    *(void **)&gcc.processor_ids = dlsym(library, "omp_get_place_proc_ids");
    if (gcc.processor_ids != NULL) { // OpenMP 4.5
        leave_first_place(&gcc);
    }
    dlclose(library);
}

void cores_leave_first_place(void) {
    if (!is_divided) {
        leave_first_place_of_gcc();
        leave_first_place(&of_compiler);
    }
}

static cpu_set_t own_processors(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) == 0) {
        CPU_SET(0, &set);
    }
    return set;
}

int cores_threads(int requested) {
    watch_forks();
    if (forked) {
        return 1;
    }
    cores_leave_first_place();
    if (requested > 0 || omp_threads() > 0) {
        return requested > 0 ? requested : omp_threads();
    }
    const cpu_set_t set = own_processors();
    const uint64_t quota = cgroup_processors("");
    const int64_t launched = launch_processors();
    int count = CPU_COUNT(&set);
    count = quota >= 1 && quota < (uint64_t)count ? (int)quota : count;
    return launched >= 1 && launched < count ? (int)launched : count;
}

// --- the ranks of this host ---------------------------------------------------------------------

struct sharing {
    cpu_set_t own, all; // of this rank; of all ranks of this host
    int index, count;   // of this rank among those that may run on any of its processors
};

static void find_sharing(const double *sets, const struct comm *comm, struct sharing *sharing) {
    const int first = comm->rank - comm->local_rank;
    for (int rank = first; rank < first + comm->local_size; rank++) {
        cpu_set_t set, common;
        CPU_ZERO(&set);
        for (int i = 0; i < CPU_SETSIZE; i++) {
            if (((uint32_t)sets[(ptrdiff_t)rank * WORDS + i / WORD] >> i % WORD & 1) != 0) {
                CPU_SET(i, &set);
            }
        }
        CPU_OR(&sharing->all, &sharing->all, &set);
        CPU_AND(&common, &sharing->own, &set);
        if (CPU_COUNT(&common) > 0) {
            sharing->count++;
            sharing->index += rank < comm->rank;
        }
    }
}

// Tells every rank where the others may run.
static enum berth_status collect(struct comm *comm, struct sharing *sharing,
                                 struct berth_error *error) {
    const size_t count = (size_t)comm->size * WORDS;
    double *sets = memory_array_zeroed(count, sizeof *sets);
    if (sets == NULL) {
        return error_no_memory(error, count * sizeof *sets, "the processors of all ranks");
    }
    *sharing = (struct sharing){.own = own_processors()};
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &sharing->own)) {
            sets[(ptrdiff_t)comm->rank * WORDS + i / WORD] += (double)((uint32_t)1 << i % WORD);
        }
    }
    comm->sum(comm, sets, count);
    find_sharing(sets, comm, sharing);
    memory_free(sets);
    return comm->status(comm, error);
}

// --- this rank's processors ---------------------------------------------------------------------

struct processor {
    int socket, core, number;
};

static int read_topology(int number, const char *name) {
    char path[128];
    int value = 0;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/%s", number, name);
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        value = fscanf(file, "%d", &value) == 1 ? value : 0;
        fclose(file);
    }
    return value;
}

static int compare_processors(const void *left, const void *right) {
    const struct processor *x = left, *y = right;
    return x->socket != y->socket ? x->socket - y->socket
           : x->core != y->core   ? x->core - y->core
                                  : x->number - y->number;
}

// Returns this rank's part of sharing->own, which is adjacent by socket and core.
static cpu_set_t choose_processors(const struct sharing *sharing) {
    static struct processor processors[CPU_SETSIZE];
    const uint64_t quota = cgroup_processors("");
    int count = 0;
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &sharing->own)) {
            processors[count++] = (struct processor){read_topology(i, "physical_package_id"),
                                                     read_topology(i, "core_id"), i};
        }
    }
    qsort(processors, (size_t)count, sizeof *processors, compare_processors);
    const int first = count * sharing->index / sharing->count;
    int end = count * (sharing->index + 1) / sharing->count;
    if (quota < (uint64_t)count && end - first > (int)quota / sharing->count) {
        end = first + (int)quota / sharing->count;
    }
    cpu_set_t part;
    CPU_ZERO(&part);
    for (int i = first; i < end || i == first; i++) {
        CPU_SET(processors[i].number, &part);
    }
    return part;
}

// Open MPI binds each of two ranks to one core, however many there are.
static void warn_of_idle_processors(const struct sharing *sharing, const struct comm *comm,
                                    const struct berth_log *log) {
    const struct launch launch = launch_find();
    cpu_set_t launcher;
    if (launch.launcher == NULL || strcmp(launch.launcher->name, "mpirun of Open MPI") != 0 ||
        sched_getaffinity(getppid(), sizeof launcher, &launcher) != 0) {
        return;
    }
    if (CPU_COUNT(&launcher) > CPU_COUNT(&sharing->all)) {
        log_warning(log,
                    "mpirun binds the %d ranks of this host to %d of %d processors: with --bind-to "
                    "none, ranks divide all of them",
                    comm->local_size, CPU_COUNT(&sharing->all), CPU_COUNT(&launcher));
    }
}

// Binds this thread, those that it starts, and OpenMP's where they have places, which are the same
// in all ranks.
static void bind_threads(const cpu_set_t *set, int threads) {
    is_divided = 1;
    sched_setaffinity(0, sizeof *set, set);
    if (threads_have_places(&of_compiler)) {
#pragma omp parallel num_threads(threads)
        sched_setaffinity(0, sizeof *set, set);
    }
}

enum berth_status cores_divide(struct comm *comm, int requested, const struct berth_log *log,
                               struct berth_error *error) {
    struct sharing sharing;
    TRY(collect(comm, &sharing, error));
    warn_of_idle_processors(&sharing, comm, log);
    const int threads = requested > 0 ? requested : omp_threads();
    if (sharing.count <= 1 || (threads > 0 && !threads_have_places(&of_compiler))) {
        return BERTH_OK;
    }
    if (threads > 0) {
        bind_threads(&sharing.own, threads);
        log_note(log,
                 "OMP_PROC_BIND or OMP_PLACES would bind %d ranks of this host to the same "
                 "processors: their threads may run on all %d",
                 sharing.count, CPU_COUNT(&sharing.own));
        return BERTH_OK;
    }
    const cpu_set_t part = choose_processors(&sharing);
    bind_threads(&part, CPU_COUNT(&part));
    log_note(
        log,
        "%d ranks of this host may run on the same %d processors and divide them: this one "
        "uses %d (the setting threads, OMP_NUM_THREADS or the launcher's binding override this)",
        sharing.count, CPU_COUNT(&sharing.own), CPU_COUNT(&part));
    return BERTH_OK;
}
