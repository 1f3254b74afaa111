/* The variants of the bulk permutation, so that tests can run each of them against the scalar reference. */
#ifndef FBY_PLAN_PERMUTE_INTERNAL_H
#define FBY_PLAN_PERMUTE_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

typedef struct fby__permute_variant {
    const char *name;
    bool (*supported)(void);
    void (*run)(uint64_t key, uint64_t n, uint64_t i, uint32_t count, bool inverse, uint64_t *out);
} fby__permute_variant;

/** The k-th variant, plain code first, the fastest last; NULL past the end. */
const fby__permute_variant *fby__permute_variant_at(uint32_t k);

#endif
