// SPDX-License-Identifier: Apache-2.0
// Exchanges with the GPUs of other ranks by NCCL, in a stream of their own. A sum is no operation
// of the library, whose order would be its own: every rank sends each owner its part and adds what
// it gets along the tree of comm/numbers.h, so the bytes are those that the ranks' exchange through
// the host has where each rank is a host of its own.
//
// Calls return early (settings.blocking), and the host never waits without asking the library and
// the communicator whether all others are still there: a rank that is lost ends the wait.
#include "gpu/cost.h"
#include "gpu/faults.h"
#include "gpu/gpu.h"
#include "gpu/kernel.h"
#include "gpu/nccl.h"

extern "C" {
#include "core/clock.h"
#include "core/comm.h"
#include "core/error.h"
#include "core/memory.h"
}

#include <string.h>
#include <time.h>

static_assert(sizeof(struct nccl_id) == DEVICE_PEERS_ID, "of the contract");

enum { EXCHANGED = 64, LEVELS = 16, PART_THREADS = 256 }; // 2^LEVELS ranks
static constexpr size_t HALF_BYTES = 16 << 20;            // of the memory for parts under way
static constexpr size_t LIBRARY_BYTES = 512 << 20; // that NCCL takes for its channels: an estimate

struct gpu_peers {
    nccl_comm library; // NULL: it was ended
    struct comm *comm;
    double timeout_seconds;
    gpu_stream stream;
    bool is_open;                   // the stream
    gpu_event computed, waited;     // of what is exchanged next; of what the host waits for
    gpu_event exchanged[EXCHANGED]; // the last exchanges
    int64_t count;
    char *sent, *received; // parts in the type that they travel in, HALF_BYTES each
};

static void rest(void) {
    const struct timespec moment = {0, 50000};
    nanosleep(&moment, NULL);
}

// --- errors -------------------------------------------------------------------------------------

// No exchange is begun from now on, and those under way end. What they wrote is not used.
static void give_up(struct gpu_peers *peers) {
    if (peers->library != NULL) {
        (void)NCCL(CommAbort)(peers->library);
        peers->library = NULL;
    }
}

static void fail(struct gpu *gpu, const char *text) {
    give_up(gpu->peers);
    gpu_fail(gpu, "exchange with other ranks", gpu_error{GPU_PEERS, text});
}

// Asks whether there is anything left to wait for; `since` is when the wait began.
static void look(struct gpu *gpu, double since) {
    struct gpu_peers *peers = gpu->peers;
    struct berth_error met = {};
    nccl_result result = NCCL(SUCCESS);
    if (peers->library == NULL) {
        return;
    }
    const enum berth_status status = peers->comm->status(peers->comm, &met);
    if (status != BERTH_OK) { // which another thread of the communicator has met, or another rank
        give_up(peers);
        if (gpu->status == BERTH_OK) {
            gpu->status = status;
            gpu->error = met;
        }
    } else if (NCCL(CommGetAsyncError)(peers->library, &result) != NCCL(SUCCESS) ||
               (result != NCCL(SUCCESS) && result != NCCL(IN_PROGRESS))) {
        fail(gpu, NCCL(GetErrorString)(result));
    } else if (clock_now() - since > peers->timeout_seconds) {
        fail(gpu, "the other ranks' GPUs did not get here before the deadline (--comm_timeout)");
    }
}

// Of a call: waits until it has returned, as the library says, unless the peers are given up.
static void settle(struct gpu *gpu, nccl_result result) {
    struct gpu_peers *peers = gpu->peers;
    const double since = clock_now();
    while (result == NCCL(IN_PROGRESS) && peers->library != NULL) {
        look(gpu, since);
        if (peers->library == NULL ||
            NCCL(CommGetAsyncError)(peers->library, &result) != NCCL(SUCCESS)) {
            break;
        }
        rest();
    }
    if (result != NCCL(SUCCESS) && result != NCCL(IN_PROGRESS)) {
        fail(gpu, NCCL(GetErrorString)(result));
    }
}

void gpu_wait_with_peers(struct gpu *gpu, const gpu_event *event) {
    struct gpu_peers *peers = gpu->peers;
    const double since = clock_now();
    bool done = false;
    if (event == NULL) {
        gpu_fail(gpu, "waiting", gpu_event_record(&peers->waited, gpu->stream));
        event = &peers->waited;
    }
    gpu_error error = gpu_event_done(event, &done);
    while (error.code == 0 && !done) {
        look(gpu, since);
        rest();
        error = gpu_event_done(event, &done);
    }
    gpu_fail(gpu, "waiting", error);
}

