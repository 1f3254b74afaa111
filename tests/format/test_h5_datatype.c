/*
 * Datatypes: every class as libhdf5 writes it in its oldest and newest format (tests/golden/make_hdf5_golden.py says what is in
 * the files), forms that are written no more by hand, damage; and the conversion of elements against one that takes bit by bit.
 */
#include "format/h5_image.h"

#include "base/random.h"
#include "block/simd_variants.h"

/* ---- golden files ---- */

static const char *const BOUNDS[] = {"earliest", "latest"};

static fby__h5_file *open_golden(const char *name, const char *bound, fby__h5_tree *tree)
{
    char path[512];
    snprintf(path, sizeof path, "%s/golden/hdf5/%s_%s.h5", FBY_TEST_DATA, name, bound);
    fby__file *file = NULL;
    fby__h5_file *f = NULL;
    fby_error err;
    if (fby__file_open(path, NULL, &file, &err) != FBY_OK || fby__h5_file_open(file, &f, &err) != FBY_OK ||
        fby__h5_tree_read(f, tree, &err) != FBY_OK)
        fail_msg("%s: %s", path, err.message);
    fby__file_unref(file);
    return f;
}

static const fby__h5_object *object_of(const fby__h5_tree *tree, const char *path)
{
    const fby__h5_entry *e = fby__h5_tree_find(tree, path);
    if (!e || !e->object || e->declined)
        fail_msg("%s: %s", path, e && e->declined ? e->declined : "not there");
    return e->object;
}

static void check_text(const fby__h5_type *type, const char *want)
{
    char text[512];
    assert_int_equal(fby__h5_type_text(type, text, sizeof text), strlen(want));
    assert_string_equal(text, want);
    char part[8]; /* as snprintf */
    assert_int_equal(fby__h5_type_text(type, part, sizeof part), strlen(want));
    assert_memory_equal(part, want, strlen(want) < 7 ? strlen(want) + 1 : 7);
    assert_int_equal(fby__h5_type_text(type, NULL, 0), strlen(want));
}

