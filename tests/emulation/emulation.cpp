// SPDX-License-Identifier: Apache-2.0
// Runs the blocks of a kernel as fibers; see emulation.h.
#include "emulation/emulation.h"

#include "device/gpu/gpu_api.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

enum {
    MAX_THREADS = 1024,
    MAX_VARIABLES = 16,
    MAX_COPIES = 64,
    MAX_PRODUCTS = 64,
    STACK_BYTES = 256 * 1024
};
enum fiber_state { FIBER_READY, FIBER_AT_BARRIER, FIBER_IN_WARP, FIBER_DONE };
enum order { ORDER_FORWARD, ORDER_REVERSE, ORDER_RANDOM };

#if defined(__x86_64__)
typedef void *context;
#else
typedef ucontext_t context;
#endif

// A copy to shared memory that was started; from NULL: it writes zeros.
struct copy {
    unsigned char *to;
    const void *from;
    size_t bytes;
};

// What a lane contributes to an operation of its warp.
struct lane_value {
    uint64_t word[3];
};

struct fiber {
    context saved;
    char *stack;
    void *sanitizer; // the sanitizer's fake stack
    enum fiber_state state;
    struct emulated_site site; // where it waits
    uint64_t mask;             // the lanes that it waits for
    int lane, warp;
    unsigned phase; // count of its warp's operations so far
    struct emulated_index index;
    struct copy copies[MAX_COPIES];
    int copy_count;
    struct emulated_product products[MAX_PRODUCTS];
    int product_count;
};

struct variable {
    const void *name;
    unsigned char *memory;
};

// One block, on one thread of the host.
struct emulator {
    const struct emulated_launch *launch;
    enum order order;
    uint64_t random;
    context scheduler;
    void *sanitizer;
    const void *scheduler_stack;
    size_t scheduler_stack_bytes;
    char *stacks;
    struct fiber *fibers, *current;
    int count; // threads of the block
    // The values that the lanes of a warp exchange, in even and odd operations.
    struct lane_value (*slots)[2][GPU_WARP];
    unsigned char *shared;
    size_t shared_used;
    struct variable variables[MAX_VARIABLES];
    int variable_count;
};

static thread_local struct emulator emulator;

// --- switching ----------------------------------------------------------------------------------

static void fiber_main(void);

#if defined(__x86_64__)
// Saves the callee-saved registers and the stack pointer, and continues where `to` was saved.
extern "C" void berth_fiber_switch(context *from, context to);
__asm__(".text\n"
        ".hidden berth_fiber_switch\n"
        ".globl berth_fiber_switch\n"
        ".type berth_fiber_switch, @function\n"
        "berth_fiber_switch:\n"
        "    endbr64\n"
        "    push %rbp\n"
        "    push %rbx\n"
        "    push %r12\n"
        "    push %r13\n"
        "    push %r14\n"
        "    push %r15\n"
        "    mov %rsp, (%rdi)\n"
        "    mov %rsi, %rsp\n"
        "    pop %r15\n"
        "    pop %r14\n"
        "    pop %r13\n"
        "    pop %r12\n"
        "    pop %rbx\n"
        "    pop %rbp\n"
        "    ret\n"
        ".size berth_fiber_switch, . - berth_fiber_switch\n");

static void context_switch(context *from, context *to) {
    berth_fiber_switch(from, *to);
}

static void context_begin(struct fiber *fiber) {
    const size_t saved_registers = 6;
    uintptr_t top = ((uintptr_t)fiber->stack + STACK_BYTES - 64) & ~(uintptr_t)63;
    void **stack = (void **)top;
    *--stack = NULL; // where fiber_main would return to
    *--stack = (void *)(uintptr_t)fiber_main;
    for (size_t i = 0; i < saved_registers; i++) {
        *--stack = NULL;
    }
    fiber->saved = stack;
}
#else
static void context_switch(context *from, context *to) {
    swapcontext(from, to);
}

static void context_begin(struct fiber *fiber) {
    getcontext(&fiber->saved);
    fiber->saved.uc_stack.ss_sp = fiber->stack;
    fiber->saved.uc_stack.ss_size = STACK_BYTES;
    fiber->saved.uc_link = NULL;
    makecontext(&fiber->saved, fiber_main, 0);
}
#endif

