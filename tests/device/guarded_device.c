// SPDX-License-Identifier: Apache-2.0
// Inaccessible addresses for the CPU device's memory; see guarded_device.h.
#include "guarded_device.h"

#include "core/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// A copy that was begun. It is made only when somebody waits for it, as late as on a real GPU.
struct guarded_fetch {
    void *to;
    const void *from;
    size_t bytes;
};

enum { FETCHES = 4096 }; // in flight at most

struct guarded {
    struct translated_device translated;
    char description[200];
    struct guarded_fetch fetches[FETCHES];
    int64_t begun, copied;
};

struct translated_device *guarded_translation(struct device *device) {
    return device->state;
}

static struct device *cpu_of(struct device *dev) {
    return guarded_translation(dev)->inner;
}

static void *device_memory(struct device *dev, const char *operation, const char *operand,
                           const void *address, size_t bytes) {
    return translated_memory(guarded_translation(dev), operation, operand, address, bytes);
}

static void check_host(struct device *dev, const char *operation, const char *operand,
                       const void *address) {
    if (translated_find(guarded_translation(dev), address) != NULL) {
        fprintf(stderr, "%s: %s is in the device's memory\n", operation, operand);
        abort();
    }
}

static uint64_t memory_available(struct device *dev, const char **limit) {
    *limit = "the guarded device";
    return (uint64_t)1 << 34;
}

// A block's addresses are one byte longer than the block, so that blocks do not touch.
static void *memory_new(struct device *dev, size_t bytes) {
    struct translated_block block = {.memory = cpu_of(dev)->memory_new(cpu_of(dev), bytes),
                                     .bytes = bytes};
    if (block.memory == NULL) {
        return NULL;
    }
    block.address =
        mmap(NULL, bytes + 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (block.address == MAP_FAILED) {
        cpu_of(dev)->memory_free(cpu_of(dev), block.memory, bytes);
        return NULL;
    }
    translated_add(guarded_translation(dev), block);
    return block.address;
}

static void memory_free(struct device *dev, void *address, size_t bytes) {
    struct translated_device *translated = guarded_translation(dev);
    if (address == NULL) {
        return;
    }
    struct translated_block *block = translated_find(translated, address);
    if (block == NULL || block->address != address || block->bytes != bytes) {
        fprintf(stderr, "memory_free: no block of %zu bytes begins there\n", bytes);
        abort();
    }
    cpu_of(dev)->memory_free(cpu_of(dev), block->memory, bytes);
    *block = translated->blocks[--translated->count];
}

static void upload(struct device *dev, void *to, const void *from_host, size_t bytes) {
    check_host(dev, "upload", "from_host", from_host);
    cpu_of(dev)->upload(cpu_of(dev), device_memory(dev, "upload", "to", to, bytes), from_host,
                        bytes);
}

static void download(struct device *dev, void *to_host, const void *from, size_t bytes) {
    check_host(dev, "download", "to_host", to_host);
    cpu_of(dev)->download(cpu_of(dev), to_host, device_memory(dev, "download", "from", from, bytes),
                          bytes);
}

static void *pinned_new(struct device *dev, size_t bytes) {
    return malloc(bytes);
}

static void pinned_free(struct device *dev, void *block, size_t bytes) {
    free(block);
}

static int64_t fetch_begin(struct device *dev, void *to_pinned, const void *from, size_t bytes) {
    struct guarded *guarded = dev->state;
    guarded->begun++;
    if (guarded->begun - guarded->copied > FETCHES) {
        fprintf(stderr, "fetch_begin: nobody has waited for %d copies\n", FETCHES);
        abort();
    }
    guarded->fetches[guarded->begun % FETCHES] = (struct guarded_fetch){to_pinned, from, bytes};
    return guarded->begun;
}

static void fetch_wait(struct device *dev, int64_t fetch) {
    struct guarded *guarded = dev->state;
    while (guarded->copied < fetch) {
        const struct guarded_fetch *next = &guarded->fetches[++guarded->copied % FETCHES];
        download(dev, next->to, next->from, next->bytes);
    }
}

static void zero(struct device *dev, void *block, size_t bytes) {
    cpu_of(dev)->zero(cpu_of(dev), device_memory(dev, "zero", "block", block, bytes), bytes);
}

static void discard(struct device *dev, void *block, size_t bytes) {
    cpu_of(dev)->discard(cpu_of(dev), device_memory(dev, "discard", "block", block, bytes), bytes);
}

static const char *describe(struct device *dev) {
    return ((struct guarded *)dev->state)->description;
}

static void close(struct device *dev) {
    if (dev == NULL) {
        return;
    }
    struct translated_device *translated = guarded_translation(dev);
    if (translated->count > 0) {
        fprintf(stderr, "close: %zu blocks of the device are not freed\n", translated->count);
        abort();
    }
    cpu_of(dev)->close(cpu_of(dev));
    translated_done(translated);
    free(dev->state);
}

const char *const device_gpu_kinds[] = {"cuda", NULL};

int device_gpu_has_module(const char *kind) {
    return 1;
}

const char *device_gpu_missing(const char *kind) {
    return NULL;
}

enum berth_status device_gpu_describe(const char *kind, int index, int *count, char text[160],
                                      struct berth_error *error) {
    *count = 1;
    snprintf(text, 160, "guarded memory");
    return BERTH_OK;
}

enum berth_status device_gpu_open(const char *kind, const struct device_options *options,
                                  struct device **device, struct berth_error *error) {
    struct device *cpu;
    TRY(device_cpu_open(options, &cpu, error));
    struct guarded *guarded = calloc(1, sizeof *guarded);
    if (guarded == NULL) {
        cpu->close(cpu);
        return error_no_memory(error, sizeof *guarded, "the guarded device");
    }
    translated_init(&guarded->translated, cpu);
    *device = &guarded->translated.device;
    (*device)->name = "guarded";
    (*device)->wants_word_rows = 1;
    (*device)->memory_available = memory_available;
    (*device)->describe = describe;
    (*device)->close = close;
    (*device)->memory_new = memory_new;
    (*device)->memory_free = memory_free;
    (*device)->upload = upload;
    (*device)->download = download;
    (*device)->pinned_new = pinned_new;
    (*device)->pinned_free = pinned_free;
    (*device)->fetch_begin = fetch_begin;
    (*device)->fetch_wait = fetch_wait;
    (*device)->zero = zero;
    (*device)->discard = discard;
    snprintf(guarded->description, sizeof guarded->description, "guarded memory, %.160s",
             cpu->describe(cpu));
    return BERTH_OK;
}