static void every_class_has_its_name_and_dtype(void **state)
{
    (void)state;
    static const struct {
        const char *file, *path, *text;
        fby_dtype dtype;
        bool native;
    } want[] = {
        {"types", "i1", "int8", FBY_INT8, true},
        {"types", "u1", "uint8", FBY_UINT8, true},
        {"types", "le_i2", "int16", FBY_INT16, true},
        {"types", "be_i2", "int16 (big-endian)", FBY_INT16, false},
        {"types", "le_u4", "uint32", FBY_UINT32, true},
        {"types", "be_u8", "uint64 (big-endian)", FBY_UINT64, false},
        {"types", "le_f2", "float16", FBY_FLOAT16, true},
        {"types", "be_f2", "float16 (big-endian)", FBY_FLOAT16, false},
        {"types", "bfloat16", "bfloat16", FBY_BFLOAT16, true},
        {"types", "be_f4", "float32 (big-endian)", FBY_FLOAT32, false},
        {"types", "le_f8", "float64", FBY_FLOAT64, true},
        {"types", "int24", "int24", FBY_INT32, false},
        {"types", "be_uint40", "uint40 (big-endian)", FBY_UINT64, false},
        {"types", "be_int12_at_4", "int16 (12 bits at 4, big-endian)", FBY_INT16, false},
        {"types", "uint20_at_7", "uint32 (20 bits at 7)", FBY_UINT32, false},
        {"types", "bitfield16", "bitfield16", FBY_UINT16, true},
        {"types", "bool", "bool", FBY_BOOL, false},
        {"types", "enum", "enum {BLUE, GREEN, RED} of int16", FBY_INT16, true},
        {"types", "opaque", "opaque of 5 bytes", FBY_DTYPE_NONE, false},
        {"types", "tagged", "opaque of 3 bytes (a tag)", FBY_DTYPE_NONE, false},
        {"types", "time", "time of 32 bits", FBY_DTYPE_NONE, false},
        {"types", "text7", "string of 7 bytes (NUL-padded, ASCII)", FBY_DTYPE_NONE, false},
        {"types", "fortran", "string of 4 bytes (space-padded, ASCII)", FBY_DTYPE_NONE, false},
        {"types", "utf8", "string of 6 bytes (NUL-terminated, UTF-8)", FBY_DTYPE_NONE, false},
        {"parts", "strings", "vlen string (UTF-8)", FBY_DTYPE_NONE, false},
        {"parts", "strings_ascii", "vlen string (ASCII)", FBY_DTYPE_NONE, false},
        {"parts", "ragged", "vlen of float32 (big-endian)", FBY_DTYPE_NONE, false},
        {"parts", "complex", "compound {r: float32, i: float32}", FBY_DTYPE_NONE, false},
        {"parts", "compound",
         "compound {a: int32, long name of a member: compound {u: uint8, v: array [2, 3] of float64 (big-endian)}, "
         "s: string of 3 bytes (NUL-padded, ASCII)}",
         FBY_DTYPE_NONE, false},
        {"parts", "flat_compound", "compound {i: int16, x: float32}", FBY_DTYPE_NONE, false},
        {"parts", "array", "array [4, 2] of int16 (big-endian)", FBY_DTYPE_NONE, false},
        {"parts", "array_of_strings", "array [2] of vlen string (UTF-8)", FBY_DTYPE_NONE, false},
        {"parts", "reference", "object reference", FBY_DTYPE_NONE, false},
        {"parts", "region", "region reference", FBY_DTYPE_NONE, false},
        {"parts", "x86_extended", "float128 of 15 exponent and 64 mantissa bits", FBY_DTYPE_NONE, false},
        {"parts", "null", "float32", FBY_FLOAT32, true},
    };
    for (int b = 0; b < 2; b++) {
        fby__h5_tree trees[2];
        fby__h5_file *files[] = {open_golden("types", BOUNDS[b], &trees[0]), open_golden("parts", BOUNDS[b], &trees[1])};
        for (size_t i = 0; i < COUNT(want); i++) {
            const fby__h5_type *t = object_of(&trees[strcmp(want[i].file, "parts") == 0], want[i].path)->type;
            check_text(t, want[i].text);
            assert_int_equal(fby__h5_type_dtype(t), want[i].dtype);
            assert_int_equal(fby__h5_type_is_native(t), want[i].native);
        }
        const fby__h5_type *t = object_of(&trees[1], "compound")->type;
        assert_int_equal(t->bytes, 320);
        assert_int_equal(t->members[1].offset, 16);
        assert_int_equal(t->members[2].offset, 300);
        assert_int_equal(t->members[1].type->members[1].offset, 1);
        assert_true(object_of(&trees[1], "null")->space.null);
        t = object_of(&trees[0], "enum")->type;
        assert_int_equal(t->n_members, 3);
        assert_int_equal(fby__load_u16(t->members[1].value), 300);
        assert_int_equal((int16_t)fby__load_u16(t->members[2].value), -1);
        fby__h5_file_close(files[0]);
        fby__h5_file_close(files[1]);
    }
}

