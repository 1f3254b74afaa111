/*
 * Every codec against streams made by its own library, and against everything that is wrong with a stream: cut, of
 * another size, noise, followed by noise. The destination has guard bytes on both sides.
 */
#include "codec/codec_streams.h"

#include <dlfcn.h>
#include <unistd.h>

#define GUARD_BYTES 64

static fby__codec_state g_state;

/* ---- decompression with guards ---- */

static fby_status decompress(fby__codec_id id, const uint8_t *src, size_t src_n, uint8_t *dst, size_t dst_n, fby_error *err)
{
    uint8_t *box = malloc(dst_n + 2 * GUARD_BYTES);
    uint8_t *exact = malloc(src_n ? src_n : 1); /* so that the address sanitizer sees a read past its end */
    assert_non_null(box);
    assert_non_null(exact);
    memset(box, 0xA5, dst_n + 2 * GUARD_BYTES);
    if (src_n)
        memcpy(exact, src, src_n);
    fby__error_clear(err);
    fby_status status = fby__codec_decompress(&g_state, id, (fby__bytes){exact, src_n}, box + GUARD_BYTES, dst_n, err);
    for (size_t i = 0; i < GUARD_BYTES; i++) {
        assert_int_equal(box[i], 0xA5);
        assert_int_equal(box[GUARD_BYTES + dst_n + i], 0xA5);
    }
    if (dst && dst_n)
        memcpy(dst, box + GUARD_BYTES, dst_n);
    free(exact);
    free(box);
    return status;
}

static void expect(fby__codec_id id, fby__buf stream, const uint8_t *data, size_t n)
{
    fby_error err;
    uint8_t *out = malloc(n + 1);
    if (decompress(id, stream.data, stream.n, out, n, &err) != FBY_OK)
        fail_msg("%s", err.message);
    if (n)
        assert_memory_equal(out, data, n);
    free(out);
}

static void refuse(fby__codec_id id, const uint8_t *src, size_t src_n, size_t dst_n)
{
    fby_error err;
    char text[64];
    assert_int_equal(decompress(id, src, src_n, NULL, dst_n, &err), FBY_E_FORMAT);
    assert_int_equal(err.code, FBY_E_FORMAT);
    snprintf(text, sizeof text, "%s: %zu stored bytes do not decompress to %zu: ", fby__codec_name(id), src_n, dst_n);
    assert_memory_equal(err.message, text, strlen(text));
    assert_true(strlen(err.message) > strlen(text));
}

/* ---- tests ---- */

static void every_codec_gives_back_what_its_library_compressed(void **state)
{
    (void)state;
    static const size_t SIZES[] = {1, 2, 7, 100, 4096, 65535, 65537, 300001, (1 << 20) + 3};
    for (size_t m = 0; m < N_MAKERS; m++)
        for (int kind = 0; can_make(&MAKERS[m]) && kind < 4; kind++)
            for (size_t s = 0; s < sizeof SIZES / sizeof SIZES[0]; s++) {
                uint8_t *data = make_data(kind, SIZES[s]);
                fby__buf stream = {0};
                MAKERS[m].put(&stream, data, SIZES[s]);
                expect(MAKERS[m].id, stream, data, SIZES[s]);
                fby__buf_fini(&stream);
                free(data);
            }
}

static void an_empty_stream_holds_no_bytes_in_every_codec(void **state)
{
    (void)state;
    fby_error err;
    for (int id = 0; id < FBY__CODEC_COUNT; id++) {
        assert_int_equal(fby__codec_decompress(&g_state, (fby__codec_id)id, (fby__bytes){NULL, 0}, NULL, 0, &err), FBY_OK);
        refuse((fby__codec_id)id, NULL, 0, 8);
    }
}

