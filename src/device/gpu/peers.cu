// SPDX-License-Identifier: Apache-2.0
// Exchanges with the GPUs of other ranks by NCCL, in a stream of their own. Sums are left to the
// library, which has its own order, only in ranges that say so (`native`). In others the ranks of a
// host first give each other the parts to add, and then ranks of the same number on all hosts
// exchange the sums, so that a part leaves a host once. Sums follow the tree of
// core/reduction_tree.h, in which the ranks of a host are a branch: the bytes are those of an
// exchange through the hosts. Where hosts have different numbers of ranks, or one that is no power
// of two, all ranks count as those of one host.
//
// Calls are nonblocking, and while the host waits, it keeps asking the library and the communicator
// whether the other ranks are still there: a lost rank ends the wait.
#include "device/gpu/cost.h"
#include "device/gpu/faults.h"
#include "device/gpu/gpu.h"
#include "device/gpu/kernel.h"
#include "device/gpu/nccl.h"

extern "C" {
#include "comm/comm.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/memory.h"
}

#include <string.h>
#include <time.h>

static_assert(sizeof(struct nccl_id) == DEVICE_PEERS_ID, "of the contract");

enum { EXCHANGE_EVENTS = 64, LEVELS = 16, PART_THREADS = 256 }; // at most 2^LEVELS ranks
static constexpr size_t HALF_BYTES = 16 << 20;                  // of the memory for parts in flight
// What NCCL takes. With each peer of the host it has P2P_CHANNELS connections, with a buffer of
// 10 MiB to receive and one of 2 MiB to send; those to other hosts share NET_BYTES. Of 8 H100s:
// https://github.com/NVIDIA/nccl/issues/1685, 3.3 GB more after the first messages between all.
static constexpr size_t BASE_BYTES = 512 << 20, PEER_BYTES = 12 << 20, NET_BYTES = 8 << 20;
static constexpr size_t P2P_CHANNELS = 32;

// Ranks first, first + stride, ...: those of a host, or those of one number on all hosts. `own` is
// this rank's place among them.
struct circle {
    int first, stride, size, own;
};

static int rank_at(const struct circle *circle, int place) {
    return circle->first + place % circle->size * circle->stride;
}

struct gpu_peers {
    nccl_comm library; // NULL: aborted
    struct comm *comm;
    double timeout_seconds;
    struct circle host, across; // this rank's
    gpu_stream stream;
    bool is_open;                         // the stream
    gpu_event computed, waited;           // the data of the next exchange; what the host waits for
    gpu_event exchanged[EXCHANGE_EVENTS]; // the last exchanges
    int64_t count;
    char *sent, *received; // parts in the wire type, HALF_BYTES each
};

static void sleep_briefly(void) {
    const struct timespec moment = {0, 50000};
    nanosleep(&moment, NULL);
}

// --- errors -------------------------------------------------------------------------------------

// Ends the exchanges in flight, whose results are not used, and prevents new ones.
static void abort_exchanges(struct gpu_peers *peers) {
    if (peers->library != NULL) {
        (void)NCCL(CommAbort)(peers->library);
        peers->library = NULL;
    }
}

static void fail(struct gpu *gpu, const char *text) {
    abort_exchanges(gpu->peers);
    gpu_fail(gpu, "exchange with other ranks", gpu_error{GPU_PEERS, text});
}

// Checks whether there is still anything to wait for; `since` is when the wait began.
static void check_for_errors(struct gpu *gpu, double since) {
    struct gpu_peers *peers = gpu->peers;
    struct berth_error met = {};
    nccl_result result = NCCL(SUCCESS);
    if (peers->library == NULL) {
        return;
    }
    const enum berth_status status = peers->comm->status(peers->comm, &met);
    if (status != BERTH_OK) { // met by another thread of the communicator, or by another rank
        abort_exchanges(peers);
        if (gpu->status == BERTH_OK) {
            gpu->status = status;
            gpu->error = met;
        }
    } else if (NCCL(CommGetAsyncError)(peers->library, &result) != NCCL(SUCCESS) ||
               (result != NCCL(SUCCESS) && result != NCCL(IN_PROGRESS))) {
        fail(gpu, NCCL(GetErrorString)(result));
    } else if (clock_now() - since > peers->timeout_seconds) {
        if (peers->comm->find_silent(peers->comm, "an exchange of the GPUs", &met) != BERTH_OK) {
            check_for_errors(gpu, since); // which the communicator now has
        } else {
            fail(gpu,
                 "the other ranks' GPUs did not arrive before the deadline (comm_timeout), and "
                 "all processes answer");
        }
    }
}