/* v × factor for v = -3 … 4, as whatever dtype; unsigned ones have v wrapped, as NumPy does, or v + 3. */
static void stored_elements_become_the_numbers_that_h5py_wrote(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        int64_t add, factor; /* (v + add) * factor */
    } ints[] = {{"i1", 0, 3},
                {"u1", 0, 3},
                {"le_i2", 0, 3},
                {"be_i2", 0, 3},
                {"le_u4", 0, 3},
                {"be_i4", 0, 3},
                {"be_u4", 0, 3},
                {"le_i8", 0, 3},
                {"be_i8", 0, 3},
                {"be_u8", 0, 3},
                {"int24", 0, 70000},
                {"be_uint40", 3, 1ll << 33},
                {"be_int12_at_4", 0, 1},
                {"uint20_at_7", 3, 1}};
    for (int b = 0; b < 2; b++) {
        fby__h5_tree tree;
        fby__h5_file *f = open_golden("types", BOUNDS[b], &tree);
        fby_error err;
        fby__bytes raw;
        for (size_t i = 0; i < COUNT(ints); i++) {
            const fby__h5_object *o = object_of(&tree, ints[i].path);
            assert_int_equal(fby__h5_view(f, o->data_address, o->data_bytes, "data", &raw, &err), FBY_OK);
            const size_t word = fby_dtype_bytes(fby__h5_type_dtype(o->type));
            uint8_t out[64];
            fby__h5_type_convert(o->type, raw.data, o->type->bytes, 8, out);
            for (int v = 0; v < 8; v++) {
                uint64_t got = 0, want = (uint64_t)((v - 3 + ints[i].add) * ints[i].factor);
                memcpy(&got, out + (size_t)v * word, word);
                if (word < 8)
                    want &= ((uint64_t)1 << 8 * word) - 1;
                if (got != want)
                    fail_msg("%s: element %d is %" PRIx64 ", not %" PRIx64, ints[i].path, v, got, want);
            }
        }
        static const char *const floats[] = {"le_f2", "be_f2", "le_f4", "be_f4", "le_f8", "be_f8"};
        static const uint16_t halves[] = {0xbe00, 0xbc00, 0xb800, 0, 0x3800, 0x3c00, 0x3e00, 0x4000};
        for (size_t i = 0; i < COUNT(floats); i++) {
            const fby__h5_object *o = object_of(&tree, floats[i]);
            assert_int_equal(fby__h5_view(f, o->data_address, o->data_bytes, "data", &raw, &err), FBY_OK);
            union {
                uint16_t h[8];
                float s[8];
                double d[8];
            } out;
            fby__h5_type_convert(o->type, raw.data, o->type->bytes, 8, &out);
            for (int v = 0; v < 8; v++)
                assert_true(o->type->bytes == 2 ? out.h[v] == halves[v] : (o->type->bytes == 4 ? out.s[v] : out.d[v]) == (v - 3) * 0.5);
        }
        const fby__h5_object *o = object_of(&tree, "bool");
        assert_int_equal(fby__h5_view(f, o->data_address, o->data_bytes, "data", &raw, &err), FBY_OK);
        uint8_t bools[3];
        fby__h5_type_convert(o->type, raw.data, 1, 3, bools);
        assert_memory_equal(bools, "\1\0\1", 3);
        fby__h5_file_close(f);
    }
}

/* ---- by hand ---- */

typedef struct maker {
    image im;
    fby__h5_file *f;
} maker;

static maker make(void)
{
    maker m = {0};
    image_init(&m.im);
    image_finish(&m.im, place(&m.im, 64));
    m.f = open_image(&m.im);
    return m;
}

static void unmake(maker *m)
{
    fby__h5_file_close(m->f);
    image_fini(&m->im);
}

static void put(fby__buf *b, uint64_t v, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(fby__buf_put(b, &(uint8_t){(uint8_t)(i < 8 ? v >> (8 * i) : 0)}, 1), 0);
}

static void put_head(fby__buf *b, unsigned version, fby__h5_class class, uint32_t bits, uint32_t bytes)
{
    put(b, version << 4 | class, 1);
    put(b, bits, 3);
    put(b, bytes, 4);
}

static void put_int(fby__buf *b, unsigned version, uint32_t bytes)
{
    put_head(b, version, FBY__H5_INTEGER, 8, bytes);
    put(b, (uint64_t)bytes * 8 << 16, 4);
}

/* In an allocation that ends where the bytes end. */
static fby_status parse(maker *m, const fby__buf *b, const fby__h5_type **out, fby_error *err)
{
    uint8_t *tight = malloc(b->n ? b->n : 1);
    assert_non_null(tight);
    if (b->n)
        memcpy(tight, b->data, b->n);
    fby__h5_cursor c = fby__h5_cursor_of(m->f, (fby__bytes){tight, b->n}, 48, "datatype");
    const fby_status st = fby__h5_type_parse(m->f, &c, out, err);
    if (st == FBY_OK)
        assert_int_equal(c.end - c.at, 0);
    free(tight);
    return st;
}

/* Every shorter message is damage, with an offset. Consumes b. */
static const fby__h5_type *check_parse(maker *m, fby__buf *b)
{
    const fby__h5_type *t = NULL, *ignored;
    fby_error err;
    const size_t n = b->n;
    if (parse(m, b, &t, &err) != FBY_OK)
        fail_msg("%s", err.message);
    for (b->n = 0; b->n < n; b->n++) {
        assert_int_equal(parse(m, b, &ignored, &err), FBY_E_FORMAT);
        assert_in_range(err.file_offset, 48, 48 + n);
    }
    fby__buf_fini(b);
    return t;
}