static void a_stream_that_is_not_empty_may_hold_no_bytes(void **state)
{
    (void)state;
    fby_error err;
    for (size_t m = 1; m < N_MAKERS; m++) {
        if (!can_make(&MAKERS[m]))
            continue;
        fby__buf stream = {0};
        MAKERS[m].put(&stream, (const uint8_t *)"", 0);
        assert_true(stream.n > 0);
        expect(MAKERS[m].id, stream, NULL, 0);
        /* A page without values has no buffer at all. */
        assert_int_equal(fby__codec_decompress(&g_state, MAKERS[m].id, (fby__bytes){stream.data, stream.n}, NULL, 0, &err), FBY_OK);
        refuse(MAKERS[m].id, stream.data, stream.n, 1);
        fby__buf_fini(&stream);
    }
    /* What Hadoop writes for no input: the size of a block that never comes. */
    expect(FBY__CODEC_LZ4, (fby__buf){.data = (uint8_t[]){0, 0, 0, 0}, .n = 4}, NULL, 0);
    /* Brotli's shortest streams of nothing: window size, ISLAST, ISLASTEMPTY. */
    expect(FBY__CODEC_BROTLI, (fby__buf){.data = (uint8_t[]){0x06}, .n = 1}, NULL, 0);
    expect(FBY__CODEC_BROTLI, (fby__buf){.data = (uint8_t[]){0x3b}, .n = 1}, NULL, 0);
}

static void a_stream_of_another_size_is_refused_naming_codec_and_sizes(void **state)
{
    (void)state;
    const size_t n = 5000;
    uint8_t *data = make_data(3, n);
    for (size_t m = 0; m < N_MAKERS; m++) {
        if (!can_make(&MAKERS[m]))
            continue;
        fby__buf stream = {0};
        MAKERS[m].put(&stream, data, n);
        static const size_t WRONG[] = {0, 1, 2500, 4999, 5001, 5100, 100000};
        for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++)
            refuse(MAKERS[m].id, stream.data, stream.n, WRONG[i]);
        fby__buf_fini(&stream);
    }
    free(data);
}

static void a_stream_cut_at_any_byte_is_refused(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        const size_t n = 1500;
        uint8_t *data = make_data(kind, n);
        for (size_t m = 0; m < N_MAKERS; m++) {
            if (!can_make(&MAKERS[m]))
                continue;
            fby__buf stream = {0};
            MAKERS[m].put(&stream, data, n);
            for (size_t cut = 0; cut < stream.n; cut++)
                refuse(MAKERS[m].id, stream.data, cut, n);
            fby__buf_fini(&stream);
        }
        free(data);
    }
}

static void bytes_after_the_end_of_a_stream_are_refused(void **state)
{
    (void)state;
    const size_t n = 1000;
    uint8_t *data = make_data(2, n);
    for (size_t m = 0; m < N_MAKERS; m++) {
        if (!can_make(&MAKERS[m]))
            continue;
        fby__buf stream = {0};
        MAKERS[m].put(&stream, data, n);
        put(&stream, "noise", 5);
        refuse(MAKERS[m].id, stream.data, stream.n, n);
        fby__buf_fini(&stream);
    }
    free(data);
}

static void gzip_streams_may_have_several_members_and_zero_padding(void **state)
{
    (void)state;
    const size_t n = 30000;
    uint8_t *data = make_data(3, n);
    fby__buf stream = {0};
    put_gzip(&stream, data, 1);
    put_gzip(&stream, data + 1, 0);
    put_gzip(&stream, data + 1, 12345);
    put_gzip(&stream, data + 12346, n - 12346);
    put_gzip(&stream, data, 0);
    expect(FBY__CODEC_GZIP, stream, data, n);
    refuse(FBY__CODEC_GZIP, stream.data, stream.n, n - 1);
    refuse(FBY__CODEC_GZIP, stream.data, stream.n, n + 1);
    put(&stream, "\0\0\0\0\0", 5);
    expect(FBY__CODEC_GZIP, stream, data, n);
    put(&stream, "\1", 1);
    refuse(FBY__CODEC_GZIP, stream.data, stream.n, n);
    fby__buf_fini(&stream);
    free(data);
}

static void gzip_verifies_the_check_sums(void **state)
{
    (void)state;
    const size_t n = 1000;
    uint8_t *data = make_data(1, n);
    for (int zlib = 0; zlib < 2; zlib++) {
        fby__buf stream = {0};
        put_deflate(&stream, data, n, zlib);
        stream.data[stream.n / 2] ^= 4; /* a literal: the stream stays valid, its sum does not */
        refuse(FBY__CODEC_GZIP, stream.data, stream.n, n);
        fby__buf_fini(&stream);
    }
    free(data);
}