static void start_switch(void **own, const void *stack, size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(own, stack, bytes);
#endif
}

static void finish_switch(void *own, const void **stack, size_t *bytes) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(own, stack, bytes);
#endif
}

static void run_fiber(struct emulator *e, struct fiber *fiber) {
    e->current = fiber;
    start_switch(&e->sanitizer, fiber->stack, STACK_BYTES);
    context_switch(&e->scheduler, &fiber->saved);
    finish_switch(e->sanitizer, NULL, NULL);
}

static void suspend(enum fiber_state state, struct emulated_site site) {
    struct emulator *e = &emulator;
    struct fiber *fiber = e->current;
    fiber->state = state;
    fiber->site = site;
    start_switch(state == FIBER_DONE ? NULL : &fiber->sanitizer, e->scheduler_stack,
                 e->scheduler_stack_bytes);
    context_switch(&fiber->saved, &e->scheduler);
    finish_switch(fiber->sanitizer, NULL, NULL);
}

static void fiber_main(void) {
    struct emulator *e = &emulator;
    finish_switch(NULL, &e->scheduler_stack, &e->scheduler_stack_bytes);
    e->launch->run(e->launch->call);
    suspend(FIBER_DONE, emulated_site{"", 0});
    abort();
}

// --- what a thread calls ------------------------------------------------------------------------

[[noreturn]] static void fail_kernel(const char *format, ...) {
    const struct emulator *e = &emulator;
    const dim3 *block = &e->fibers[0].index.block;
    va_list arguments;
    fprintf(stderr, "emulated GPU: kernel %s, block (%u, %u, %u): ", e->launch->kernel, block->x,
            block->y, block->z);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    abort();
}

const struct emulated_index *emulated_current(void) {
    return &emulator.current->index;
}

int emulated_lane(void) {
    return emulator.current->lane;
}

void emulated_barrier(struct emulated_site site) {
    suspend(FIBER_AT_BARRIER, site);
}

// The lanes of the mask that exist; a block's last warp may be short.
static uint64_t lanes_of_mask(const struct emulator *e, int warp, uint64_t mask) {
    const int lanes = e->count - warp * GPU_WARP; // may be more
    return lanes < GPU_WARP ? mask & ((UINT64_C(1) << lanes) - 1) : mask & GPU_ALL_LANES;
}

static const struct lane_value *sync_warp(uint64_t mask, struct lane_value value,
                                          struct emulated_site site) {
    struct emulator *e = &emulator;
    struct fiber *fiber = e->current;
    struct lane_value *slots = e->slots[fiber->warp][fiber->phase++ & 1];
    fiber->mask = lanes_of_mask(e, fiber->warp, mask);
    if ((fiber->mask >> fiber->lane & 1) == 0) {
        fail_kernel("%s:%d: lane %d is not in its own mask", site.file, site.line, fiber->lane);
    }
    slots[fiber->lane] = value;
    suspend(FIBER_IN_WARP, site);
    return slots;
}

uint64_t emulated_exchange(uint64_t mask, uint64_t value, int source, struct emulated_site site) {
    const struct lane_value *slots = sync_warp(mask, lane_value{{value, 0, 0}}, site);
    if (source < 0 || source >= GPU_WARP || (emulator.current->mask >> source & 1) == 0) {
        fail_kernel("%s:%d: lane %d reads lane %d, which is not in the mask", site.file, site.line,
                    emulator.current->lane, source);
    }
    return slots[source].word[0];
}

uint64_t emulated_ballot(uint64_t mask, int predicate, struct emulated_site site) {
    const struct lane_value *slots =
        sync_warp(mask, lane_value{{(uint64_t)(predicate != 0), 0, 0}}, site);
    uint64_t votes = 0;
    for (int lane = 0; lane < GPU_WARP; lane++) {
        if (emulator.current->mask >> lane & 1) {
            votes |= slots[lane].word[0] << lane;
        }
    }
    return votes;
}

