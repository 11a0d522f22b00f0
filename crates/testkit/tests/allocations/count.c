// Counts what a process allocates and copies. Loaded into it by the dynamic linker (LD_PRELOAD); the counts stand in the file that
// COUNT_FILE names, which the test maps too. Only the first process that opens the file counts, not its children.
#define _GNU_SOURCE
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FRAMES = 24, STACKS = 1 << 15 };

// Equal to what main.rs reads.
struct stack {
    _Atomic uint64_t hash, allocations, allocated, copied;
    uint64_t frames[FRAMES];
};
struct counts {
    _Atomic uint64_t owner, allocations, allocated, copied;
    _Atomic uint64_t traced; // whether stacks are kept; set by the test
    _Atomic uint64_t base;   // where the program is loaded
    struct stack stacks[STACKS];
};

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);

static struct counts *counts;
// Initial-exec: the other kinds of thread-local storage allocate.
static __thread int inside __attribute__((tls_model("initial-exec")));

static int note_base(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    *(uint64_t *)data = info->dlpi_addr;
    return 1; // the first is the program
}

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("COUNT_FILE");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *memory = mmap(NULL, sizeof(struct counts), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED) return;
    struct counts *found = memory;
    uint64_t nobody = 0, base = 0;
    if (!atomic_compare_exchange_strong(&found->owner, &nobody, (uint64_t)getpid())) return;
    // Its first call loads a library.
    void *frame;
    backtrace(&frame, 1);
    dl_iterate_phdr(note_base, &base);
    found->base = base;
    counts = found;
}

// The stack of the caller; every one has a place of its own.
static struct stack *here(void) {
    void *frames[FRAMES + 2] = {0};
    int depth = backtrace(frames, FRAMES + 2);
    uint64_t hash = 14695981039346656037u;
    for (int at = 2; at < depth; at++) hash = (hash ^ (uint64_t)frames[at]) * 1099511628211u;
    hash |= 1;
    for (uint64_t tried = 0; tried < STACKS; tried++) {
        struct stack *stack = &counts->stacks[(hash + tried) % STACKS];
        uint64_t empty = 0;
        if (atomic_compare_exchange_strong(&stack->hash, &empty, hash)) {
            for (int at = 2; at < depth; at++) stack->frames[at - 2] = (uint64_t)frames[at];
            return stack;
        }
        if (empty == hash) return stack;
    }
    return NULL;
}

static void allocated(size_t size) {
    if (!counts || inside) return;
    inside = 1;
    counts->allocations++;
    counts->allocated += size;
    struct stack *stack = counts->traced ? here() : NULL;
    if (stack) {
        stack->allocations++;
        stack->allocated += size;
    }
    inside = 0;
}

static void copied(size_t size) {
    if (!counts || inside) return;
    counts->copied += size;
    if (!counts->traced || size < 64) return;
    inside = 1;
    struct stack *stack = here();
    if (stack) stack->copied += size;
    inside = 0;
}

void *malloc(size_t size) {
    allocated(size);
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    allocated(count * size);
    return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size) {
    allocated(size);
    return __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    allocated(size);
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size) {
    allocated(size);
    void *made = __libc_memalign(alignment, size);
    if (!made) return ENOMEM;
    *memory = made;
    return 0;
}

static void *move(void *to, const void *from, size_t size) {
    unsigned char *target = to;
    const unsigned char *source = from;
    if (target <= source || target >= source + size) {
#if defined(__x86_64__)
        __asm__ volatile("rep movsb" : "+D"(target), "+S"(source), "+c"(size) : : "memory");
#else
        while (size--) *target++ = *source++;
#endif
    } else {
        while (size--) target[size] = source[size];
    }
    return to;
}

void *memcpy(void *to, const void *from, size_t size) {
    copied(size);
    return move(to, from, size);
}

void *memmove(void *to, const void *from, size_t size) {
    copied(size);
    return move(to, from, size);
}