static void zstd_streams_may_have_several_frames_and_skippable_ones(void **state)
{
    (void)state;
    const size_t n = 30000;
    uint8_t *data = make_data(3, n);
    fby__buf stream = {0};
    put(&stream, "\x50\x2a\x4d\x18\x03\x00\x00\x00xyz", 11);
    put_zstd(&stream, data, 1000);
    put_zstd(&stream, data, 0);
    put(&stream, "\x5f\x2a\x4d\x18\x00\x00\x00\x00", 8);
    put_zstd(&stream, data + 1000, n - 1000);
    expect(FBY__CODEC_ZSTD, stream, data, n);
    refuse(FBY__CODEC_ZSTD, stream.data, stream.n, n + 1);
    fby__buf_fini(&stream);
    free(data);
}

static void hadoop_lz4_may_have_several_blocks_of_several_chunks(void **state)
{
    (void)state;
    const size_t n = 30000;
    uint8_t *data = make_data(3, n);
    fby__buf stream = {0};
    put_lz4_hadoop(&stream, data, 10000);
    put_be32(&stream, 15000); /* one block of three chunks */
    put_lz4_chunk(&stream, data + 10000, 7000);
    put_lz4_chunk(&stream, data + 17000, 7999);
    put_lz4_chunk(&stream, data + 24999, 1);
    put_lz4_hadoop(&stream, data + 25000, n - 25000);
    expect(FBY__CODEC_LZ4, stream, data, n);
    for (size_t cut = 0; cut < stream.n; cut++)
        refuse(FBY__CODEC_LZ4, stream.data, cut, n);
    fby__buf_fini(&stream);
    free(data);
}

static void lz4_frames_may_follow_each_other(void **state)
{
    (void)state;
    const size_t n = 200000;
    uint8_t *data = make_data(3, n);
    fby__buf stream = {0};
    put_lz4_frame(&stream, data, 70000);
    put_lz4_frame(&stream, data, 0);
    put_lz4_frame(&stream, data + 70000, n - 70000);
    expect(FBY__CODEC_LZ4, stream, data, n);
    /* A frame that failed half-way must not disturb the next use of the same context. */
    refuse(FBY__CODEC_LZ4, stream.data, stream.n - 3, n);
    expect(FBY__CODEC_LZ4, stream, data, n);
    fby__buf_fini(&stream);
    free(data);
}

/* Written by the encoder that Arrow uses: "forebay " 200 times. */
static void a_golden_brotli_stream_is_read(void **state)
{
    (void)state;
    static const uint8_t STREAM[] = {0x1b, 0x3f, 0x06, 0x00, 0xc4, 0x63, 0x6c, 0x5d, 0xfb, 0x52,
                                     0x5c, 0xe5, 0x09, 0xdf, 0xc2, 0x21, 0x5f, 0x3a, 0x8b, 0x07};
    uint8_t data[1600];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t) "forebay "[i % 8];
    expect(FBY__CODEC_BROTLI, (fby__buf){.data = (uint8_t *)(uintptr_t)STREAM, .n = sizeof STREAM}, data, sizeof data);
    for (size_t cut = 0; cut < sizeof STREAM; cut++)
        refuse(FBY__CODEC_BROTLI, STREAM, cut, sizeof data);
    refuse(FBY__CODEC_BROTLI, STREAM, sizeof STREAM, sizeof data - 1);
    refuse(FBY__CODEC_BROTLI, STREAM, sizeof STREAM, sizeof data + 1);
}

static void noise_never_crashes_or_writes_outside(void **state)
{
    (void)state;
    fby__random r = {.key = SEED};
    print_message("seed %d\n", SEED);
    uint8_t src[300];
    fby_error err;
    for (int i = 0; i < 40000; i++) {
        fby__codec_id id = (fby__codec_id)(i % FBY__CODEC_COUNT);
        size_t n = fby__random_below(&r, sizeof src), dst_n = fby__random_below(&r, 2000);
        for (size_t k = 0; k < n; k++)
            src[k] = (uint8_t)fby__random_next(&r);
        fby_status status = decompress(id, src, n, NULL, dst_n, &err);
        assert_true(status == FBY_OK || status == FBY_E_FORMAT);
    }
}