void gpu_peers_rest(struct gpu *gpu) {
    struct gpu_peers *peers = gpu->peers;
    if (peers == NULL) {
        return;
    }
    if (peers->count > 0) {
        gpu_wait_with_peers(gpu, &peers->exchanged[peers->count % EXCHANGED]);
    }
    gpu_wait_with_peers(gpu, NULL);
}

// --- opening ------------------------------------------------------------------------------------

const char *gpu_peers_id(struct device *dev, char id[DEVICE_PEERS_ID]) {
    struct nccl_id made;
    const char *missing = nccl_load();
    if (missing == NULL) {
        const nccl_result result = NCCL(GetUniqueId)(&made);
        missing = result == NCCL(SUCCESS) ? NULL : NCCL(GetErrorString)(result);
    }
    if (missing == NULL) {
        memcpy(id, made.bytes, sizeof made.bytes);
    }
    return missing;
}

static gpu_error open_stream(struct gpu_peers *peers) {
    gpu_event *const events[] = {&peers->computed, &peers->waited};
    gpu_error error = gpu_stream_new(&peers->stream);
    peers->is_open = error.code == 0;
    for (gpu_event *event : events) {
        error = error.code == 0 ? gpu_event_new(event) : error;
    }
    for (gpu_event &event : peers->exchanged) {
        error = error.code == 0 ? gpu_event_new(&event) : error;
    }
    for (char **half : {&peers->sent, &peers->received}) {
        void *block = NULL;
        error = error.code == 0 ? gpu_memory_new(&block, HALF_BYTES) : error;
        *half = (char *)block;
    }
    return error;
}

// What is still under way after a wait is of ranks that failed.
void gpu_peers_close(struct device *dev) {
    struct gpu *gpu = gpu_of(dev);
    struct gpu_peers *peers = gpu->peers;
    bool done = true;
    if (peers == NULL) {
        return;
    }
    if (peers->count > 0) {
        gpu_peers_rest(gpu);
        (void)gpu_event_done(&peers->exchanged[peers->count % EXCHANGED], &done);
    }
    if (peers->library != NULL && done) {
        (void)NCCL(CommDestroy)(peers->library);
        peers->library = NULL;
    }
    give_up(peers);
    if (peers->is_open) {
        (void)gpu_wait(gpu->stream);
        (void)gpu_wait(peers->stream);
        gpu_event_free(peers->computed);
        gpu_event_free(peers->waited);
        for (gpu_event event : peers->exchanged) {
            gpu_event_free(event);
        }
        gpu_close(peers->stream);
    }
    (void)gpu_memory_free(peers->sent);
    (void)gpu_memory_free(peers->received);
    memory_free(peers);
    gpu->peers = NULL;
}

enum berth_status gpu_peers_open(struct device *dev, struct comm *comm,
                                 const char id[DEVICE_PEERS_ID], struct berth_error *error) {
    struct gpu *gpu = gpu_of(dev);
    struct nccl_settings settings = {sizeof settings, NCCL(MAGIC), NCCL(OLDEST), 0};
    struct nccl_id given;
    struct gpu_peers *peers = (struct gpu_peers *)memory_array_zeroed(1, sizeof *peers);
    if (peers == NULL) {
        return error_no_memory(error, sizeof *peers, "the exchange with other ranks");
    }
    gpu->peers = peers;
    peers->comm = comm;
    peers->timeout_seconds = comm->timeout_seconds;
    memcpy(given.bytes, id, sizeof given.bytes);
    gpu_fail(gpu, "opening a stream", open_stream(peers));
    if (gpu->status == BERTH_OK) {
        settle(gpu,
               NCCL(CommInitRankConfig)(&peers->library, comm->size, given, comm->rank, &settings));
    }
    const enum berth_status status = gpu_status(dev, error);
    if (status != BERTH_OK) {
        gpu_peers_close(dev);
    }
    return status;
}

size_t gpu_peers_bytes(void) {
    return nccl_load() == NULL ? 2 * HALF_BYTES + LIBRARY_BYTES : 0;
}

// --- kernels ------------------------------------------------------------------------------------

DEVICE float number_at_place(const struct mat &m, int64_t i) {
    float x[1];
    vector_io<1>::load(x, m, i);
    return x[0];
}

// to[i] = from[i], of one row each, in the dtype of `to`.
__global__ void __launch_bounds__(PART_THREADS)
    copy_numbers_kernel(struct mat to, struct mat from) {
    const int64_t i = (int64_t)blockIdx.x * PART_THREADS + threadIdx.x;
    if (i < to.cols) {
        const float x[1] = {number_at_place(from, i)};
        vector_io<1>::store(to, i, x);
    }
}

static gpu_cost copy_numbers_cost(struct mat to, struct mat from) {
    return {cost_of(from), cost_of(to), 0};
}

