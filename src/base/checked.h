/* Arithmetic on numbers that come from a file or a caller: true when the result fits. */
#ifndef FBY_BASE_CHECKED_H
#define FBY_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool fby__mul_checked(size_t a, size_t b, size_t *out) { return !__builtin_mul_overflow(a, b, out); }
static inline bool fby__add_checked(size_t a, size_t b, size_t *out) { return !__builtin_add_overflow(a, b, out); }
static inline bool fby__mul_u64_checked(uint64_t a, uint64_t b, uint64_t *out) { return !__builtin_mul_overflow(a, b, out); }
static inline bool fby__add_u64_checked(uint64_t a, uint64_t b, uint64_t *out) { return !__builtin_add_overflow(a, b, out); }

static inline uint64_t fby__min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t fby__max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }
static inline uint64_t fby__div_up_u64(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }
/* align is a power of two; the caller knows that a + align fits. */
static inline uint64_t fby__align_up_u64(uint64_t a, uint64_t align) { return (a + align - 1) & ~(align - 1); }

#endif