static void damaged_streams_never_crash_or_write_outside(void **state)
{
    (void)state;
    fby__random r = {.key = SEED, .stream = 1};
    print_message("seed %d\n", SEED);
    const size_t n = 3000;
    fby_error err;
    for (size_t m = 0; m < N_MAKERS; m++)
        for (int kind = 1; can_make(&MAKERS[m]) && kind < 4; kind++) {
            uint8_t *data = make_data(kind, n);
            fby__buf stream = {0};
            MAKERS[m].put(&stream, data, n);
            uint8_t *copy = room(stream.n);
            for (int i = 0; i < 1500; i++) {
                memcpy(copy, stream.data, stream.n);
                for (uint64_t k = 1 + fby__random_below(&r, 4); k > 0; k--)
                    copy[fby__random_below(&r, i % 2 ? stream.n : stream.n < 40 ? stream.n : 40)] = (uint8_t)fby__random_next(&r);
                fby_status status = decompress(MAKERS[m].id, copy, stream.n, NULL, n, &err);
                assert_true(status == FBY_OK || status == FBY_E_FORMAT);
            }
            /* After all that damage the same context still works. */
            expect(MAKERS[m].id, stream, data, n);
            free(copy);
            fby__buf_fini(&stream);
            free(data);
        }
}

static void every_failing_allocation_is_reported_and_the_state_stays_usable(void **state)
{
    (void)state;
    const size_t n = 5000;
    uint8_t *data = make_data(3, n), *out = room(n);
    uint64_t injected = 0;
    for (size_t m = 0; m < N_MAKERS; m++) {
        if (!can_make(&MAKERS[m]))
            continue;
        fby__buf stream = {0};
        MAKERS[m].put(&stream, data, n);
        fby__bytes src = {stream.data, stream.n};
        for (uint64_t at = 1;; at++) {
            fby__codec_state fresh = {0};
            fby_error err;
            uint64_t before = fby__alloc_count();
            fby__alloc_fail_at(at);
            fby_status status = fby__codec_decompress(&fresh, MAKERS[m].id, src, out, n, &err);
            bool hit = fby__alloc_count() - before >= at;
            fby__alloc_fail_at(0);
            assert_int_equal(status, hit ? FBY_E_NOMEM : FBY_OK);
            injected += hit;
            assert_int_equal(fby__codec_decompress(&fresh, MAKERS[m].id, src, out, n, &err), FBY_OK);
            assert_memory_equal(out, data, n);
            fby__codec_state_fini(&fresh);
            fby__codec_state_fini(&fresh); /* a released state is an empty one */
            if (!hit)
                break;
        }
        fby__buf_fini(&stream);
    }
    print_message("%llu allocations failed in turn\n", (unsigned long long)injected);
    assert_true(injected >= 3);
    free(out);
    free(data);
}

static void every_failing_allocation_of_a_compressor_is_reported(void **state)
{
    (void)state;
    static const fby__codec_id WRITTEN[] = {FBY__CODEC_SNAPPY, FBY__CODEC_ZSTD, FBY__CODEC_LZ4_RAW, FBY__CODEC_LZ4_FRAME};
    const size_t n = 5000;
    uint8_t *data = make_data(3, n);
    for (size_t c = 0; c < sizeof WRITTEN / sizeof *WRITTEN; c++)
        for (uint64_t at = 1;; at++) {
            fby__codec_state fresh = {0};
            fby__buf out = {0};
            fby_error err;
            uint64_t before = fby__alloc_count();
            fby__alloc_fail_at(at);
            fby_status status = fby__codec_compress(&fresh, WRITTEN[c], 0, (fby__bytes){data, n}, &out, &err);
            bool hit = fby__alloc_count() - before >= at;
            fby__alloc_fail_at(0);
            assert_int_equal(status, hit ? FBY_E_NOMEM : FBY_OK);
            assert_int_equal(out.n != 0, !hit);
            fby__buf_fini(&out);
            fby__codec_state_fini(&fresh);
            if (!hit)
                break;
        }
    free(data);
}

