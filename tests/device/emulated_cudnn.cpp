// SPDX-License-Identifier: Apache-2.0
// A substitute for cuDNN on the emulated GPU, as far as attention_cudnn.cu uses it: attention by
// loops in the emulation's stream. The real library needs a GPU. Its header is not included, so
// that its declarations are checked independently. What the library would reject is rejected;
// misuse that it would not notice ends the process.
//
// The heuristic returns three configurations, as it may on a GPU: one that cannot be computed, one
// that needs more workspace than is offered, and a good one. The numbers of plans made and executed
// are written to BERTH_TEST_CUDNN_COUNTS=FILE. BERTH_TEST_CUDNN_FAILS=create, plan or execute makes
// that call fail.
#include "emulation/emulation_stream.h"
#include "device/gpu/kernel.h"

#include <map>
#include <math.h>
#include <memory>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

#define EXPORTED extern "C" __attribute__((visibility("default")))

enum { OK = 0, BAD_PARAM = 2000, NOT_SUPPORTED = 3000, EXECUTION_FAILED = 5000 };
enum { IS_FLOAT = 0, IS_HALF = 2, IS_INT32 = 4, IS_BF16 = 9, IS_INT64 = 10 };
enum { CONFIG = 3, HEURISTIC = 4, PLAN = 5, GRAPH = 15, PACK = 16, TENSOR = 17, ATTENTION = 41 };
enum { HEURISTIC_MODE = 200, HEURISTIC_GRAPH, HEURISTIC_RESULTS };
enum { PLAN_CONFIG = 401, PLAN_WORKSPACE = 402, GRAPH_HANDLE = 800, GRAPH_OPERATIONS = 801 };
enum { ALIGNMENT = 900, TYPE, SIZES, STRIDES, ID = 906, BY_VALUE = 908, OFFSETS = 913 };
enum { PACK_IDS = 1000, PACK_POINTERS = 1001, PACK_WORKSPACE = 1003 };
enum { Q = 2800, K, V, O, SCALE = 2805, Q_LENGTHS = 2809, KV_LENGTHS = 2810 };
enum { CHOICES = 3, RIGHT_CHOICE = 2, WORKSPACE = 4096 };

// The bytes of an element by the type of an attribute; 0: a type that attention does not need.
static size_t element_bytes(int type) {
    switch (type) {
    case 1: // type of data
    case 8: // mode of heuristics
        return 4;
    case 2: // boolean
        return 1;
    case 0:  // handle
    case 3:  // int64
    case 6:  // pointer
    case 15: // descriptor
        return 8;
    default:
        return 0;
    }
}

static void require(bool holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "cuDNN of the tests: %s\n", what);
        abort();
    }
}

// A tensor of the operation; filled in when the operation is finalized.
struct view {
    int64_t id, type, sizes[4], strides[4], offsets; // id of the offsets; 0: none
};

struct attention {
    view q, k, v, o, scale, q_lengths, kv_lengths;
    std::map<int64_t, view> offsets; // by id
};

struct descriptor {
    int type = -1;
    bool is_final = false;
    std::map<int, std::vector<uint8_t>> attributes;
    std::map<int, int64_t> counts;
    std::shared_ptr<const struct attention> operation; // from the operation on to the plan
    int choice = -1;

    template <class T> T get(int name) const {
        const auto found = attributes.find(name);
        require(found != attributes.end() && found->second.size() >= sizeof(T),
                "an attribute is not set");
        T value;
        memcpy(&value, found->second.data(), sizeof value);
        return value;
    }
    bool has(int name) const {
        return attributes.count(name) != 0;
    }
};

static int open_libraries, descriptors, plans, executions;
static struct emulated_stream *stream_of_library;

static bool fails(const char *call) {
    const char *wanted = getenv("BERTH_TEST_CUDNN_FAILS");
    return wanted != NULL && strcmp(wanted, call) == 0;
}

// --- the library --------------------------------------------------------------------------------

EXPORTED size_t cudnnGetVersion(void) {
    const char *own = getenv("BERTH_TEST_CUDNN_VERSION");
    return own != NULL ? (size_t)atoi(own) : 91900;
}

