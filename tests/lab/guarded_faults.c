// SPDX-License-Identifier: Apache-2.0
// Makes one of the mistakes that guarded_memory.c must detect. The argument is its number, 0 for
// none. dev/check-guarded checks that each mistake ends the program.
#include <stdlib.h>
#include <sys/mman.h>

// Volatile, so that the compiler does not see and report the mistake.
static char *volatile block;

static char *map(void) {
    return mmap(NULL, 128, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

int main(int count, char **words) {
    const int mistake = count > 1 ? atoi(words[1]) : 0;
    char *const mapped = map();
    block = malloc(32);
    switch (mistake) {
    case 1: // after a block
        block[32] = 1;
        break;
    case 2: // after a block whose size is no multiple of its alignment
        block = realloc(block, 21);
        block[21] = 1;
        break;
    case 3: // before a block
        block[-1] = 1;
        break;
    case 4: // after a mapping
        mapped[128] = 1;
        break;
    case 5: // a mapping unmapped with another size
        munmap(mapped, 64);
        break;
    case 6: // write after free
        free(block);
        block[0] = 1;
        return 0;
    case 7: // double free
        free(block);
        break;
    default:
        munmap(mapped, 128);
        break;
    }
    free(block);
    return 0;
}
