// SPDX-License-Identifier: Apache-2.0
// A substitute for NCCL on emulated GPUs, as far as peers.cu uses it: messages between processes
// through shared memory, in the emulation's streams, which continue while a message waits. Its
// reductions add in the order of a ring and round each sum to the type, unlike Berth's. The real
// library needs GPUs. Its header is not included, so that our declarations are checked
// independently. A message of another size or type than its receiver expects, which in NCCL would
// hang or go unnoticed, ends the process.
//
// BERTH_TEST_NCCL=FAULT:RANK makes one rank fail: `old` (its version is too old), `refused` (it
// gets no communicator; with -1 no rank does), `alone` (it never joins), `silent` (its tenth group
// makes no progress), `broken` (its tenth group has an error), `stopped` (the process stops at its
// tenth group). BERTH_TEST_NCCL_SENT=PREFIX: writes to PREFIX and the rank's number how many bytes
// went to each rank.
#include "emulation/emulation_stream.h"

#include <atomic>
#include <fcntl.h>
#include <functional>
#include <memory>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#define EXPORTED extern "C" __attribute__((visibility("default")))

enum { OK, SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4, INVALID_USAGE, REMOTE_ERROR, IN_PROGRESS };
enum { RING_BYTES = 1 << 14, FAULTY_GROUP = 10, VERSION = 22707 };

// The bytes from one rank to another: messages, each preceded by a greeting.
struct ring {
    std::atomic<uint64_t> written, read;
    unsigned char bytes[RING_BYTES];
};

struct greeting {
    uint64_t count;
    int32_t type;
};

struct shared {
    std::atomic<int> joined;
    struct ring rings[]; // [to][from]
};

struct id {
    char bytes[128];
};

struct settings {
    size_t size;
    unsigned magic, version;
    int blocking;
};

static void unlink_name(const struct id &id);

struct comm {
    struct id id;
    struct shared *shared;
    size_t bytes;
    int rank, size, groups;
    std::atomic<bool> ended;
    std::vector<uint64_t> sent; // bytes, to each rank
    void report() const {
        const char *prefix = getenv("BERTH_TEST_NCCL_SENT");
        FILE *file = prefix != NULL ? fopen((prefix + std::to_string(rank)).c_str(), "w") : NULL;
        for (uint64_t each : sent) {
            if (file != NULL) {
                fprintf(file, "%llu\n", (unsigned long long)each);
            }
        }
        if (file != NULL) {
            fclose(file);
        }
    }
    ~comm() {
        report();
        munmap(shared, bytes);
        unlink_name(id); // the name still exists if not all ranks joined
    }
};

// What the caller holds.
struct handle {
    std::shared_ptr<struct comm> comm;
};

struct message {
    bool is_sent;
    unsigned char *data;
    struct greeting greeting;
    struct ring *ring;
    uint64_t done; // bytes, of greeting and data
};

static bool has_fault(const char *name, int rank) {
    char own[32];
    const char *asked = getenv("BERTH_TEST_NCCL");
    snprintf(own, sizeof own, "%s:%d", name, rank);
    return asked != NULL && strcmp(asked, own) == 0;
}

// The rank before there is a communicator.
static int launched_rank(void) {
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    rank = rank != NULL ? rank : getenv("PMI_RANK");
    return rank != NULL ? atoi(rank) : 0;
}

static void require(bool holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "NCCL of the tests: %s\n", what);
        abort();
    }
}

EXPORTED int ncclGetVersion(int *version) {
    *version = has_fault("old", launched_rank()) ? 21399 : VERSION;
    return OK;
}

EXPORTED const char *ncclGetErrorString(int result) {
    return result == REMOTE_ERROR ? "remote process exited or there was a network error"
                                  : "unhandled system error";
}

// --- communicators ------------------------------------------------------------------------------

EXPORTED int ncclGetUniqueId(struct id *id) {
    memset(id, 0, sizeof *id);
    FILE *random = fopen("/dev/urandom", "rb");
    const bool done = random != NULL && fread(id->bytes, 16, 1, random) == 1;
    if (random != NULL) {
        fclose(random);
    }
    return done ? OK : SYSTEM_ERROR;
}

static void name_of(const struct id &id, char name[64]) {
    char *end = name + sprintf(name, "/berth-nccl-");
    for (int i = 0; i < 16; i++) {
        end += sprintf(end, "%02x", (unsigned char)id.bytes[i]);
    }
}

static void unlink_name(const struct id &id) {
    char name[64];
    name_of(id, name);
    shm_unlink(name);
}

static struct shared *share(const struct id &id, size_t bytes) {
    char name[64];
    name_of(id, name);
    const int file = shm_open(name, O_RDWR | O_CREAT, 0600);
    void *memory = MAP_FAILED;
    if (file >= 0 && ftruncate(file, (off_t)bytes) == 0) {
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    }
    close(file);
    return memory == MAP_FAILED ? NULL : (struct shared *)memory;
}