static void *allocate_shared(struct emulator *e, size_t bytes) {
    unsigned char *memory = e->shared + e->shared_used;
    e->shared_used += (bytes + 15) / 16 * 16;
    if (e->shared_used > GPU_MAX_SHARED_BYTES) {
        fail_kernel("%zu bytes of shared memory, the limit is %d", e->shared_used,
                    GPU_MAX_SHARED_BYTES);
    }
    return memory;
}

void *emulated_shared(const void *variable, size_t bytes) {
    struct emulator *e = &emulator;
    for (int i = 0; i < e->variable_count; i++) {
        if (e->variables[i].name == variable) {
            return e->variables[i].memory;
        }
    }
    if (e->variable_count == MAX_VARIABLES) {
        fail_kernel("more than %d shared variables", MAX_VARIABLES);
    }
    struct variable *added = &e->variables[e->variable_count++];
    added->name = variable;
    added->memory = (unsigned char *)allocate_shared(e, bytes);
    return added->memory;
}

void *emulated_dynamic_shared(void) {
    return emulator.shared; // allocated first
}

static void check_vector(const void *address) {
    if ((uintptr_t)address % 16 != 0) {
        fail_kernel("misaligned 16-byte vector at %p", address);
    }
}

uint4 gpu_read16(const void *from) {
    uint4 x;
    check_vector(from);
    emulated_count_access(from, sizeof x, false, __builtin_return_address(0));
    memcpy(&x, from, sizeof x);
    return x;
}

void gpu_write16(void *to, uint4 x) {
    check_vector(to);
    emulated_count_access(to, sizeof x, true, __builtin_return_address(0));
    memcpy(to, &x, sizeof x);
}

bool emulated_running(struct emulated_thread *thread) {
    const struct emulator *e = &emulator;
    if (e->current != NULL) {
        *thread = {e->current->warp, e->current->lane, e->shared, e->shared_used};
    }
    return e->current != NULL;
}

// --- tensor cores (mma.h) -----------------------------------------------------------------------

// A 16-bit number of a warp's fragments; mma.h describes lanes and pairs.
static float number_in(const struct lane_value *slots, int lane, int pair, int half, int is_bf16) {
    const uint32_t bits = (uint32_t)(slots[lane].word[pair / 2] >> (32 * (pair % 2)));
    const uint16_t number = (uint16_t)(bits >> (16 * half));
    return is_bf16 ? gpu_float((uint32_t)number << 16) : emulated_from_f16(number);
}

// The 16 numbers of a row of A or a column of B. The four lanes of a group hold them: those from
// k = 0 in pair pairs[0], those from k = 8 in pairs[1].
static void read_depth(float numbers[16], const struct lane_value *slots, int group,
                       const int pairs[2], int is_bf16) {
    for (int k = 0; k < 16; k++) {
        numbers[k] = number_in(slots, group * 4 + k % 8 / 2, pairs[k / 8], k % 2, is_bf16);
    }
}

void emulated_mma(float c[4], const struct emulated_fragments *own, int is_bf16,
                  struct emulated_site site) {
    static const int a_pairs[2][2] = {{0, 2}, {1, 3}}, b_pairs[2] = {4, 5};
    struct lane_value words;
    static_assert(sizeof words == sizeof *own, "a lane's fragments");
    memcpy(&words, own, sizeof words);
    const struct lane_value *slots = sync_warp(GPU_ALL_LANES, words, site);
    const int lane = emulated_lane();
    emulated_count_operations(lane == 0 ? 2 * 16 * 8 * 16 : 0);
    float rows[2][16], columns[2][16], sums[4] = {0.0f};
    for (int i = 0; i < 2; i++) {
        read_depth(rows[i], slots, lane / 4, a_pairs[i], is_bf16);
        read_depth(columns[i], slots, lane % 4 * 2 + i, b_pairs, is_bf16);
    }
    for (int k = 0; k < 16; k++) {
        for (int i = 0; i < 4; i++) {
            sums[i] += rows[i / 2][k] * columns[i % 2][k];
        }
    }
    for (int i = 0; i < 4; i++) {
        c[i] += sums[i];
    }
}