// own[i] becomes the sum of all ranks' numbers: row r of `parts` has those of rank r, `own` those
// of `rank`. A number joins the sum of the 2^k before it where that is complete, so the tree is
// that of reduction_tree_split.
__global__ void __launch_bounds__(PART_THREADS)
    sum_parts_kernel(struct mat own, struct mat parts, int64_t rank) {
    const int64_t i = (int64_t)blockIdx.x * PART_THREADS + threadIdx.x;
    float complete[LEVELS] = {0};
    if (i >= own.cols) {
        return;
    }
    for (int64_t r = 0; r < parts.rows; r++) {
        float x =
            r == rank ? number_at_place(own, i) : number_at_place(parts, r * parts.stride + i);
        bool goes_on = true;
        GPU_UNROLL
        for (int level = 0; level < LEVELS; level++) {
            const bool joins = (r >> level & 1) != 0;
            const float held = complete[level];
            complete[level] = goes_on && !joins ? x : held;
            x = goes_on && joins ? held + x : x;
            goes_on = goes_on && joins;
        }
    }
    float sum[1] = {0};
    bool is_first = true;
    GPU_UNROLL
    for (int level = 0; level < LEVELS; level++) {
        if ((parts.rows >> level & 1) != 0) {
            sum[0] = is_first ? complete[level] : complete[level] + sum[0];
            is_first = false;
        }
    }
    vector_io<1>::store(own, i, sum);
}

static gpu_cost sum_parts_cost(struct mat own, struct mat parts, int64_t rank) {
    const uint64_t others = (uint64_t)((parts.rows - 1) * own.cols) * dtype_size(parts.dtype);
    return {cost_of(own) + others, cost_of(own), 0};
}

template <class... Parameters, class... Arguments>
static void launch(struct gpu *gpu, const char *name, int64_t count, void (*kernel)(Parameters...),
                   gpu_cost (*cost)(Parameters...), Arguments... arguments) {
    if (gpu->status == BERTH_OK && count > 0) {
        const struct gpu_shape shape = {name, gpu_blocks(count, PART_THREADS), PART_THREADS};
        gpu_fail(gpu, name,
                 gpu_launch(shape, gpu->peers->stream, kernel, cost, Parameters(arguments)...));
    }
}

// --- messages -----------------------------------------------------------------------------------

// A step of an exchange: of each rank's part the same `most` elements, counted from its beginning.
struct step {
    const struct comm_range *range;
    int64_t from, most;
};

// Elements of the part of `rank` that the step has, and where they are in memory.
static int64_t count_of(const struct step *step, int64_t rank) {
    const int64_t *starts = step->range->starts;
    const int64_t left = starts[rank + 1] - starts[rank] - step->from;
    return left < 0 ? 0 : left < step->most ? left : step->most;
}

static char *place_of(const struct step *step, int64_t rank) {
    const struct comm_range *range = step->range;
    return (char *)range->data +
           (size_t)(range->starts[rank] + step->from - range->first) * dtype_size(range->dtype);
}

static struct mat in_memory(const struct step *step, int64_t rank) {
    const int64_t count = count_of(step, rank);
    return mat_of(place_of(step, rank), 1, count, step->range->dtype);
}

// The rank's numbers in the type in which they travel, in one of the halves.
static struct mat on_the_way(const struct step *step, char *half, int64_t rank) {
    const size_t skipped = (size_t)(rank * step->most) * dtype_size(step->range->wire);
    return mat_of(half + skipped, 1, count_of(step, rank), step->range->wire);
}

static nccl_type type_of(enum dtype dtype) {
    return dtype == DTYPE_F32 ? NCCL(F32) : dtype == DTYPE_BF16 ? NCCL(BF16) : NCCL(F16);
}

static nccl_result send(struct gpu_peers *peers, struct mat numbers, int rank) {
    return numbers.cols == 0
               ? NCCL(SUCCESS)
               : NCCL(Send)(numbers.data, (size_t)numbers.cols, type_of(numbers.dtype), rank,
                            peers->library, gpu_native(peers->stream));
}

static nccl_result receive(struct gpu_peers *peers, struct mat numbers, int rank) {
    return numbers.cols == 0
               ? NCCL(SUCCESS)
               : NCCL(Recv)(numbers.data, (size_t)numbers.cols, type_of(numbers.dtype), rank,
                            peers->library, gpu_native(peers->stream));
}

static void copy_numbers(struct gpu *gpu, struct mat to, struct mat from) {
    launch(gpu, "copy_numbers", to.cols, copy_numbers_kernel, copy_numbers_cost, to, from);
}