EXPORTED int ncclCommInitRankConfig(struct handle **made, int size, struct id id, int rank,
                                    const struct settings *settings) {
    require(settings->magic == 0xcafebeef && settings->version == 21400 && settings->blocking == 0,
            "settings of another version, or calls that block");
    if (rank < 0 || rank >= size) {
        return INVALID_ARGUMENT;
    }
    if (has_fault("refused", rank) || has_fault("refused", -1)) {
        return SYSTEM_ERROR;
    }
    const size_t bytes = sizeof(struct shared) + (size_t)(size * size) * sizeof(struct ring);
    struct shared *memory = share(id, bytes);
    if (memory == NULL) {
        return SYSTEM_ERROR;
    }
    *made = new handle{std::shared_ptr<comm>(
        new comm{id, memory, bytes, rank, size, 0, {false}, std::vector<uint64_t>((size_t)size)})};
    if (!has_fault("alone", rank) && memory->joined.fetch_add(1) + 1 == size) {
        unlink_name(id); // all have it
    }
    return IN_PROGRESS;
}

EXPORTED int ncclCommGetAsyncError(struct handle *handle, int *result) {
    const struct comm &comm = *handle->comm;
    *result = comm.shared->joined < comm.size                                 ? IN_PROGRESS
              : comm.groups >= FAULTY_GROUP && has_fault("broken", comm.rank) ? REMOTE_ERROR
                                                                              : OK;
    return OK;
}

EXPORTED int ncclCommAbort(struct handle *handle) {
    handle->comm->ended = true;
    delete handle;
    return OK;
}

EXPORTED int ncclCommDestroy(struct handle *handle) {
    require(handle->comm.use_count() == 1, "closed while messages are under way");
    return ncclCommAbort(handle);
}

// --- messages -----------------------------------------------------------------------------------

static bool is_in_group;
static std::vector<struct message> group;
static struct handle *group_comm;
static struct emulated_stream *group_stream;

static uint64_t bytes_of(const struct greeting &greeting) {
    require(greeting.type == 6 || greeting.type == 7 || greeting.type == 9,
            "a type that is not f16, f32 or bf16");
    return greeting.count * (greeting.type == 7 ? 4 : 2);
}

// Copies bytes of a message to or from the ring.
static void copy(struct ring *ring, bool to_ring, unsigned char *data, uint64_t bytes) {
    std::atomic<uint64_t> &own = to_ring ? ring->written : ring->read;
    const uint64_t offset = own;
    for (uint64_t i = 0; i < bytes; i++) {
        unsigned char *byte = &ring->bytes[(offset + i) % RING_BYTES];
        *(to_ring ? byte : &data[i]) = *(to_ring ? &data[i] : byte);
    }
    own = offset + bytes;
}

static uint64_t available(const struct ring *ring, bool to_ring) {
    const uint64_t held = ring->written - ring->read;
    return to_ring ? RING_BYTES - held : held;
}

// Moves what is possible now of a message; true: it is complete.
static bool advance(struct message *message) {
    const uint64_t first = sizeof message->greeting, all = first + bytes_of(message->greeting);
    if (message->done == 0) {
        struct greeting other = message->greeting;
        if (available(message->ring, message->is_sent) < first) {
            return false;
        }
        copy(message->ring, message->is_sent, (unsigned char *)&other, first);
        require(other.count == message->greeting.count && other.type == message->greeting.type,
                "a message of another size or type than is received");
        message->done = first;
    }
    const uint64_t left = all - message->done, room = available(message->ring, message->is_sent);
    const uint64_t bytes = left < room ? left : room;
    copy(message->ring, message->is_sent, message->data + message->done - first, bytes);
    message->done += bytes;
    return message->done == all;
}

static struct message message_of(const struct comm &comm, bool is_sent, void *data, uint64_t count,
                                 int type, int peer) {
    const int to = is_sent ? peer : comm.rank, from = is_sent ? comm.rank : peer;
    struct greeting greeting;
    memset(&greeting, 0, sizeof greeting);
    greeting.count = count;
    greeting.type = type;
    return {is_sent, (unsigned char *)data, greeting, &comm.shared->rings[to * comm.size + from],
            0};
}

static int add(bool is_sent, void *data, uint64_t count, int type, int peer, struct handle *handle,
               struct emulated_stream *stream) {
    struct comm &comm = *handle->comm;
    if (peer < 0 || peer >= comm.size || peer == comm.rank) {
        return INVALID_ARGUMENT;
    }
    require(is_in_group && count > 0, "a message alone, or an empty one");
    require(group.empty() || (group_comm == handle && group_stream == stream), "two streams");
    group.push_back(message_of(comm, is_sent, data, count, type, peer));
    comm.sent[(size_t)peer] += is_sent ? bytes_of({count, type}) : 0;
    group_comm = handle;
    group_stream = stream;
    return OK;
}

EXPORTED int ncclSend(const void *data, size_t count, int type, int peer, struct handle *handle,
                      struct emulated_stream *stream) {
    return add(true, (void *)data, count, type, peer, handle, stream);
}