void emulated_load_matrices(uint32_t r[4], const uint16_t *row, int is_transposed,
                            struct emulated_site site) {
    check_vector(row);
    emulated_count_access(row, 16, false, __builtin_return_address(0));
    const struct lane_value *slots =
        sync_warp(GPU_ALL_LANES, lane_value{{(uint64_t)(uintptr_t)row, 0, 0}}, site);
    const int lane = emulated_lane();
    for (int i = 0; i < 4; i++) {
        uint32_t pair[2];
        for (int half = 0; half < 2; half++) {
            const int from = is_transposed ? lane % 4 * 2 + half : lane / 4;
            const int column = is_transposed ? lane / 4 : lane % 4 * 2 + half;
            pair[half] = ((const uint16_t *)(uintptr_t)slots[i * 8 + from].word[0])[column];
        }
        r[i] = pair[0] | pair[1] << 16;
    }
}

void emulated_copy_start(void *to, const void *from, size_t bytes) {
    struct fiber *fiber = emulator.current;
    if ((uintptr_t)to % bytes != 0 || (uintptr_t)from % bytes != 0) {
        fail_kernel("misaligned copy of %zu bytes from %p to %p", bytes, from, to);
    }
    if (fiber->copy_count == MAX_COPIES) {
        fail_kernel("a thread has more than %d copies in flight", MAX_COPIES);
    }
    fiber->copies[fiber->copy_count++] = copy{(unsigned char *)to, from, bytes};
    emulated_count_access(to, bytes, true, __builtin_return_address(0));
    if (from != NULL) {
        emulated_count_access(from, bytes, false, (char *)__builtin_return_address(0) + 1);
    }
}

void emulated_copies_wait(void) {
    struct fiber *fiber = emulator.current;
    for (int i = 0; i < fiber->copy_count; i++) {
        const struct copy *copy = &fiber->copies[i];
        if (copy->from != NULL) {
            memcpy(copy->to, copy->from, copy->bytes);
        } else {
            memset(copy->to, 0, copy->bytes);
        }
    }
    fiber->copy_count = 0;
}

void emulated_product_start(const struct emulated_product *product) {
    struct fiber *fiber = emulator.current;
    if (fiber->product_count == MAX_PRODUCTS) {
        fail_kernel("a thread has more than %d products in flight", MAX_PRODUCTS);
    }
    fiber->products[fiber->product_count++] = *product;
}

void emulated_products_wait(void) {
    struct fiber *fiber = emulator.current;
    for (int i = 0; i < fiber->product_count; i++) {
        fiber->products[i].make(&fiber->products[i]);
    }
    fiber->product_count = 0;
}

// --- a block ------------------------------------------------------------------------------------

// The order in which the warps of a block, or the lanes of a warp, take turns.
struct turn_order {
    int count, first, step;
};

static struct turn_order choose_order(struct emulator *e, int count) {
    e->random = e->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    switch (e->order) {
    case ORDER_FORWARD:
        return {count, 0, 1};
    case ORDER_REVERSE:
        return {count, count - 1, count - 1};
    default:
        return {count, (int)((e->random >> 33) % (uint64_t)count), e->random >> 63 ? 1 : count - 1};
    }
}

static int turn_at(const struct turn_order *turn_order, int i) {
    return (turn_order->first + i * turn_order->step) % turn_order->count;
}

static int lane_count(const struct emulator *e, int warp) {
    const int lanes = e->count - warp * GPU_WARP;
    return lanes < GPU_WARP ? lanes : GPU_WARP;
}

// Runs every lane that is ready until it waits; returns the number of lanes that ran.
static int run_lanes(struct emulator *e, int warp) {
    const struct turn_order turn_order = choose_order(e, lane_count(e, warp));
    int ran = 0;
    for (int i = 0; i < turn_order.count; i++) {
        struct fiber *fiber = &e->fibers[warp * GPU_WARP + turn_at(&turn_order, i)];
        if (fiber->state == FIBER_READY) {
            run_fiber(e, fiber);
            ran++;
        }
    }
    return ran;
}

