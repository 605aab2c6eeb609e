// SPDX-License-Identifier: Apache-2.0
// An allocator with guard pages, preloaded into a program (dev/check-guarded). Each block, from
// malloc or mmap, ends at an inaccessible page, so that errors in code that the sanitizers do not
// instrument are found too: code generated at run time, and libraries. Freed memory is
// inaccessible. The bytes between a block and its guard page, fewer than the block's alignment, and
// those before the block are checked when it is freed. Not covered: mremap, and mappings of files.
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define ALIGNMENT 16      // of malloc
#define WIDE_ALIGNMENT 64 // of mmap: that of a cache line is enough for the programs under test
#define MARK UINT64_C(0x5afe5afe5afe5afe)
#define FILL 0xa5  // of new blocks
#define SLACK 0xc7 // after blocks
#define FREED 8192 // freed blocks that stay inaccessible
#define MAPS 4096

// The header of a block, at the start of its mapping; two words before the block point to it.
struct head {
    size_t mapped, size;
    char *block;
};

struct before {
    struct head *head;
    uint64_t mark;
};

static _Atomic(struct head *) freed[FREED];
static atomic_uint_fast64_t frees;
static _Atomic(void *) maps[MAPS];

static void die(const char *what) {
    (void)!write(STDERR_FILENO, what, strlen(what));
    abort();
}

static void *map_pages(size_t bytes) {
    const long found = syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0L);
    return found == -1 ? NULL : (void *)found;
}

static size_t round_up(size_t number, size_t unit) {
    return (number + unit - 1) / unit * unit;
}

static void *take(size_t size, size_t alignment) {
    if (size > SIZE_MAX / 4 || alignment > SIZE_MAX / 4) {
        errno = ENOMEM;
        return NULL;
    }
    const size_t pages = round_up(size + alignment, PAGE), mapped = PAGE + pages + PAGE;
    char *first = map_pages(mapped);
    if (first == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    char *guard = first + PAGE + pages;
    char *block = (char *)((uintptr_t)(guard - size) / alignment * alignment);
    struct head *head = (struct head *)first;
    *head = (struct head){mapped, size, block};
    ((struct before *)block)[-1] = (struct before){head, MARK};
    memset(block + size, SLACK, (size_t)(guard - block) - size);
    syscall(SYS_mprotect, guard, PAGE, PROT_NONE);
    return block;
}

static struct head *head_of(void *block) {
    const struct before *before = (struct before *)block - 1;
    if (before->mark != MARK || before->head->block != block) {
        die("guarded_memory: freed what is no block, or bytes before a block were written\n");
    }
    return before->head;
}

static void give_back(void *block) {
    const int saved = errno;
    struct head *head = head_of(block);
    const char *guard = (char *)head + head->mapped - PAGE;
    for (const char *byte = head->block + head->size; byte < guard; byte++) {
        if ((unsigned char)*byte != SLACK) {
            die("guarded_memory: bytes behind a block were written\n");
        }
    }
    const size_t mapped = head->mapped;
    madvise((char *)head + PAGE, mapped - PAGE, MADV_DONTNEED);
    syscall(SYS_mprotect, (char *)head + PAGE, mapped - PAGE, PROT_NONE);
    head = atomic_exchange(&freed[atomic_fetch_add(&frees, 1) % FREED], head);
    if (head != NULL) {
        syscall(SYS_munmap, head, head->mapped);
    }
    errno = saved;
}

// --- functions of the C library -----------------------------------------------------------------

void *malloc(size_t size) {
    void *block = take(size, ALIGNMENT);
    return block != NULL ? memset(block, FILL, size) : NULL;
}

void *calloc(size_t count, size_t size) {
    size_t bytes;
    return take(__builtin_mul_overflow(count, size, &bytes) ? SIZE_MAX : bytes, ALIGNMENT);
}

void free(void *block) {
    if (block != NULL) {
        give_back(block);
    }
}

void *realloc(void *block, size_t size) {
    void *moved = malloc(size);
    if (block == NULL || moved == NULL) {
        return moved;
    }
    const size_t before = head_of(block)->size;
    memcpy(moved, block, before < size ? before : size);
    free(block);
    return moved;
}

void *memalign(size_t alignment, size_t size) {
    return take(size, alignment < ALIGNMENT ? ALIGNMENT : alignment);
}

void *aligned_alloc(size_t alignment, size_t size) {
    return memalign(alignment, size);
}

int posix_memalign(void **block, size_t alignment, size_t size) {
    void *found = memalign(alignment, size);
    *block = found != NULL ? found : *block;
    return found != NULL ? 0 : ENOMEM;
}

size_t malloc_usable_size(void *block) {
    return block != NULL ? head_of(block)->size : 0;
}

static void remember(void *block) {
    for (size_t i = 0; i < MAPS; i++) {
        void *none = NULL;
        if (atomic_compare_exchange_strong(&maps[i], &none, block)) {
            return;
        }
    }
    die("guarded_memory: too many mappings\n");
}

static int forget(void *block) {
    for (size_t i = 0; i < MAPS; i++) {
        void *found = block;
        if (atomic_compare_exchange_strong(&maps[i], &found, NULL)) {
            return 1;
        }
    }
    return 0;
}

// Handles plain anonymous memory; all other mappings go to the system.
void *mmap(void *address, size_t size, int protection, int flags, int file, off_t offset) {
    if (address != NULL || protection != (PROT_READ | PROT_WRITE) ||
        flags != (MAP_PRIVATE | MAP_ANONYMOUS)) {
        return (void *)syscall(SYS_mmap, address, size, protection, flags, file, offset);
    }
    void *block = take(size, WIDE_ALIGNMENT);
    if (block == NULL) {
        return MAP_FAILED;
    }
    remember(block);
    return block;
}

int munmap(void *address, size_t size) {
    if (!forget(address)) {
        return (int)syscall(SYS_munmap, address, size);
    }
    if (head_of(address)->size != size) {
        die("guarded_memory: a mapping is given back with another size\n");
    }
    give_back(address);
    return 0;
}