static void compounds_of_version_1_have_arrays_of_their_own(void **state)
{
    (void)state;
    maker m = make();
    fby__buf b = {0};
    put_head(&b, 1, FBY__H5_COMPOUND, 2, 32);
    put(&b, 'x', 8); /* name, padded */
    put(&b, 4, 4);
    put(&b, 2, 4); /* two dimensions */
    put(&b, 0, 8);
    put(&b, 3 | (uint64_t)4 << 32, 16);
    put_int(&b, 1, 2);
    assert_int_equal(fby__buf_put(&b, "exactly8\0\0\0\0\0\0\0", 16), 0);
    put(&b, 0, 4);
    put(&b, 0, 4);
    put(&b, 0, 24);
    put_int(&b, 1, 4);
    const fby__h5_type *t = check_parse(&m, &b);
    check_text(t, "compound {x: array [3, 4] of int16, exactly8: int32}");
    assert_int_equal(t->members[0].offset, 4);
    assert_int_equal(t->members[0].type->bytes, 24);
    unmake(&m);
}

static void offsets_of_version_3_are_as_wide_as_the_size_needs(void **state)
{
    (void)state;
    static const struct {
        uint32_t bytes;
        unsigned width;
    } want[] = {{255, 1}, {256, 2}, {65535, 2}, {65536, 3}, {(1u << 24) - 1, 3}, {1u << 24, 4}, {UINT32_MAX, 4}};
    maker m = make();
    for (size_t i = 0; i < COUNT(want); i++) {
        fby__buf b = {0};
        put_head(&b, 3, FBY__H5_COMPOUND, 1, want[i].bytes);
        put(&b, 'q', 2);
        put(&b, want[i].bytes - 4, want[i].width);
        put_int(&b, 3, 4);
        const fby__h5_type *t = check_parse(&m, &b);
        assert_int_equal(t->members[0].offset, want[i].bytes - 4);
    }
    unmake(&m);
}

static void arrays_and_enums_of_versions_2_and_3_are_packed_differently(void **state)
{
    (void)state;
    maker m = make();
    for (unsigned version = 2; version <= 5; version++) {
        fby__buf b = {0};
        put_head(&b, version, FBY__H5_ARRAY, 0, 2 * 3 * 4);
        put(&b, 2, version == 2 ? 4 : 1);
        put(&b, 2, 4);
        put(&b, 3, 4);
        put(&b, 0, version == 2 ? 8 : 0);
        put_int(&b, version, 4);
        check_text(check_parse(&m, &b), "array [2, 3] of int32");
        put_head(&b, version, FBY__H5_ENUM, 2, 1);
        put_int(&b, version, 1);
        assert_int_equal(fby__buf_put(&b, "FALSE\0\0", version == 2 ? 8 : 6), 0);
        assert_int_equal(fby__buf_put(&b, "TRUE\0\0\0", version == 2 ? 8 : 5), 0);
        put(&b, 0x0100, 2);
        const fby__h5_type *t = check_parse(&m, &b);
        assert_int_equal(fby__h5_type_dtype(t), FBY_BOOL);
        uint8_t out[3];
        fby__h5_type_convert(t, (const uint8_t *)"\0\x80\1", 1, 3, out); /* what is not 0 is true */
        assert_memory_equal(out, "\0\1\1", 3);
    }
    unmake(&m);
}

static void floats_that_are_not_ieee_have_no_dtype(void **state)
{
    (void)state;
    maker m = make();
    for (int i = 0; i < 9; i++) {
        fby__buf b = {0};
        /* sign at 31, implied first bit; then each field wrong in turn */
        put_head(&b, 3, FBY__H5_FLOAT, (i == 1 ? 30u : 31u) << 8 | (i == 2 ? 0x10 : 0x20) | (i == 3 ? 0x41 : 0), i == 8 ? 8 : 4);
        put(&b, 0, 2);
        put(&b, i == 4 ? 31 : 32, 2);
        put(&b, i == 5 ? 22 : 23, 1);
        put(&b, 8, 1);
        put(&b, i == 6 ? 1 : 0, 1);
        put(&b, i == 6 ? 22 : 23, 1);
        put(&b, i == 7 ? 126 : 127, 4);
        const fby__h5_type *t = check_parse(&m, &b);
        assert_int_equal(fby__h5_type_dtype(t), i ? FBY_DTYPE_NONE : FBY_FLOAT32);
        if (i == 3)
            check_text(t, "float32 of 8 exponent and 23 mantissa bits (VAX order)");
    }
    unmake(&m);
}

