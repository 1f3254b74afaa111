/* Global heaps of HDF5, which hold values of variable length: of libhdf5 (tests/golden/hdf5_tree), made by hand, and damaged; the cache of them. */
#include "format/h5_image.h"

typedef struct value_reader {
    fby__h5_file *f;
    const fby__h5_object *object;
    fby__h5_global_cache cache;
} value_reader;

/* Element i of a contiguous data set of variable-length values. */
static fby__bytes value(value_reader *r, uint64_t i)
{
    fby__bytes element, out = {0};
    fby_error err;
    assert_int_equal(r->object->layout, FBY__H5_CONTIGUOUS);
    assert_int_equal(fby__h5_view(r->f, r->object->data_address + 16 * i, 16, "element", &element, &err), FBY_OK);
    uint32_t n = fby__load_u32(element.data);
    if (n && fby__h5_global_get(&r->cache, r->f->file, r->f->base, r->f->offset_bytes, r->f->length_bytes, fby__load_u64(element.data + 4),
                                fby__load_u32(element.data + 12), &out, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return out;
}

static void variable_length_values_are_read_from_global_heaps(void **state)
{
    (void)state;
    fby__h5_tree t;
    value_reader r = {.f = open_golden_tree("values", &t)};
    r.object = fby__h5_tree_find(&t, "text")->object;
    for (int pass = 0; pass < 2; pass++)
        for (unsigned i = 0; i < 400; i++) {
            char one[16], wanted[200] = "";
            snprintf(one, sizeof one, "s%u", i);
            for (unsigned k = 0; k < i % 9; k++)
                strcat(wanted, one);
            fby__bytes got = value(&r, i);
            assert_int_equal(got.n, strlen(wanted));
            if (got.n)
                assert_memory_equal(got.data, wanted, got.n);
        }
    r.object = fby__h5_tree_find(&t, "long")->object;
    assert_int_equal(value(&r, 0).n, 5000);
    assert_int_equal(value(&r, 0).data[4999], 'x');
    assert_memory_equal(value(&r, 2).data, "end", 3);
    r.object = fby__h5_tree_find(&t, "list")->object;
    for (unsigned i = 0; i < 20; i++) {
        fby__bytes got = value(&r, i);
        assert_int_equal(got.n, 2 * i);
        for (unsigned k = 0; k < i; k++)
            assert_int_equal(fby__load_u16(got.data + 2 * (size_t)k), k * 3);
    }
    fby_error err;
    fby__bytes out;
    const fby__h5_file *f = r.f;
    assert_int_equal(fby__h5_global_get(&r.cache, f->file, f->base, 8, 8, f->end, 1, &out, &err), FBY_E_FORMAT);
    assert_int_equal(fby__h5_global_get(&r.cache, f->file, f->base, 8, 8, FBY__H5_UNDEFINED, 1, &out, &err), FBY_E_FORMAT);
    assert_int_equal(fby__h5_global_get(&r.cache, f->file, f->base, 8, 8, 0, 1, &out, &err), FBY_E_FORMAT);
    fby__h5_global_fini(&r.cache);
    fby__h5_file_close(r.f);
}

/* A collection with one object of n - 32 bytes, each of them `fill`, numbered 3. */
static uint64_t put_collection(image *im, size_t n, uint8_t fill)
{
    uint64_t at = place(im, n);
    pen p = pen_at(im, at);
    p_text(&p, "GCOL");
    p_uint(&p, 1, 4);
    p_uint(&p, n, 8);
    p_uint(&p, 3, 2);
    p_uint(&p, 1, 6);
    p_uint(&p, n - 32, 8);
    memset(im->data + p.at, fill, n - 32);
    return at;
}

static void the_cache_of_global_heaps_is_bounded(void **state)
{
    (void)state;
    enum { N = 24, BYTES = 3 << 20 };
    image im;
    image_init(&im);
    uint64_t at[N + 1];
    for (unsigned i = 0; i < N; i++)
        at[i] = put_collection(&im, i % 2 ? BYTES : 4096, (uint8_t)(i + 1));
    at[N] = put_collection(&im, FBY__H5_GLOBAL_CACHE_BYTES + 4096, 99); /* larger than the cache: held alone */
    fby__file *file = file_of(im.data, im.n);
    fby__h5_global_cache cache = {0};
    fby_error err;
    for (unsigned pass = 0; pass < 3; pass++)
        for (unsigned i = 0; i <= N; i++) {
            fby__bytes got;
            if (fby__h5_global_get(&cache, file, 0, 8, 8, at[i], 3, &got, &err) != FBY_OK)
                fail_msg("%s", err.message);
            assert_int_equal(got.data[got.n - 1], i == N ? 99 : i + 1);
            if (i < N)
                assert_in_range(cache.bytes, 1, FBY__H5_GLOBAL_CACHE_BYTES);
            assert_int_equal(fby__h5_global_get(&cache, file, 0, 8, 8, at[i], 2, &got, &err), FBY_E_FORMAT);
            assert_int_equal(fby__h5_global_get(&cache, file, 0, 8, 8, at[i], 4, &got, &err), FBY_E_FORMAT);
        }
    fby__h5_global_fini(&cache);
    assert_int_equal(cache.n, 0);
    fby__file_unref(file);
    image_fini(&im);
}

static void damaged_global_heaps_are_errors(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        uint64_t v;
        unsigned n;
    } damage[] = {{0, 'X', 1}, {4, 2, 1},          {8, 1u << 20, 8},    {8, UINT64_MAX - 3, 8},
                  {8, 15, 8},  {24, 4096 - 31, 8}, {24, UINT64_MAX, 8}, {16 + 16 + 8, 3, 2} /* a second number 3 */,
                  {16, 0, 2}};
    for (size_t i = 0; i < COUNT(damage); i++) {
        image im;
        image_init(&im);
        uint64_t at = put_collection(&im, 4096, 0);
        if (damage[i].at == 40) { /* the first object has 8 bytes: another follows */
            pen p = pen_at(&im, at + 24);
            p_uint(&p, 8, 8);
        }
        pen p = pen_at(&im, at + damage[i].at);
        p_uint(&p, damage[i].v, damage[i].n);
        fby__file *file = file_of(im.data, im.n);
        fby__h5_global_cache cache = {0};
        fby__bytes got;
        fby_error err;
        fby_status status = fby__h5_global_get(&cache, file, 0, 8, 8, at, 3, &got, &err);
        assert_int_equal(status, damage[i].at == 4 ? FBY_E_UNSUPPORTED : FBY_E_FORMAT);
        fby__h5_global_fini(&cache);
        fby__file_unref(file);
        image_fini(&im);
    }
    size_t n;
    uint8_t *data = read_golden("values.h5", &n);
    const uint8_t *collection = memmem(data, n, "GCOL", 4);
    assert_non_null(collection);
    const uint64_t address = (uint64_t)(collection - data);
    uint32_t sums = 0;                    /* so that a sanitizer sees every byte */
    for (size_t at = 0; at < 600; at++) { /* every byte of the first objects: their data too, which has no checksum */
        data[address + at] ^= 0x81;
        fby__file *file = file_of(data, n);
        fby__h5_global_cache cache = {0};
        fby_error err;
        for (uint32_t index = 0; index < 300; index++) {
            fby__bytes got;
            if (fby__h5_global_get(&cache, file, 0, 8, 8, address, index, &got, &err) == FBY_OK)
                sums |= fby__h5_checksum(got.data, got.n);
        }
        fby__h5_global_fini(&cache);
        fby__file_unref(file);
        data[address + at] ^= 0x81;
    }
    assert_int_not_equal(sums, 0);
    fby__free(data);
}

static void a_cache_of_global_heaps_survives_failing_allocations_and_reads(void **state)
{
    (void)state;
    image im;
    image_init(&im);
    uint64_t at[20];
    for (unsigned i = 0; i < COUNT(at); i++)
        at[i] = put_collection(&im, 4096, (uint8_t)i);
    fby__file *file = file_of(im.data, im.n);
    for (int reads = 0; reads < 2; reads++) {
        fby_status status = FBY_E_INTERNAL;
        for (uint64_t n = 1; status != FBY_OK; n++) {
            fby__h5_global_cache cache = {0};
            fby_error err;
            fby__bytes got;
            if (reads)
                fby__io_set_fault(&(fby__io_fault){.fail_at = n});
            else
                fby__alloc_fail_at(n);
            status = FBY_OK;
            for (unsigned i = 0; status == FBY_OK && i < COUNT(at); i++)
                status = fby__h5_global_get(&cache, file, 0, 8, 8, at[i], 3, &got, &err);
            fby__io_set_fault(&(fby__io_fault){0});
            fby__alloc_fail_at(0);
            if (status != FBY_OK)
                assert_int_equal(status, reads ? FBY_E_IO : FBY_E_NOMEM);
            fby__h5_global_fini(&cache);
        }
    }
    fby__file_unref(file);
    image_fini(&im);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variable_length_values_are_read_from_global_heaps),
        cmocka_unit_test(the_cache_of_global_heaps_is_bounded),
        cmocka_unit_test(damaged_global_heaps_are_errors),
        cmocka_unit_test(a_cache_of_global_heaps_survives_failing_allocations_and_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