// Waits for a nonblocking call to complete, unless exchanges are aborted.
static void wait_for_call(struct gpu *gpu, nccl_result result) {
    struct gpu_peers *peers = gpu->peers;
    const double since = clock_now();
    while (result == NCCL(IN_PROGRESS) && peers->library != NULL) {
        check_for_errors(gpu, since);
        if (peers->library == NULL ||
            NCCL(CommGetAsyncError)(peers->library, &result) != NCCL(SUCCESS)) {
            break;
        }
        sleep_briefly();
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
        check_for_errors(gpu, since);
        sleep_briefly();
        error = gpu_event_done(event, &done);
    }
    gpu_fail(gpu, "waiting", error);
}

void gpu_drain_peers(struct gpu *gpu) {
    struct gpu_peers *peers = gpu->peers;
    if (peers == NULL) {
        return;
    }
    if (peers->count > 0) {
        gpu_wait_with_peers(gpu, &peers->exchanged[peers->count % EXCHANGE_EVENTS]);
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

// An exchange that is still in flight after the wait involves a rank that failed.
void gpu_peers_close(struct device *dev) {
    struct gpu *gpu = gpu_of(dev);
    struct gpu_peers *peers = gpu->peers;
    bool done = true;
    if (peers == NULL) {
        return;
    }
    if (peers->count > 0) {
        gpu_drain_peers(gpu);
        (void)gpu_event_done(&peers->exchanged[peers->count % EXCHANGE_EVENTS], &done);
    }
    if (peers->library != NULL && done) {
        (void)NCCL(CommDestroy)(peers->library);
        peers->library = NULL;
    }
    abort_exchanges(peers);
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

// Whether every `ranks` ranks are a host, all with the same answer. A sum within the host has to be
// a branch of the tree of all.
static bool has_equal_hosts(const struct comm *comm, int ranks) {
    bool equal = (ranks & (ranks - 1)) == 0 && comm->host_count * ranks == comm->size;
    for (int r = 0; equal && r < comm->size; r++) {
        equal = strcmp(comm->host_names[r], comm->host_names[r - r % ranks]) == 0;
    }
    return equal;
}

static void place_rank(struct gpu_peers *peers) {
    const struct comm *comm = peers->comm;
    const int ranks = has_equal_hosts(comm, comm->local_size) ? comm->local_size : comm->size;
    const int number = comm->rank % ranks, host = comm->rank / ranks;
    peers->host = circle{host * ranks, 1, ranks, number};
    peers->across = circle{number, ranks, comm->size / ranks, host};
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
    place_rank(peers);
    memcpy(given.bytes, id, sizeof given.bytes);
    gpu_fail(gpu, "opening a stream", open_stream(peers));
    if (gpu->status == BERTH_OK) {
        wait_for_call(gpu, NCCL(CommInitRankConfig)(&peers->library, comm->size, given, comm->rank,
                                                    &settings));
    }
    const enum berth_status status = gpu_status(dev, error);
    if (status != BERTH_OK) {
        gpu_peers_close(dev);
    }
    return status;
}

size_t gpu_peers_bytes(int ranks, int local_ranks) {
    const size_t near = (size_t)(local_ranks - 1) * PEER_BYTES;
    const size_t far = ranks > local_ranks ? NET_BYTES : 0;
    return nccl_load() == NULL ? 2 * HALF_BYTES + BASE_BYTES + P2P_CHANNELS * (near + far) : 0;
}

// --- kernels ------------------------------------------------------------------------------------

DEVICE float number_at_index(const struct mat &m, int64_t i) {
    float x[1];
    vector_io<1>::load(x, m, i);
    return x[0];
}

// to[i] = from[i], converted to the dtype of `to`; both have one row.
__global__ void __launch_bounds__(PART_THREADS)
    copy_numbers_kernel(struct mat to, struct mat from) {
    const int64_t i = (int64_t)blockIdx.x * PART_THREADS + threadIdx.x;
    if (i < to.cols) {
        const float x[1] = {number_at_index(from, i)};
        vector_io<1>::store(to, i, x);
    }
}

static gpu_cost copy_numbers_cost(struct mat to, struct mat from) {
    return {cost_of(from), cost_of(to), 0};
}

// own[i] becomes the sum of all ranks' numbers: row r of `parts` has those of rank r, except that
// `own` has those of `rank`. Complete sums of 2^k numbers are merged as a binary counter carries,
// so the tree is that of reduction_tree_split.
__global__ void __launch_bounds__(PART_THREADS)
    sum_parts_kernel(struct mat own, struct mat parts, int64_t rank) {
    const int64_t i = (int64_t)blockIdx.x * PART_THREADS + threadIdx.x;
    float complete[LEVELS] = {0};
    if (i >= own.cols) {
        return;
    }
    for (int64_t r = 0; r < parts.rows; r++) {
        float x =
            r == rank ? number_at_index(own, i) : number_at_index(parts, r * parts.stride + i);
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

// A step of an exchange: up to max_count elements of each rank's part, from element `from` on. The
// largest part has that many.
struct step {
    const struct comm_range *range;
    int64_t from, max_count;
};

// The number of elements of the part of `rank` in the step, and where they are in memory.
static int64_t count_of(const struct step *step, int64_t rank) {
    const int64_t *starts = step->range->starts;
    const int64_t left = starts[rank + 1] - starts[rank] - step->from;
    return left < 0 ? 0 : left < step->max_count ? left : step->max_count;
}

static char *step_data(const struct step *step, int64_t rank) {
    const struct comm_range *range = step->range;
    return (char *)range->data +
           (size_t)(range->starts[rank] + step->from - range->first) * dtype_size(range->dtype);
}

static struct mat in_buffer(const struct step *step, int64_t rank) {
    const int64_t count = count_of(step, rank);
    return mat_of(step_data(step, rank), 1, count, step->range->dtype);
}

// The rank's numbers in the wire type, in `sent` or `received`.
static struct mat in_transit(const struct step *step, char *half, int64_t rank) {
    const size_t skipped = (size_t)(rank * step->max_count) * dtype_size(step->range->wire);
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

static bool may_exchange(struct gpu *gpu) {
    if (gpu->peers->library == NULL) {
        fail(gpu, "it was aborted earlier");
    }
    return gpu->status == BERTH_OK;
}

// Sends outgoing(r, m) to each rank r of the circle and receives incoming(r, m) from it, for m from
// 0 to `messages` - 1.
template <class Outgoing, class Incoming>
static void exchange(struct gpu *gpu, const struct circle *circle, int messages, Outgoing outgoing,
                     Incoming incoming) {
    struct gpu_peers *peers = gpu->peers;
    if (circle->size == 1 || !may_exchange(gpu)) {
        return;
    }
    nccl_result result = NCCL(GroupStart)();
    for (int i = 1; i < circle->size; i++) {
        const int next = rank_at(circle, circle->own + i);
        const int previous = rank_at(circle, circle->own + circle->size - i);
        for (int m = 0; m < messages && result == NCCL(SUCCESS); m++) {
            result = send(peers, outgoing(next, m), next);
            result =
                result == NCCL(SUCCESS) ? receive(peers, incoming(previous, m), previous) : result;
        }
    }
    const nccl_result ended = NCCL(GroupEnd)();
    wait_for_call(gpu, result == NCCL(SUCCESS) ? ended : result);
}

// --- steps --------------------------------------------------------------------------------------

// The numbers of other ranks, in the order of the tree, of which `own` becomes the sum; row `place`
// is this rank's and stays unread.
static void add_rows(struct gpu *gpu, struct mat own, const char *rows, int64_t count,
                     const struct step *step, int64_t place) {
    if (count == 1) {
        return;
    }
    const struct mat parts = {(void *)rows, count, own.cols, step->max_count, step->range->wire};
    launch(gpu, "sum_parts", own.cols, sum_parts_kernel, sum_parts_cost, own, parts, place);
}

static void reduce_step(struct gpu *gpu, const struct step *step) {
    struct gpu_peers *peers = gpu->peers;
    const struct comm_range *range = step->range;
    const struct circle *host = &peers->host, *across = &peers->across;
    const int rank = peers->comm->rank, size = peers->comm->size;
    const size_t row = (size_t)step->max_count * dtype_size(range->wire);
    const bool converts = range->wire != range->dtype;
    for (int r = 0; converts && r < size; r++) {
        if (r != rank) {
            copy_numbers(gpu, in_transit(step, peers->sent, r), in_buffer(step, r));
        }
    }
    // This rank's numbers of an owner's part, then those of its host.
    const auto given = [&](int owner) {
        return converts ? in_transit(step, peers->sent, owner) : in_buffer(step, owner);
    };
    // Ranks of the host: the parts of the owners that have the receiver's number on each host.
    exchange(
        gpu, host, across->size, [&](int r, int m) { return given(rank_at(across, m) - rank + r); },
        [&](int r, int m) {
            const int place = m * host->size + r - host->first;
            return mat_of(peers->received + (size_t)place * row, 1,
                          count_of(step, rank_at(across, m)), range->wire);
        });
    for (int m = 0; m < across->size; m++) {
        const int owner = rank_at(across, m);
        add_rows(gpu, owner == rank ? in_buffer(step, rank) : given(owner),
                 peers->received + (size_t)(m * host->size) * row, host->size, step, host->own);
    }
    // Hosts: the sums.
    exchange(
        gpu, across, 1, [&](int r, int) { return given(r); },
        [&](int r, int) {
            return mat_of(peers->received + (size_t)(r / host->size) * row, 1, count_of(step, rank),
                          range->wire);
        });
    add_rows(gpu, in_buffer(step, rank), peers->received, across->size, step, across->own);
}

static void gather_step(struct gpu *gpu, const struct step *step) {
    struct gpu_peers *peers = gpu->peers;
    const struct circle *across = &peers->across;
    const int rank = peers->comm->rank, size = peers->comm->size;
    const bool converts = step->range->wire != step->range->dtype;
    const auto part_of = [&](int owner) {
        return converts ? in_transit(step, peers->received, owner) : in_buffer(step, owner);
    };
    if (converts) {
        copy_numbers(gpu, part_of(rank), in_buffer(step, rank));
    }
    exchange(
        gpu, across, 1, [&](int, int) { return part_of(rank); },
        [&](int r, int) { return part_of(r); });
    exchange(
        gpu, &peers->host, across->size, [&](int, int m) { return part_of(rank_at(across, m)); },
        [&](int r, int m) { return part_of(rank_at(across, m) - rank + r); });
    for (int r = 0; converts && r < size; r++) {
        copy_numbers(gpu, in_buffer(step, r), part_of(r));
    }
}

// The library's parts have one size, so shorter ones end with numbers that nobody uses.
static void native_reduce_step(struct gpu *gpu, const struct step *step) {
    struct gpu_peers *peers = gpu->peers;
    const enum dtype wire = step->range->wire;
    const int rank = peers->comm->rank;
    for (int r = 0; r < peers->comm->size; r++) {
        copy_numbers(gpu, in_transit(step, peers->sent, r), in_buffer(step, r));
    }
    if (may_exchange(gpu)) {
        wait_for_call(gpu, NCCL(ReduceScatter)(peers->sent, peers->received,
                                               (size_t)step->max_count, type_of(wire), NCCL(SUM),
                                               peers->library, gpu_native(peers->stream)));
    }
    copy_numbers(gpu, in_buffer(step, rank),
                 mat_of(peers->received, 1, count_of(step, rank), wire));
}

static void native_gather_step(struct gpu *gpu, const struct step *step) {
    struct gpu_peers *peers = gpu->peers;
    const struct mat own = in_transit(step, peers->received, peers->comm->rank);
    copy_numbers(gpu, own, in_buffer(step, peers->comm->rank));
    if (may_exchange(gpu)) {
        wait_for_call(gpu, NCCL(AllGather)(own.data, peers->received, (size_t)step->max_count,
                                           type_of(own.dtype), peers->library,
                                           gpu_native(peers->stream)));
    }
    for (int r = 0; r < peers->comm->size; r++) {
        copy_numbers(gpu, in_buffer(step, r), in_transit(step, peers->received, r));
    }
}

static int64_t largest_part(const struct comm_range *range, int64_t size) {
    int64_t longest = 0;
    for (int64_t r = 0; r < size; r++) {
        const int64_t part = range->starts[r + 1] - range->starts[r];
        longest = part > longest ? part : longest;
    }
    return longest;
}

// All ranks compute the same steps.
static int64_t begin_exchange(struct gpu *gpu, const struct comm_range *range,
                              void (*run)(struct gpu *, const struct step *)) {
    struct gpu_peers *peers = gpu->peers;
    const int64_t size = peers->comm->size;
    const int64_t room = (int64_t)(HALF_BYTES / sizeof(float)) / size;
    const int64_t bucket = range->bucket > 0 ? (range->bucket + size - 1) / size : room;
    const int64_t max_count = bucket < room ? bucket : room;
    const int64_t exchange = ++peers->count, parts = largest_part(range, size);
    gpu_fail(gpu, "exchange", gpu_event_record(&peers->computed, gpu->stream));
    gpu_fail(gpu, "exchange", gpu_stream_wait(peers->stream, &peers->computed));
    for (int64_t from = 0; from < parts && gpu->status == BERTH_OK; from += max_count) {
        const struct step step = {range, from, parts - from < max_count ? parts - from : max_count};
        run(gpu, &step);
    }
    gpu_fail(gpu, "exchange",
             gpu_event_record(&peers->exchanged[exchange % EXCHANGE_EVENTS], peers->stream));
    return exchange;
}

int64_t gpu_peers_gather(struct device *dev, const struct comm_range *range) {
    return begin_exchange(gpu_of(dev), range, range->native ? native_gather_step : gather_step);
}

int64_t gpu_peers_reduce(struct device *dev, const struct comm_range *range) {
    const int64_t reduced =
        begin_exchange(gpu_of(dev), range, range->native ? native_reduce_step : reduce_step);
    return range->to_all ? gpu_peers_gather(dev, range) : reduced;
}

// The event may already belong to a later exchange; waiting for that is correct, too.
void gpu_peers_wait(struct device *dev, int64_t ticket) {
    struct gpu *gpu = gpu_of(dev);
    gpu_fail(gpu, "exchange",
             gpu_stream_wait(gpu->stream, &gpu->peers->exchanged[ticket % EXCHANGE_EVENTS]));
}
