/*
 * Bits to elements, the loops of make_bits.c: included once for each instruction set and element size, with TARGET (a function attribute),
 * NAME(x) (the name of x for it), T (an unsigned type of an element's size) and PACK_TEXT (characters to packed bits) defined. Eight bits
 * become eight elements in a vector: the byte in every lane, each lane's own bit of it, all ones where it is set, the element there. No
 * include guard: that is the point.
 */

typedef T NAME(lanes) __attribute__((vector_size(8 * sizeof(T)), may_alias, aligned(1)));

/* n whole bytes; `weight` is each lane's bit. Lanes of 32 bits and more take four bytes at once and have a weight for each of them. */
TARGET static void NAME(packed)(uint8_t *dst, const uint8_t *src, size_t n, bool little, uint64_t one)
{
    const NAME(lanes) high = {128, 64, 32, 16, 8, 4, 2, 1}, low = {1, 2, 4, 8, 16, 32, 64, 128};
    const NAME(lanes) weight = little ? low : high, zeros = {0}, ones = zeros + (T)one;
    size_t i = 0;
    if (sizeof(T) >= 4) {
        NAME(lanes) weights[4];
        for (int k = 0; k < 4; k++)
            weights[k] = weight << 8 * k;
        for (; i + 4 <= n; i += 4) {
            const NAME(lanes) bytes = zeros + (T)fby__load_u32(src + i);
            for (size_t k = 0; k < 4; k++)
                *(NAME(lanes) *)(void *)(dst + (i + k) * sizeof(NAME(lanes))) = (NAME(lanes))((bytes & weights[k]) == weights[k]) & ones;
        }
    }
    for (; i < n; i++) {
        const NAME(lanes) byte = zeros + (T)src[i];
        *(NAME(lanes) *)(void *)(dst + i * sizeof(NAME(lanes))) = (NAME(lanes))((byte & weight) == weight) & ones;
    }
}

/* 8 n characters, to packed bits in the cache and those to elements. Not 0 when one is neither '0' nor '1'. */
TARGET static uint8_t NAME(text)(uint8_t *dst, const uint8_t *src, size_t n, uint64_t one)
{
    uint8_t packed[TEXT_PIECE], bad = 0;
    for (size_t at = 0; at < n; at += TEXT_PIECE) {
        const size_t k = n - at < TEXT_PIECE ? n - at : TEXT_PIECE;
        bad |= PACK_TEXT(packed, src + 8 * at, k);
        NAME(packed)(dst + at * sizeof(NAME(lanes)), packed, k, true, one);
    }
    return bad;
}

#undef NAME
#undef T