// Lets a warp's lanes continue once all that they wait for have arrived; returns 0 if not yet.
static int release_warp(struct emulator *e, int warp) {
    struct fiber *fibers = &e->fibers[warp * GPU_WARP];
    const int lanes = lane_count(e, warp);
    uint64_t waiting = 0, wanted = 0, returned = 0;
    const struct fiber *first = NULL;
    for (int lane = 0; lane < lanes; lane++) {
        const struct fiber *fiber = &fibers[lane];
        returned |= (uint64_t)(fiber->state == FIBER_DONE) << lane;
        if (fiber->state == FIBER_IN_WARP) {
            first = first == NULL ? fiber : first;
            waiting |= UINT64_C(1) << lane;
            wanted |= fiber->mask;
        }
    }
    if (waiting == 0) {
        return 0;
    }
    if (wanted & returned) {
        fail_kernel("%s:%d: warp %d waits for lanes that have returned", first->site.file,
                    first->site.line, warp);
    }
    if ((waiting & wanted) != wanted) {
        return 0;
    }
    for (int lane = 0; lane < lanes; lane++) {
        struct fiber *fiber = &fibers[lane];
        if (fiber->state != FIBER_IN_WARP) {
            continue;
        }
        if (fiber->site.line != first->site.line || fiber->site.file != first->site.file) {
            fail_kernel("warp %d is at %s:%d and %s:%d at once", warp, first->site.file,
                        first->site.line, fiber->site.file, fiber->site.line);
        }
        fiber->state = FIBER_READY;
    }
    emulated_count_sync(warp);
    return 1;
}

// Lets all threads continue once all are at one barrier; returns 0 if not yet.
static int release_barrier(struct emulator *e) {
    const struct fiber *first = NULL;
    int waiting = 0, returned = 0;
    for (int i = 0; i < e->count; i++) {
        const struct fiber *fiber = &e->fibers[i];
        returned += fiber->state == FIBER_DONE;
        if (fiber->state != FIBER_AT_BARRIER) {
            continue;
        }
        first = first == NULL ? fiber : first;
        waiting++;
        if (fiber->site.line != first->site.line || fiber->site.file != first->site.file) {
            fail_kernel("threads are at the barriers %s:%d and %s:%d", first->site.file,
                        first->site.line, fiber->site.file, fiber->site.line);
        }
    }
    if (waiting == 0 || waiting + returned < e->count) {
        return 0;
    }
    if (returned > 0) {
        fail_kernel("%d of %d threads wait at the barrier %s:%d, the others have returned", waiting,
                    e->count, first->site.file, first->site.line);
    }
    for (int i = 0; i < e->count; i++) {
        e->fibers[i].state = FIBER_READY;
    }
    emulated_count_sync(-1);
    return 1;
}

static int is_done(const struct emulator *e) {
    for (int i = 0; i < e->count; i++) {
        if (e->fibers[i].state != FIBER_DONE) {
            return 0;
        }
    }
    return 1;
}

static void begin_block(struct emulator *e, dim3 index) {
    const dim3 size = e->launch->block;
    memset(e->shared, 0xFF, e->shared_used); // NaN, as in the unused rest
    e->shared_used = 0;
    e->variable_count = 0;
    (void)allocate_shared(e, e->launch->dynamic_shared);
    for (int i = 0; i < e->count; i++) {
        struct fiber *fiber = &e->fibers[i];
        const unsigned thread = (unsigned)i;
        fiber->state = FIBER_READY;
        fiber->sanitizer = NULL;
        fiber->phase = 0;
        fiber->copy_count = 0;
        fiber->lane = i % GPU_WARP;
        fiber->warp = i / GPU_WARP;
        fiber->index.thread =
            dim3(thread % size.x, thread / size.x % size.y, thread / (size.x * size.y));
        fiber->index.block = index;
        fiber->index.block_size = size;
        fiber->index.grid = e->launch->grid;
        context_begin(fiber);
    }
}

// A warp runs as far as it can before the next one starts, so that a kernel without a necessary
// barrier reads numbers that another warp has not written yet.
static void run_block(struct emulator *e, dim3 index) {
    const int warps = (e->count + GPU_WARP - 1) / GPU_WARP;
    begin_block(e, index);
    while (!is_done(e)) {
        const struct turn_order turn_order = choose_order(e, warps);
        int ran_any = 0;
        for (int i = 0; i < warps; i++) {
            const int warp = turn_at(&turn_order, i);
            do {
                ran_any += run_lanes(e, warp);
            } while (release_warp(e, warp));
        }
        ran_any += release_barrier(e);
        if (ran_any == 0) {
            fail_kernel("deadlock: some threads are at a barrier, others wait for their warp");
        }
    }
    emulated_count_sync(-1);
    e->current = NULL;
}

