/* Which way rows come to batches, for tests that are about one of them. */
#ifndef TESTS_LOADER_DELIVERY_H
#define TESTS_LOADER_DELIVERY_H

#include "loader/internal.h"

/** Straight from decoding, not gathered from panels in the cache. */
static inline bool is_direct(const fby_loader *l) { return l->engine.delivery != &fby__gathered_delivery; }

/** Is there that way at all? Its file could be taken out. */
static inline bool has_direct(void) { return fby__preferred_delivery != &fby__gathered_delivery; }

#endif
