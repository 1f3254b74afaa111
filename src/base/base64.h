/* Base64 (RFC 4648, section 4), decoded. */
#ifndef FBY_BASE_BASE64_H
#define FBY_BASE_BASE64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Bytes that n characters decode to at most. */
static inline size_t fby__base64_bytes(size_t n) { return n / 4 * 3 + 3; }

/** Text with or without padding into `out`, which has room for fby__base64_bytes(n). False when it is no base64. */
bool fby__base64_decode(const uint8_t *text, size_t n, uint8_t *out, size_t *out_n);

#endif