static void compressed_bytes_are_appended_and_the_level_counts(void **state)
{
    (void)state;
    const size_t n = 300001;
    uint8_t *data = make_data(3, n);
    fby__codec_state codecs = {0};
    fby__buf low = {0}, high = {0};
    put(&low, "head", 4);
    assert_int_equal(fby__codec_compress(&codecs, FBY__CODEC_ZSTD, 1, (fby__bytes){data, n}, &low, NULL), FBY_OK);
    assert_int_equal(fby__codec_compress(&codecs, FBY__CODEC_ZSTD, 19, (fby__bytes){data, n}, &high, NULL), FBY_OK);
    assert_memory_equal(low.data, "head", 4);
    assert_true(high.n < low.n - 4);
    expect(FBY__CODEC_ZSTD, (fby__buf){.data = low.data + 4, .n = low.n - 4}, data, n);
    fby__buf_fini(&low);
    fby__buf_fini(&high);
    fby__codec_state_fini(&codecs);
    free(data);
}

static void unknown_codecs_are_refused(void **state)
{
    (void)state;
    fby_error err;
    uint8_t byte = 0;
    fby__buf out = {0};
    assert_int_equal(fby__codec_compress(&g_state, FBY__CODEC_GZIP, 0, (fby__bytes){&byte, 1}, &out, &err), FBY_E_ARG);
    assert_non_null(strstr(err.message, "gzip"));
    assert_int_equal(fby__codec_compress(&g_state, (fby__codec_id)99, 0, (fby__bytes){&byte, 1}, &out, &err), FBY_E_ARG);
    assert_null(out.data);
    assert_int_equal(decompress((fby__codec_id)99, &byte, 1, NULL, 1, &err), FBY_E_ARG);
    assert_string_equal(fby__codec_name((fby__codec_id)99), "unknown codec");
    assert_string_equal(fby__codec_name(FBY__CODEC_LZ4_RAW), "lz4_raw");
}

int main(void)
{
    void *lib = dlopen("libbrotlienc.so.1", RTLD_NOW);
    if (lib)
        *(void **)&g_brotli = dlsym(lib, "BrotliEncoderCompress");
    if (!g_brotli)
        print_message("skipped for want of libbrotlienc.so.1: generated Brotli streams (the golden ones are tested)\n");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_codec_gives_back_what_its_library_compressed),
        cmocka_unit_test(an_empty_stream_holds_no_bytes_in_every_codec),
        cmocka_unit_test(a_stream_that_is_not_empty_may_hold_no_bytes),
        cmocka_unit_test(a_stream_of_another_size_is_refused_naming_codec_and_sizes),
        cmocka_unit_test(a_stream_cut_at_any_byte_is_refused),
        cmocka_unit_test(bytes_after_the_end_of_a_stream_are_refused),
        cmocka_unit_test(gzip_streams_may_have_several_members_and_zero_padding),
        cmocka_unit_test(gzip_verifies_the_check_sums),
        cmocka_unit_test(zstd_streams_may_have_several_frames_and_skippable_ones),
        cmocka_unit_test(hadoop_lz4_may_have_several_blocks_of_several_chunks),
        cmocka_unit_test(lz4_frames_may_follow_each_other),
        cmocka_unit_test(a_golden_brotli_stream_is_read),
        cmocka_unit_test(noise_never_crashes_or_writes_outside),
        cmocka_unit_test(damaged_streams_never_crash_or_write_outside),
        cmocka_unit_test(every_failing_allocation_is_reported_and_the_state_stays_usable),
        cmocka_unit_test(every_failing_allocation_of_a_compressor_is_reported),
        cmocka_unit_test(compressed_bytes_are_appended_and_the_level_counts),
        cmocka_unit_test(unknown_codecs_are_refused),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    fby__codec_state_fini(&g_state);
    return failed;
}