static void damaged_types_are_refused(void **state)
{
    (void)state;
    maker m = make();
    fby_error err;
    const fby__h5_type *t;
    for (int i = 0; i < 18; i++) {
        fby__buf b = {0};
        fby_status want = FBY_E_FORMAT;
        switch (i) {
        case 0: /* version 0 */ put_int(&b, 0, 4); break;
        case 1: /* a newer version */
            put_int(&b, 6, 4);
            want = FBY_E_UNSUPPORTED;
            break;
        case 2: /* complex numbers of version 5 */
            put_head(&b, 5, (fby__h5_class)11, 0, 8);
            put_int(&b, 5, 4);
            want = FBY_E_UNSUPPORTED;
            break;
        case 3: /* no bytes */ put_head(&b, 1, FBY__H5_STRING, 0, 0); break;
        case 4: /* more bits than the element has */
            put_head(&b, 1, FBY__H5_INTEGER, 0, 4);
            put(&b, 1 | 32 << 16, 4);
            break;
        case 5: /* no bits */
            put_head(&b, 1, FBY__H5_INTEGER, 0, 4);
            put(&b, 0, 4);
            break;
        case 6: /* a float's mantissa outside */
            put_head(&b, 1, FBY__H5_FLOAT, 31 << 8 | 0x20, 4);
            put(&b, 32 << 16, 4);
            put(&b, 23 | 8 << 8 | 10 << 16 | 23 << 24, 4);
            put(&b, 127, 4);
            break;
        case 7: /* a member beyond the end */
            put_head(&b, 3, FBY__H5_COMPOUND, 1, 8);
            put(&b, 'x', 2);
            put(&b, 5, 1);
            put_int(&b, 3, 4);
            break;
        case 8: /* more members than there are bytes */
            put_head(&b, 3, FBY__H5_COMPOUND, 65535, 8);
            put(&b, 'x', 2);
            put(&b, 0, 1);
            put_int(&b, 3, 4);
            break;
        case 9: /* none */ put_head(&b, 3, FBY__H5_COMPOUND, 0, 8); break;
        case 10: /* an array larger than its elements */
            put_head(&b, 3, FBY__H5_ARRAY, 0, 100);
            put(&b, 1, 1);
            put(&b, 24, 4);
            put_int(&b, 3, 4);
            break;
        case 11: /* whose product overflows to its size */
            put_head(&b, 3, FBY__H5_ARRAY, 0, 4);
            put(&b, 3, 1);
            put(&b, 1 | (uint64_t)0x80000000 << 32, 8);
            put(&b, 0x80000001, 4);
            put_int(&b, 3, 4);
            break;
        case 12: /* of no dimension */
            put_head(&b, 3, FBY__H5_ARRAY, 0, 4);
            put(&b, 0, 1);
            put_int(&b, 3, 4);
            break;
        case 13: /* an array in version 1 */
            put_head(&b, 1, FBY__H5_ARRAY, 0, 4);
            put(&b, 1, 4);
            put(&b, 1, 4);
            put(&b, 0, 4);
            put_int(&b, 1, 4);
            break;
        case 14: /* an enum wider than its base */
            put_head(&b, 3, FBY__H5_ENUM, 0, 2);
            put_int(&b, 3, 1);
            break;
        case 15: /* unknown padding */ put_head(&b, 1, FBY__H5_STRING, 3, 4); break;
        case 16: /* an unknown kind of variable length */
            put_head(&b, 1, FBY__H5_VLEN, 2, 16);
            put_int(&b, 1, 1);
            break;
        default: /* variable length in elements too small for length, address and index */
            put_head(&b, 1, FBY__H5_VLEN, 0, 8);
            put_int(&b, 1, 1);
            want = FBY_E_UNSUPPORTED;
            break;
        }
        if (parse(&m, &b, &t, &err) != want)
            fail_msg("case %d", i);
        assert_in_range(err.file_offset, 48, 48 + b.n);
        fby__buf_fini(&b);
    }
    unmake(&m);
}