// outgoing(r) goes to rank r, incoming(r) comes from it.
template <class Outgoing, class Incoming>
static void exchange(struct gpu *gpu, Outgoing outgoing, Incoming incoming) {
    struct gpu_peers *peers = gpu->peers;
    const int size = peers->comm->size;
    if (peers->library == NULL) {
        fail(gpu, "it was given up before");
    }
    if (gpu->status != BERTH_OK) {
        return;
    }
    nccl_result result = NCCL(GroupStart)();
    for (int i = 1; i < size && result == NCCL(SUCCESS); i++) {
        const int next = (peers->comm->rank + i) % size;
        const int before = (peers->comm->rank + size - i) % size;
        result = send(peers, outgoing(next), next);
        result = result == NCCL(SUCCESS) ? receive(peers, incoming(before), before) : result;
    }
    const nccl_result ended = NCCL(GroupEnd)();
    settle(gpu, result == NCCL(SUCCESS) ? ended : result);
}

// --- steps --------------------------------------------------------------------------------------

static void reduce_step(struct gpu *gpu, const struct step *step) {
    struct gpu_peers *peers = gpu->peers;
    const struct comm_range *range = step->range;
    const int64_t rank = peers->comm->rank, size = peers->comm->size;
    const bool converts = range->wire != range->dtype;
    for (int64_t r = 0; converts && r < size; r++) {
        if (r != rank) {
            copy_numbers(gpu, on_the_way(step, peers->sent, r), in_memory(step, r));
        }
    }
    // What comes has the size of this rank's part, whoever sends it.
    const int64_t own = count_of(step, rank);
    const auto row = [&](int64_t r) {
        const size_t skipped = (size_t)(r * step->most) * dtype_size(range->wire);
        return mat_of(peers->received + skipped, 1, own, range->wire);
    };
    exchange(
        gpu,
        [&](int r) { return converts ? on_the_way(step, peers->sent, r) : in_memory(step, r); },
        row);
    const struct mat parts = {peers->received, size, own, step->most, range->wire};
    launch(gpu, "sum_parts", own, sum_parts_kernel, sum_parts_cost, in_memory(step, rank), parts,
           rank);
}

static void gather_step(struct gpu *gpu, const struct step *step) {
    struct gpu_peers *peers = gpu->peers;
    const int64_t rank = peers->comm->rank, size = peers->comm->size;
    const bool converts = step->range->wire != step->range->dtype;
    if (!converts) {
        exchange(
            gpu, [&](int) { return in_memory(step, rank); },
            [&](int r) { return in_memory(step, r); });
        return;
    }
    copy_numbers(gpu, on_the_way(step, peers->received, rank), in_memory(step, rank));
    exchange(
        gpu, [&](int) { return on_the_way(step, peers->received, rank); },
        [&](int r) { return on_the_way(step, peers->received, r); });
    for (int64_t r = 0; r < size; r++) {
        copy_numbers(gpu, in_memory(step, r), on_the_way(step, peers->received, r));
    }
}

static int64_t longest_part(const struct comm_range *range, int64_t size) {
    int64_t longest = 0;
    for (int64_t r = 0; r < size; r++) {
        const int64_t part = range->starts[r + 1] - range->starts[r];
        longest = part > longest ? part : longest;
    }
    return longest;
}

// All ranks find the same steps.
static int64_t begin(struct gpu *gpu, const struct comm_range *range,
                     void (*run)(struct gpu *, const struct step *)) {
    struct gpu_peers *peers = gpu->peers;
    const int64_t size = peers->comm->size;
    const int64_t room = (int64_t)(HALF_BYTES / sizeof(float)) / size;
    const int64_t bucket = range->bucket > 0 ? (range->bucket + size - 1) / size : room;
    const int64_t most = bucket < room ? bucket : room;
    const int64_t exchange = ++peers->count, parts = longest_part(range, size);
    gpu_fail(gpu, "exchange", gpu_event_record(&peers->computed, gpu->stream));
    gpu_fail(gpu, "exchange", gpu_stream_wait(peers->stream, &peers->computed));
    for (int64_t from = 0; from < parts && gpu->status == BERTH_OK; from += most) {
        const struct step step = {range, from, most};
        run(gpu, &step);
    }
    gpu_fail(gpu, "exchange",
             gpu_event_record(&peers->exchanged[exchange % EXCHANGED], peers->stream));
    return exchange;
}

int64_t gpu_peers_reduce(struct device *dev, const struct comm_range *range) {
    return begin(gpu_of(dev), range, reduce_step);
}

int64_t gpu_peers_gather(struct device *dev, const struct comm_range *range) {
    return begin(gpu_of(dev), range, gather_step);
}

// The event may be that of a later exchange, which is later.
void gpu_peers_wait(struct device *dev, int64_t ticket) {
    struct gpu *gpu = gpu_of(dev);
    gpu_fail(gpu, "exchange",
             gpu_stream_wait(gpu->stream, &gpu->peers->exchanged[ticket % EXCHANGED]));
}