EXPORTED const char *cudnnGetErrorString(int status) {
    return status == BAD_PARAM ? "BAD_PARAM" : status == NOT_SUPPORTED ? "NOT_SUPPORTED" : "FAILED";
}

EXPORTED void cudnnGetLastErrorString(char *text, size_t room) {
    snprintf(text, room, "the tests want it");
}

EXPORTED int cudnnCreate(void **library) {
    if (fails("create")) {
        return EXECUTION_FAILED;
    }
    *library = &open_libraries;
    open_libraries++;
    return OK;
}

static void write_counts(void) {
    const char *name = getenv("BERTH_TEST_CUDNN_COUNTS");
    FILE *file = name != NULL ? fopen(name, "w") : NULL;
    if (file != NULL) {
        fprintf(file, "plans %d executions %d\n", plans, executions);
        fclose(file);
    }
}

EXPORTED int cudnnDestroy(void *library) {
    require(library == &open_libraries && --open_libraries >= 0, "closed more often than opened");
    require(open_libraries > 0 || descriptors == 0, "closed before its descriptors are");
    write_counts();
    return OK;
}

EXPORTED int cudnnSetStream(void *library, struct emulated_stream *stream) {
    stream_of_library = stream;
    return library == &open_libraries ? OK : BAD_PARAM;
}

// --- descriptors --------------------------------------------------------------------------------

EXPORTED int cudnnBackendCreateDescriptor(int type, struct descriptor **made) {
    *made = new descriptor();
    (*made)->type = type;
    descriptors++;
    return OK;
}

EXPORTED int cudnnBackendDestroyDescriptor(struct descriptor *descriptor) {
    require(descriptor != NULL, "no descriptor is destroyed");
    delete descriptor;
    descriptors--;
    return OK;
}

EXPORTED int cudnnBackendSetAttribute(struct descriptor *to, int name, int type, int64_t count,
                                      const void *values) {
    const size_t bytes = element_bytes(type) * (size_t)count;
    require(!to->is_final, "an attribute of a final descriptor");
    require(bytes > 0, "an attribute of an unknown type");
    to->attributes[name].assign((const uint8_t *)values, (const uint8_t *)values + bytes);
    to->counts[name] = count;
    return OK;
}

static const struct descriptor *part_of(const struct descriptor *whole, int name, int type) {
    const struct descriptor *part = whole->get<const struct descriptor *>(name);
    require(part->type == type && part->is_final, "a part is not final or of another type");
    return part;
}

static view view_of(const struct descriptor *tensor) {
    view made = {tensor->get<int64_t>(ID), tensor->get<int>(TYPE), {}, {}, 0};
    require(tensor->counts.at(SIZES) == 4 && tensor->counts.at(STRIDES) == 4, "not 4 dimensions");
    memcpy(made.sizes, tensor->attributes.at(SIZES).data(), sizeof made.sizes);
    memcpy(made.strides, tensor->attributes.at(STRIDES).data(), sizeof made.strides);
    if (tensor->has(OFFSETS)) {
        made.offsets = part_of(tensor, OFFSETS, TENSOR)->get<int64_t>(ID);
    }
    return made;
}

static int finish_tensor(const struct descriptor *tensor) {
    const view own = view_of(tensor);
    require(tensor->get<int64_t>(ALIGNMENT) == 16, "another alignment than that of vectors");
    if (!tensor->has(OFFSETS)) {
        return OK;
    }
    const view offsets = view_of(part_of(tensor, OFFSETS, TENSOR));
    const bool fit = offsets.sizes[0] == own.sizes[0] + 1 && offsets.sizes[1] == 1 &&
                     offsets.sizes[2] == 1 && offsets.sizes[3] == 1 && offsets.type == IS_INT64;
    return fit ? OK : BAD_PARAM;
}

static bool is_vector(const view &v, int64_t count, int type) {
    return v.sizes[0] == count && v.sizes[1] * v.sizes[2] * v.sizes[3] == 1 && v.type == type;
}