static void types_nest_to_a_limit(void **state)
{
    (void)state;
    maker m = make();
    fby_error err;
    const fby__h5_type *t;
    for (unsigned depth = FBY__H5_MAX_DEPTH; depth <= 100000; depth = depth == FBY__H5_MAX_DEPTH ? depth + 1 : depth * 100) {
        fby__buf b = {0};
        for (unsigned i = 0; i < depth - 1; i++)
            put_head(&b, 1, FBY__H5_VLEN, 0, 16);
        put_int(&b, 1, 1);
        assert_int_equal(parse(&m, &b, &t, &err), depth <= FBY__H5_MAX_DEPTH ? FBY_OK : FBY_E_FORMAT);
        fby__buf_fini(&b);
    }
    unmake(&m);
}

/* ---- conversion against bit by bit ---- */

static uint64_t bit_by_bit(const fby__h5_type *t, const uint8_t *p)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < t->bit_precision; i++) {
        const unsigned bit = t->bit_offset + i, byte = t->big_endian ? t->bytes - 1 - bit / 8 : bit / 8;
        v |= (uint64_t)(p[byte] >> bit % 8 & 1) << i;
    }
    if (t->is_signed && t->bit_precision < 64 && v >> (t->bit_precision - 1))
        v |= ~(uint64_t)0 << t->bit_precision;
    return v;
}

static void every_size_order_precision_and_stride_converts(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 2, 7, 33, 100};
    fby__random random = {.key = 7};
    for (uint32_t bytes = 1; bytes <= 8; bytes++)
        for (unsigned round = 0; round < 400; round++) {
            fby__h5_type t = {.class = round % 7 == 6 ? FBY__H5_BITFIELD : FBY__H5_INTEGER, .bytes = bytes, .big_endian = round & 1};
            t.is_signed = t.class == FBY__H5_INTEGER && (round & 2);
            const bool full = round % 3 == 0;
            t.bit_precision = (uint16_t)(full ? 8 * bytes : 1 + fby__random_below(&random, 8 * bytes));
            t.bit_offset = (uint16_t)fby__random_below(&random, 8 * bytes - t.bit_precision + 1);
            const size_t n = counts[round % COUNT(counts)], stride = bytes + (round % 5 == 4 ? fby__random_below(&random, 20) : 0);
            const size_t src_n = n ? (n - 1) * stride + bytes : 0, word = fby_dtype_bytes(fby__h5_type_dtype(&t));
            uint8_t *src = malloc(src_n + 1), *out = malloc(n * word + 1);
            assert_true(src && out);
            for (size_t i = 0; i < src_n; i++)
                src[i + 1] = (uint8_t)fby__random_next(&random); /* both unaligned */
            fby__h5_type_convert(&t, src + 1, stride, n, out + 1);
            for (size_t i = 0; i < n; i++) {
                const uint64_t want = bit_by_bit(&t, src + 1 + i * stride);
                if (memcmp(out + 1 + i * word, &want, word) != 0)
                    fail_msg("%u bytes, %u bits at %u, %s, %s, stride %zu: element %zu of %zu", bytes, t.bit_precision, t.bit_offset,
                             t.big_endian ? "big" : "little", t.is_signed ? "signed" : "unsigned", stride, i, n);
            }
            if (fby__h5_type_is_native(&t) && stride == bytes && n)
                assert_memory_equal(out + 1, src + 1, n * bytes);
            free(src);
            free(out);
        }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_class_has_its_name_and_dtype),
    cmocka_unit_test(stored_elements_become_the_numbers_that_h5py_wrote),
    cmocka_unit_test(compounds_of_version_1_have_arrays_of_their_own),
    cmocka_unit_test(offsets_of_version_3_are_as_wide_as_the_size_needs),
    cmocka_unit_test(arrays_and_enums_of_versions_2_and_3_are_packed_differently),
    cmocka_unit_test(floats_that_are_not_ieee_have_no_dtype),
    cmocka_unit_test(damaged_types_are_refused),
    cmocka_unit_test(types_nest_to_a_limit),
    cmocka_unit_test(every_size_order_precision_and_stride_converts),
};

SIMD_MAIN(tests)
