/* Memory of the benchmark programs: mapped, in huge pages where the kernel agrees, and touched before any clock starts. */
#ifndef BENCH_MEMORY_H
#define BENCH_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

/* NULL when there is none; never unmapped, a program ends soon. */
static inline uint8_t *map(size_t bytes)
{
    uint8_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    (void)madvise(p, bytes, MADV_HUGEPAGE); /* a hint */
    memset(p, 1, bytes);
    return p;
}

#endif