static int finish_attention(struct descriptor *operation) {
    const auto at = [=](int name) { return view_of(part_of(operation, name, TENSOR)); };
    auto made = std::make_shared<attention>(
        attention{at(Q), at(K), at(V), at(O), at(SCALE), at(Q_LENGTHS), at(KV_LENGTHS), {}});
    require(part_of(operation, SCALE, TENSOR)->get<bool>(BY_VALUE), "the scale is no value");
    for (int name : {Q, K, V, O}) {
        const struct descriptor *tensor = part_of(operation, name, TENSOR);
        const view own = view_of(tensor);
        require(own.offsets != 0 && !tensor->get<bool>(BY_VALUE), "packed rows without offsets");
        if (memcmp(own.sizes, made->q.sizes, sizeof own.sizes) != 0 || own.type != made->q.type) {
            return BAD_PARAM;
        }
        made->offsets[own.offsets] = view_of(part_of(tensor, OFFSETS, TENSOR));
    }
    const int64_t sequences = made->q.sizes[0];
    require(is_vector(made->q_lengths, sequences, IS_INT32) &&
                is_vector(made->kv_lengths, sequences, IS_INT32) &&
                is_vector(made->scale, 1, IS_FLOAT),
            "lengths or a scale of another shape");
    operation->operation = made;
    return made->q.type == IS_HALF || made->q.type == IS_BF16 ? OK : NOT_SUPPORTED;
}

static int finish_graph(struct descriptor *graph) {
    require(graph->get<void *>(GRAPH_HANDLE) == &open_libraries, "a graph of another library");
    require(graph->counts.at(GRAPH_OPERATIONS) == 1, "more than one operation");
    graph->operation = part_of(graph, GRAPH_OPERATIONS, ATTENTION)->operation;
    return OK;
}

static int finish_heuristic(struct descriptor *heuristic) {
    require(heuristic->get<int>(HEURISTIC_MODE) == 3, "another mode of heuristics");
    heuristic->operation = part_of(heuristic, HEURISTIC_GRAPH, GRAPH)->operation;
    return OK;
}

static int finish_plan(struct descriptor *plan) {
    const struct descriptor *config = part_of(plan, PLAN_CONFIG, CONFIG);
    plan->operation = config->operation;
    plan->choice = config->choice;
    plans += plan->choice == RIGHT_CHOICE;
    return plan->choice == 0 || fails("plan") ? (int)NOT_SUPPORTED : (int)OK;
}

static int finish_pack(const struct descriptor *pack) {
    require(pack->counts.at(PACK_IDS) == pack->counts.at(PACK_POINTERS), "ids without pointers");
    require(pack->get<void *>(PACK_WORKSPACE) != NULL, "no workspace");
    return OK;
}

static int finish(struct descriptor *descriptor) {
    switch (descriptor->type) {
    case TENSOR:
        return finish_tensor(descriptor);
    case ATTENTION:
        return finish_attention(descriptor);
    case GRAPH:
        return finish_graph(descriptor);
    case HEURISTIC:
        return finish_heuristic(descriptor);
    case PLAN:
        return finish_plan(descriptor);
    case PACK:
        return finish_pack(descriptor);
    default:
        return BAD_PARAM;
    }
}

EXPORTED int cudnnBackendFinalize(struct descriptor *descriptor) {
    const int status = finish(descriptor);
    descriptor->is_final = status == OK;
    return status;
}

static int get_choices(const struct descriptor *heuristic, int64_t room, int64_t *count,
                       struct descriptor **choices) {
    *count = room < CHOICES ? room : (int64_t)CHOICES;
    for (int64_t i = 0; i < *count; i++) {
        require(choices[i]->type == CONFIG, "choices of another type");
        choices[i]->operation = heuristic->operation;
        choices[i]->choice = (int)i;
        choices[i]->is_final = true;
    }
    return OK;
}

EXPORTED int cudnnBackendGetAttribute(struct descriptor *of, int name, int type, int64_t room,
                                      int64_t *count, void *values) {
    require(of->is_final, "an attribute of a descriptor that is not final");
    if (of->type == HEURISTIC && name == HEURISTIC_RESULTS && type == 15) {
        return get_choices(of, room, count, (struct descriptor **)values);
    }
    require(of->type == PLAN && name == PLAN_WORKSPACE && type == 3 && room == 1,
            "an unknown attribute");
    *(int64_t *)values = of->choice == RIGHT_CHOICE ? (int64_t)WORKSPACE : INT64_MAX;
    *count = 1;
    return OK;
}