EXPORTED int ncclRecv(void *data, size_t count, int type, int peer, struct handle *handle,
                      struct emulated_stream *stream) {
    return add(false, data, count, type, peer, handle, stream);
}

EXPORTED int ncclGroupStart(void) {
    require(!is_in_group, "a group in a group");
    is_in_group = true;
    group.clear();
    return OK;
}

// Messages from one rank to another pass one after the other.
static bool is_next(const std::vector<struct message> &messages, const struct message &message) {
    for (const struct message &each : messages) {
        if (each.ring == message.ring) {
            if (&each == &message) {
                return true;
            }
            if (each.done < sizeof(struct greeting) + bytes_of(each.greeting)) {
                return false;
            }
        }
    }
    return true;
}

// Exchanges the messages in the stream, then calls `complete`.
static int begin(const std::shared_ptr<struct comm> &comm, struct emulated_stream *stream,
                 const std::vector<struct message> &begun, const std::function<void()> &complete) {
    const std::shared_ptr<std::vector<struct message>> messages(
        new std::vector<struct message>(begun));
    const bool is_silent = ++comm->groups == FAULTY_GROUP && has_fault("silent", comm->rank);
    if (comm->groups == FAULTY_GROUP && has_fault("stopped", comm->rank)) {
        raise(SIGSTOP);
    }
    emulated_stream_add(stream, {[](int) {},
                                 [=] {
                                     bool all = !is_silent;
                                     for (struct message &each : *messages) {
                                         all = !is_silent && !comm->ended &&
                                               is_next(*messages, each) && advance(&each) && all;
                                     }
                                     if (all && !comm->ended) {
                                         complete();
                                     }
                                     return all || comm->ended;
                                 }});
    return IN_PROGRESS;
}

EXPORTED int ncclGroupEnd(void) {
    require(is_in_group, "the end of no group");
    is_in_group = false;
    return group.empty() ? OK : begin(group_comm->comm, group_stream, group, [] {});
}

// --- collectives --------------------------------------------------------------------------------

static uint64_t size_of(int type) {
    return bytes_of({1, type});
}

static float read_number(const unsigned char *from, int type) {
    uint32_t bits = 0;
    memcpy(&bits, from, size_of(type));
    if (type == 6) {
        _Float16 half;
        memcpy(&half, from, sizeof half);
        return (float)half;
    }
    bits = type == 9 ? bits << 16 : bits;
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

// bf16 is rounded to nearest, ties to even; there are no NaNs among the numbers that are used.
static void write_number(unsigned char *to, int type, float number) {
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    if (type == 6) {
        const _Float16 half = (_Float16)number;
        memcpy(to, &half, sizeof half);
        return;
    }
    bits = type == 9 ? (bits + 0x7fff + (bits >> 16 & 1)) >> 16 : bits;
    memcpy(to, &bits, size_of(type));
}

// Messages of `bytes` to and from every other rank r, at sent + r * step and received + r * bytes.
static std::vector<struct message> to_and_from_all(const struct comm &comm, unsigned char *sent,
                                                   uint64_t step, unsigned char *received,
                                                   uint64_t count, int type) {
    std::vector<struct message> messages;
    require(!is_in_group && count > 0, "a collective in a group, or of nothing");
    for (int r = 0; r < comm.size; r++) {
        if (r != comm.rank) {
            messages.push_back(message_of(comm, true, sent + r * step, count, type, r));
            messages.push_back(
                message_of(comm, false, received + r * count * size_of(type), count, type, r));
        }
    }
    return messages;
}

EXPORTED int ncclAllGather(const void *from, void *to, size_t count, int type,
                           struct handle *handle, struct emulated_stream *stream) {
    const struct comm &comm = *handle->comm;
    unsigned char *own = (unsigned char *)to + comm.rank * count * size_of(type);
    require(from == own, "not in place");
    return begin(handle->comm, stream,
                 to_and_from_all(comm, own, 0, (unsigned char *)to, count, type), [] {});
}

EXPORTED int ncclReduceScatter(const void *from, void *to, size_t count, int type, int operation,
                               struct handle *handle, struct emulated_stream *stream) {
    const std::shared_ptr<struct comm> comm = handle->comm;
    const uint64_t size = size_of(type), part = count * size;
    unsigned char *sent = (unsigned char *)from, *sums = (unsigned char *)to;
    require(operation == 0, "not a sum");
    const std::shared_ptr<std::vector<unsigned char>> parts(
        new std::vector<unsigned char>((size_t)comm->size * part));
    return begin(comm, stream, to_and_from_all(*comm, sent, part, parts->data(), count, type), [=] {
        memcpy(parts->data() + comm->rank * part, sent + comm->rank * part, part);
        for (uint64_t i = 0; i < part; i += size) {
            memcpy(sums + i, parts->data() + (comm->rank + 1) % comm->size * part + i, size);
            for (int k = 2; k <= comm->size; k++) {
                const int r = (comm->rank + k) % comm->size;
                write_number(sums + i, type,
                             read_number(sums + i, type) +
                                 read_number(parts->data() + r * part + i, type));
            }
        }
    });
}