// --- a launch -----------------------------------------------------------------------------------

static enum order order_of_environment(void) {
    const char *order = getenv("BERTH_EMULATION_ORDER");
    if (order == NULL || strcmp(order, "forward") == 0) {
        return ORDER_FORWARD;
    }
    if (strcmp(order, "reverse") == 0) {
        return ORDER_REVERSE;
    }
    if (strcmp(order, "random") != 0) {
        fprintf(stderr,
                "emulated GPU: BERTH_EMULATION_ORDER: expected forward, reverse or random, found "
                "\"%s\"\n",
                order);
        abort();
    }
    return ORDER_RANDOM;
}

// Allocates a host thread's memory, which it keeps.
static void allocate_memory(struct emulator *e) {
    if (e->stacks != NULL) {
        return;
    }
    e->fibers = (struct fiber *)calloc(MAX_THREADS, sizeof *e->fibers);
    e->slots = (struct lane_value(*)[2][GPU_WARP])calloc(MAX_THREADS / GPU_WARP, sizeof *e->slots);
    e->shared = (unsigned char *)aligned_alloc(1024, GPU_MAX_SHARED_BYTES);
    e->stacks = (char *)mmap(NULL, (size_t)MAX_THREADS * STACK_BYTES, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (e->fibers == NULL || e->slots == NULL || e->shared == NULL || e->stacks == MAP_FAILED) {
        fputs("emulated GPU: out of memory\n", stderr);
        abort();
    }
    e->shared_used = GPU_MAX_SHARED_BYTES;
    for (int i = 0; i < MAX_THREADS; i++) {
        e->fibers[i].stack = e->stacks + (size_t)i * STACK_BYTES;
    }
}

void emulated_run(const struct emulated_launch *launch, int threads) {
    const dim3 grid = launch->grid, block = launch->block;
    const uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;
    const uint64_t count = (uint64_t)block.x * block.y * block.z;
    if (count < 1 || count > MAX_THREADS) {
        fprintf(stderr, "emulated GPU: kernel %s: a block of %llu threads\n", launch->kernel,
                (unsigned long long)count);
        abort();
    }
    const enum order order = order_of_environment();
#pragma omp parallel for num_threads(EMULATION_THREADS(threads)) schedule(dynamic) if (blocks > 1)
    for (uint64_t i = 0; i < blocks; i++) {
        struct emulator *e = &emulator;
        allocate_memory(e);
        e->launch = launch;
        e->order = order;
        e->count = (int)count;
        run_block(e, dim3((unsigned)(i % grid.x), (unsigned)(i / grid.x % grid.y),
                          (unsigned)(i / ((uint64_t)grid.x * grid.y))));
    }
}

// --- half precision -----------------------------------------------------------------------------

float emulated_from_f16(uint16_t bits) {
    const uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, magnitude = bits & 0x7FFFu;
    if (magnitude >= 0x7C00u) {
        return gpu_float(sign | 0x7F800000u | (magnitude & 0x3FFu) << 13);
    }
    const float scaled = gpu_float(magnitude << 13) * 0x1p112f; // exponents differ by 112
    return gpu_float(sign | gpu_bits(scaled));
}

// To nearest, ties to even; infinite from 65520 on.
uint16_t emulated_f16(float x) {
    const uint32_t bits = gpu_bits(x), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) {
        return (uint16_t)(sign | 0x7E00u);
    }
    if (magnitude >= 0x477FF000u) {
        return (uint16_t)(sign | 0x7C00u);
    }
    if (magnitude < 0x38800000u) { // subnormal: the addition rounds at 2^-24
        const uint32_t rounded = gpu_bits(gpu_float(magnitude) + 0.5f);
        return (uint16_t)(sign | (rounded - gpu_bits(0.5f)));
    }
    return (uint16_t)(sign | ((magnitude + 0xFFFu + (magnitude >> 13 & 1u) - (112u << 23)) >> 13));
}