// --- attention ----------------------------------------------------------------------------------

struct call {
    std::shared_ptr<const struct attention> operation;
    std::map<int64_t, void *> pointers;
    uint8_t *workspace;
    float scale;

    // The rows of a head of a sequence.
    struct mat rows(const view &v, int64_t sequence, int64_t head) const {
        const int64_t *offsets = (const int64_t *)pointers.at(v.offsets);
        const int64_t first = offsets[sequence] + head * v.strides[1];
        require(offsets[sequence] <= offsets[sequence + 1], "offsets that go back");
        require(v.strides[3] == 1, "columns that are no neighbours");
        uint16_t *data = (uint16_t *)pointers.at(v.id) + first;
        return {data, v.sizes[2], v.sizes[3], v.strides[2],
                v.type == IS_BF16 ? DTYPE_BF16 : DTYPE_F16};
    }
    int64_t length(const view &v, int64_t sequence) const {
        const int64_t own = ((const int32_t *)pointers.at(v.id))[sequence];
        require(own >= 0 && own <= operation->q.sizes[2], "a sequence longer than the plan's");
        return own;
    }
};

static float dot(const struct mat &x, int64_t i, const struct mat &y, int64_t j) {
    float sum = 0;
    for (int64_t c = 0; c < x.cols; c++) {
        sum += number_at(x, i, c) * number_at(y, j, c);
    }
    return sum;
}

static void attend(const struct call &call, int64_t sequence, int64_t head) {
    const attention &a = *call.operation;
    const struct mat q = call.rows(a.q, sequence, head), k = call.rows(a.k, sequence, head);
    const struct mat v = call.rows(a.v, sequence, head), o = call.rows(a.o, sequence, head);
    const int64_t keys = call.length(a.kv_lengths, sequence);
    std::vector<float> p((size_t)keys);
    for (int64_t i = 0; i < call.length(a.q_lengths, sequence); i++) {
        float most = -INFINITY, sum = 0;
        for (int64_t j = 0; j < keys; j++) {
            p[(size_t)j] = call.scale * dot(q, i, k, j);
            most = fmaxf(most, p[(size_t)j]);
        }
        for (float &x : p) {
            x = expf(x - most);
            sum += x;
        }
        for (int64_t c = 0; c < o.cols; c++) {
            float out = 0;
            for (int64_t j = 0; j < keys; j++) {
                out += p[(size_t)j] * number_at(v, j, c);
            }
            set_number(o, i, c, out / sum);
        }
    }
}

static void run(const struct call &call) {
    memset(call.workspace, 0xA5, WORKSPACE);
    for (int64_t s = 0; s < call.operation->q.sizes[0]; s++) {
        for (int64_t h = 0; h < call.operation->q.sizes[1]; h++) {
            attend(call, s, h);
        }
    }
}

EXPORTED int cudnnBackendExecute(void *library, struct descriptor *plan, struct descriptor *pack) {
    require(library == &open_libraries && stream_of_library != NULL, "no stream");
    require(plan->is_final && plan->choice == RIGHT_CHOICE && pack->is_final,
            "what is not final is executed, or another choice");
    if (fails("execute")) {
        return EXECUTION_FAILED;
    }
    struct call call = {plan->operation, {}, pack->get<uint8_t *>(PACK_WORKSPACE), 0};
    const int64_t *ids = (const int64_t *)pack->attributes.at(PACK_IDS).data();
    void *const *pointers = (void *const *)pack->attributes.at(PACK_POINTERS).data();
    for (int64_t i = 0; i < pack->counts.at(PACK_IDS); i++) {
        require((uintptr_t)pointers[i] % (ids[i] == plan->operation->scale.id ? 4 : 16) == 0,
                "an address that is no vector's");
        call.pointers[ids[i]] = pointers[i];
    }
    call.scale = *(const float *)call.pointers.at(plan->operation->scale.id);
    executions++;
    emulated_stream_add(stream_of_library, {[=](int) { run(call); }});
    return OK;
}
