/*
 * Object headers made by hand: versions of messages that nobody writes any more, versions yet to come, messages that contradict
 * each other, continuations that go in a circle.
 */
#include "format/h5_image.h"

static void check_type(const fby__h5_type *type, const char *want)
{
    char text[256];
    assert_non_null(type);
    (void)fby__h5_type_text(type, text, sizeof text);
    assert_string_equal(text, want);
}

typedef struct message {
    unsigned type, flags;
    fby__buf body;
} message;

static void put(fby__buf *b, uint64_t v, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(fby__buf_put(b, &(uint8_t){(uint8_t)(i < 8 ? v >> (8 * i) : 0)}, 1), 0);
}

static void put_text(fby__buf *b, const char *s, size_t n) { assert_int_equal(fby__buf_put(b, s, n), 0); }

static size_t message_bytes(const message *m, unsigned version)
{
    return version == 1 ? 8 + ((m->body.n + 7) & ~(size_t)7) : 4 + m->body.n;
}

static void p_messages(pen *p, unsigned version, const message *m, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t end = p->at + message_bytes(&m[i], version);
        p_uint(p, m[i].type, version == 1 ? 2 : 1);
        p_uint(p, version == 1 ? (m[i].body.n + 7) & ~(size_t)7 : m[i].body.n, 2);
        p_uint(p, m[i].flags, version == 1 ? 4 : 1);
        p_bytes(p, m[i].body.data ? m[i].body.data : (const uint8_t *)"", m[i].body.n);
        p->at = end;
    }
}

/* A header of one block with a gap of three bytes in version 2. */
static uint64_t put_header(image *im, unsigned version, const message *m, size_t n)
{
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += message_bytes(&m[i], version);
    uint64_t at = place(im, version == 1 ? 16 + bytes : 8 + bytes + 3 + 4);
    pen p = pen_at(im, at);
    if (version == 1) {
        p_uint(&p, 1, 2);
        p_uint(&p, n, 2);
        p_uint(&p, 1, 4);
        p_uint(&p, bytes, 8);
    } else {
        p_text(&p, "OHDR");
        p_uint(&p, 2, 1);
        p_uint(&p, 1, 1); /* the block's size in two bytes */
        p_uint(&p, bytes + 3, 2);
    }
    p_messages(&p, version, m, n);
    if (version == 2) {
        p_uint(&p, 0, 3);
        p_checksum(&p);
    }
    return at;
}

/* Bodies. int32 with 3 × 5 elements, or fewer. */
static message space_message(unsigned version, uint64_t rows)
{
    message m = {.type = 1};
    put(&m.body, version, 1);
    put(&m.body, 2, 1);
    put(&m.body, 1, 1);
    put(&m.body, version == 2, version == 2 ? 1 : 5);
    put(&m.body, rows, 8);
    put(&m.body, 5, 8);
    put(&m.body, NONE, 8);
    put(&m.body, 5, 8);
    return m;
}

static message type_message(void)
{
    message m = {.type = 3};
    put(&m.body, 0x10 | 0x0800, 4);
    put(&m.body, 4, 4);
    put(&m.body, 32 << 16, 4);
    return m;
}

typedef struct result {
    image im;
    fby__h5_file *f;
    fby__h5_object *o;
    fby_status st;
    fby_error err;
} result;

/* One object as the file's root; the messages are taken. */
static result parse_messages(unsigned version, message *m, size_t n)
{
    result r = {0};
    image_init(&r.im);
    (void)place(&r.im, 4096); /* room for data */
    image_finish(&r.im, put_header(&r.im, version, m, n));
    for (size_t i = 0; i < n; i++)
        fby__buf_fini(&m[i].body);
    r.f = open_image(&r.im);
    r.st = fby__h5_object_parse(r.f, r.f->root_address, &r.o, &r.err);
    return r;
}

static void result_fini(result *r)
{
    fby__h5_file_close(r->f);
    image_fini(&r->im);
}

static void check_parsed(const result *r)
{
    if (r->st != FBY_OK)
        fail_msg("%s", r->err.message);
}

static void layouts_of_versions_1_to_3_are_read(void **state)
{
    (void)state;
    for (unsigned layout_version = 1; layout_version <= 3; layout_version++)
        for (int kind = 0; kind < 3; kind++)
            for (unsigned version = 1; version <= 2; version++) {
                message m[] = {space_message(version, 3), type_message(), {.type = 8}, {.type = 4}, {.type = 0}, {.type = 0x0e}};
                fby__buf *b = &m[2].body;
                put(b, layout_version, 1);
                if (layout_version < 3) {
                    put(b, kind == 2 ? 3 : 2, 1);
                    put(b, (unsigned)kind, 6);
                    if (kind)
                        put(b, 80, 8);
                    put(b, 2, 4);
                    put(b, 5, 4);
                    if (kind == 2)
                        put(b, 4, 4);
                    if (kind == 0)
                        put(b, 60, 4);
                } else {
                    put(b, (unsigned)kind, 1);
                    if (kind == 0)
                        put(b, 60, 2);
                    if (kind == 2)
                        put(b, 3, 1);
                    if (kind)
                        put(b, 80, 8);
                    if (kind == 1)
                        put(b, 60, 8);
                    if (kind == 2) {
                        put(b, 2, 4);
                        put(b, 5, 4);
                        put(b, 4, 4);
                    }
                }
                for (int i = 0; kind == 0 && i < 60; i++)
                    put(b, (uint64_t)i, 1);
                put(&m[3].body, 4, 4); /* the old fill value */
                put(&m[3].body, 77, 4);
                result r = parse_messages(version, m, COUNT(m));
                check_parsed(&r);
                assert_int_equal(r.o->kind, FBY__H5_DATASET);
                assert_int_equal(r.o->layout, kind);
                assert_int_equal(r.o->space.n_elements, 15);
                assert_true(r.o->space.max_dims[0] == FBY__H5_UNDEFINED);
                assert_int_equal(r.o->fill.n, 4);
                assert_int_equal(r.o->fill.data[0], 77);
                if (kind == 0)
                    assert_int_equal(r.o->compact.data[59], 59);
                else
                    assert_int_equal(r.o->data_address, 80);
                if (kind == 1)
                    assert_int_equal(r.o->data_bytes, 60);
                if (kind == 2) {
                    assert_int_equal(r.o->chunk[0], 2);
                    assert_int_equal(r.o->chunk[1], 5);
                    assert_int_equal(r.o->chunk_element_bytes, 4);
                }
                result_fini(&r);
            }
}

static void flags_of_chunked_layouts_are_kept(void **state)
{
    (void)state;
    message m[] = {space_message(2, 3), type_message(), {.type = 8}};
    put(&m[2].body, 4 | 2 << 8 | 3 << 16 | 3 << 24, 4); /* version, chunked, both flags, three dimensions */
    put(&m[2].body, 2, 1);
    put(&m[2].body, 300, 2);
    put(&m[2].body, 5, 2);
    put(&m[2].body, 4, 2);
    put(&m[2].body, FBY__H5_INDEX_SINGLE, 1);
    put(&m[2].body, 1234, 8);
    put(&m[2].body, 5, 4);
    put(&m[2].body, 96, 8);
    result r = parse_messages(2, m, 3);
    check_parsed(&r);
    assert_true(r.o->partial_edge_unfiltered);
    assert_int_equal(r.o->chunk[0], 300);
    assert_int_equal(r.o->single_bytes, 1234);
    assert_int_equal(r.o->single_mask, 5);
    assert_int_equal(r.o->data_address, 96);
    result_fini(&r);
}

static void unknown_messages_are_respected_by_their_flags(void **state)
{
    (void)state;
    for (unsigned flags = 0; flags < 256; flags += 8)
        for (unsigned version = 1; version <= 2; version++) {
            message m[] = {{.type = 0x40, .flags = flags & ~2u}};
            put(&m[0].body, 1, 8);
            result r = parse_messages(version, m, 1);
            check_parsed(&r);
            assert_int_equal(r.o->kind, FBY__H5_OTHER);
            assert_int_equal(r.o->declined != NULL, flags >= 128); /* "fail always"; 8 is for writers */
            if (r.o->declined)
                assert_string_equal(r.o->declined, "it has a message of the unknown type 64");
            result_fini(&r);
        }
}

static void newer_versions_are_declined_and_older_than_the_first_are_damage(void **state)
{
    (void)state;
    static const struct {
        unsigned type, version;
        const char *reason;
    } newer[] = {{1, 3, "its dataspace is of version 3"}, {5, 4, "its fill value is of version 4"},  {8, 6, "its layout is of version 6"},
                 {11, 3, "its filters are of version 3"}, {12, 4, "an attribute is of version 4"},   {6, 2, "a link is of version 2"},
                 {2, 1, "its links are of version 1"},    {21, 1, "its attributes are of version 1"}};
    for (size_t i = 0; i < COUNT(newer); i++)
        for (int zero = 0; zero < (newer[i].version > 1 ? 2 : 1); zero++) {
            message m[] = {{.type = newer[i].type}};
            put(&m[0].body, zero ? 0 : newer[i].version, 1);
            put(&m[0].body, 0, 1);
            for (int k = 0; k < 30; k++)
                put(&m[0].body, 0xff, 1);
            result r = parse_messages(2, m, 1);
            if (zero) {
                assert_int_equal(r.st, FBY_E_FORMAT);
                assert_true(r.err.file_offset > 0);
            } else {
                check_parsed(&r);
                assert_non_null(r.o->declined);
                assert_string_equal(r.o->declined, newer[i].reason);
            }
            result_fini(&r);
        }
}

static void messages_must_agree_with_each_other(void **state)
{
    (void)state;
    static const char *const want[] = {
        "without a layout message",
        "differ in their number of dimensions",
        "differ in size",
        "beyond the end of the file",
        "smaller than its elements",
        "a second one",
        "smaller than its elements",
    };
    for (size_t i = 0; i < COUNT(want); i++) {
        message m[] = {space_message(1, i == 3 ? 5000 : 3), type_message(), {.type = 8}};
        fby__buf *b = &m[2].body;
        size_t n = i == 0 ? 2 : 3;
        if (i == 1 || i == 2) {
            put(b, 3 | 2 << 8 | (i == 1 ? 2u : 3u) << 16, 3);
            put(b, 80, 8);
            put(b, 2, 4);
            put(b, 5, 4);
            put(b, 8, 4);
        } else if (i == 3 || i == 4) {
            put(b, 3 | 1 << 8, 2);
            put(b, 80, 8);
            put(b, i == 3 ? 100000 : 59, 8);
        } else if (i == 5) {
            fby__buf_fini(b);
            m[2] = type_message();
        } else {
            put(b, 3, 4);
        }
        result r = parse_messages(1, m, n);
        fby__buf_fini(b); /* where it was not used */
        assert_int_equal(r.st, FBY_E_FORMAT);
        if (!strstr(r.err.message, want[i]))
            fail_msg("%s, not: %s", r.err.message, want[i]);
        assert_true(r.err.file_offset > 4096);
        result_fini(&r);
    }
}

static void dataspaces_out_of_bounds_are_damage(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        message m[] = {space_message(2, 3)};
        uint8_t *p = m[0].body.data;
        if (i == 0)
            p[1] = 33;
        else if (i == 1)
            p[3] = 0; /* scalar of two dimensions */
        else if (i == 2)
            p[4 + 7] = 0x7f, p[4 + 8 + 7] = 0x40, p[4 + 24 + 7] = 0x41; /* the product overflows */
        else if (i == 3)
            p[4 + 8] = 6; /* more than at most */
        else
            m[0].body.n -= 1;
        result r = parse_messages(2, m, 1);
        assert_int_equal(r.st, FBY_E_FORMAT);
        result_fini(&r);
    }
    message m[] = {space_message(2, 0)}; /* 0 × huge is 0 */
    m[0].body.data[4 + 8 + 7] = m[0].body.data[4 + 24 + 7] = 0x40;
    result r = parse_messages(2, m, 1);
    check_parsed(&r);
    assert_int_equal(r.o->space.n_elements, 0);
    result_fini(&r);
}

static void every_kind_of_link_is_read(void **state)
{
    (void)state;
    message m[6] = {{0}};
    for (unsigned i = 0; i < 6; i++) {
        fby__buf *b = &m[i].body;
        m[i].type = 6;
        put(b, 1, 1);
        put(b, (i & 3) | (i ? 8 : 0) | (i == 2 ? 4 | 16 : 0), 1); /* widths of the name's length; order and character set */
        static const unsigned kinds[] = {0, 0, 1, 64, 65, 2};
        if (i)
            put(b, kinds[i], 1);
        if (i == 2) {
            put(b, 9, 8);
            put(b, 1, 1);
        }
        put(b, 2, 1u << (i & 3));
        put_text(b, "ab", 2);
        if (kinds[i] == 0)
            put(b, 1000 + i, 8);
        else if (i == 2)
            put(b, 5, 2), put_text(b, "x/y/z", 5);
        else if (i == 3)
            put(b, 6, 2), put_text(b, "\0f\0/p", 6);
        else
            put(b, 3, 2), put_text(b, "???", 3);
    }
    fby__buf last = m[5].body; /* of a reserved kind */
    result r = parse_messages(2, m, 5);
    check_parsed(&r);
    assert_int_equal(r.o->kind, FBY__H5_GROUP);
    assert_int_equal(r.o->n_links, 5);
    static const int kinds[] = {FBY__H5_HARD, FBY__H5_HARD, FBY__H5_SOFT, FBY__H5_EXTERNAL, FBY__H5_USER};
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(r.o->links[i].kind, kinds[i]);
        assert_string_equal(r.o->links[i].name, "ab");
    }
    assert_int_equal(r.o->links[1].address, 1001);
    assert_string_equal(r.o->links[2].target, "x/y/z");
    assert_string_equal(r.o->links[3].target, "f:/p");
    fby__h5_link l;
    fby_error err;
    assert_int_equal(fby__h5_link_parse(r.f, (fby__bytes){last.data, last.n}, 0, &l, &err), FBY_E_FORMAT);
    last.data[1] = 1; /* hard, and then nothing fits */
    for (size_t n = 0; n < last.n; n++)
        assert_int_equal(fby__h5_link_parse(r.f, (fby__bytes){last.data, n}, 0, &l, NULL), FBY_E_FORMAT);
    fby__buf_fini(&last);
    result_fini(&r);
}

/* name, type and space of one int32, padded as the version asks; shared: the type is a shared message with that address. */
static fby__buf attribute_body(unsigned version, unsigned shared_version, uint64_t shared_at)
{
    fby__buf b = {0}, type = {0};
    if (shared_version) {
        put(&type, shared_version, 1);
        put(&type, shared_version == 3 ? 2 : 0, 1);
        put(&type, 0, shared_version == 1 ? 6 + 8 : 0);
        put(&type, shared_at, 8);
    } else {
        message m = type_message();
        type = m.body;
    }
    put(&b, version, 1);
    put(&b, shared_version != 0, 1);
    put(&b, 5, 2);
    put(&b, type.n, 2);
    put(&b, 8 + 8, 2);
    if (version == 3)
        put(&b, 1, 1);
    put_text(&b, "name", 5);
    put(&b, 0, version == 1 ? 3 : 0);
    put_text(&b, (const char *)type.data, type.n);
    put(&b, 0, version == 1 ? (unsigned)(-type.n & 7) : 0);
    put(&b, 1 | 1 << 8, 8); /* dataspace 1, one dimension */
    put(&b, 2, 8);
    put(&b, 41, 4);
    put(&b, 42, 4);
    fby__buf_fini(&type);
    return b;
}

static void attributes_of_versions_1_to_3_are_read(void **state)
{
    (void)state;
    for (unsigned version = 1; version <= 3; version++)
        for (unsigned shared = 0; shared <= (version > 1 ? 3 : 0); shared++) {
            image im;
            image_init(&im);
            message type = type_message();
            uint64_t committed = put_header(&im, 1, &type, 1);
            message m = {.type = 12, .body = attribute_body(version, shared, committed)};
            image_finish(&im, put_header(&im, 2, &m, 1));
            fby__h5_file *f = open_image(&im);
            fby__h5_object *o;
            fby_error err;
            if (fby__h5_object_parse(f, f->root_address, &o, &err) != FBY_OK)
                fail_msg("%s", err.message);
            assert_int_equal(o->n_attributes, 1);
            assert_string_equal(o->attributes[0].name, "name");
            check_type(o->attributes[0].type, "int32");
            assert_int_equal(o->attributes[0].space.n_elements, 2);
            assert_int_equal(o->attributes[0].data.n, 8);
            assert_int_equal(o->attributes[0].data.data[4], 42);
            fby__h5_attribute a;
            for (size_t n = 0; n < m.body.n; n++) /* cut short */
                assert_int_equal(fby__h5_attribute_parse(f, (fby__bytes){m.body.data, n}, 0, &a, NULL), FBY_E_FORMAT);
            fby__buf_fini(&m.body);
            fby__buf_fini(&type.body);
            fby__h5_file_close(f);
            image_fini(&im);
        }
}

static void shared_types_that_lead_nowhere_are_damage(void **state)
{
    (void)state;
    image im;
    image_init(&im);
    message empty = {.type = 0x0e};
    put(&empty.body, 0, 8);
    uint64_t nothing = put_header(&im, 1, &empty, 1);
    fby__buf body = {0};
    message chain = {.type = 3, .flags = 2};
    put(&chain.body, 3 | 2 << 8, 2);
    put(&chain.body, im.n, 8);
    uint64_t itself = put_header(&im, 2, &chain, 1);
    image_finish(&im, nothing);
    fby__h5_file *f = open_image(&im);
    const uint64_t at[] = {nothing, itself, 8, NONE, im.n - 4};
    for (size_t i = 0; i < COUNT(at); i++) {
        body = attribute_body(3, 3, at[i]);
        fby__h5_attribute a;
        fby_error err;
        assert_int_equal(fby__h5_attribute_parse(f, (fby__bytes){body.data, body.n}, 0, &a, &err), FBY_E_FORMAT);
        fby__buf_fini(&body);
    }
    fby__h5_object *o;
    fby_error err;
    assert_int_equal(fby__h5_object_parse(f, itself, &o, &err), FBY_E_FORMAT);
    assert_non_null(strstr(err.message, "itself a shared message"));
    fby__buf_fini(&empty.body);
    fby__buf_fini(&chain.body);
    fby__h5_file_close(f);
    image_fini(&im);
}

/* ---- continuations ---- */

static void continuations_are_followed_and_circles_end(void **state)
{
    (void)state;
    for (unsigned version = 1; version <= 2; version++)
        for (int circle = 0; circle < 2; circle++) {
            image im;
            image_init(&im);
            message type = type_message();
            uint64_t block = place(&im, 256), n = version == 1 ? 24 + 24 : 4 + 16 + 20 + 2 + 4;
            message cont = {.type = 16};
            put(&cont.body, block, 8);
            put(&cont.body, n, 8);
            pen p = pen_at(&im, block);
            if (version == 2)
                p_text(&p, "OCHK");
            p_messages(&p, version, &type, 1);
            if (circle) {
                p_messages(&p, version, &cont, 1);
            } else {
                message nil = {.type = 0};
                put(&nil.body, 0, 16);
                p_messages(&p, version, &nil, 1);
                fby__buf_fini(&nil.body);
            }
            if (version == 2) {
                p_uint(&p, 0, 2);
                p_checksum(&p);
            }
            uint64_t root = put_header(&im, version, &cont, 1);
            image_finish(&im, root);
            fby__h5_file *f = open_image(&im);
            fby__h5_object *o;
            fby_error err;
            fby_status st = fby__h5_object_parse(f, root, &o, &err);
            if (circle) {
                assert_int_equal(st, FBY_E_FORMAT); /* the second datatype, or the continuation again */
            } else {
                assert_int_equal(st, FBY_OK);
                assert_int_equal(o->kind, FBY__H5_NAMED_TYPE);
            }
            fby__h5_file_close(f);
            if (version == 2 && !circle) {
                im.data[block + 9] ^= 1;
                f = open_image(&im);
                assert_int_equal(fby__h5_object_parse(f, root, &o, &err), FBY_E_FORMAT);
                assert_non_null(strstr(err.message, "checksum"));
                assert_int_equal(err.file_offset, block);
                fby__h5_file_close(f);
            }
            fby__buf_fini(&cont.body);
            fby__buf_fini(&type.body);
            image_fini(&im);
        }
}

static void a_circle_of_nothing_but_continuations_ends_soon(void **state)
{
    (void)state;
    image im;
    image_init(&im);
    (void)place(&im, 4 << 20);
    message cont[1000] = {{0}};
    uint64_t block = place(&im, 24 * COUNT(cont));
    for (size_t i = 0; i < COUNT(cont); i++) {
        cont[i].type = 16;
        put(&cont[i].body, block, 8);
        put(&cont[i].body, 24 * COUNT(cont), 8);
    }
    pen p = pen_at(&im, block);
    p_messages(&p, 1, cont, COUNT(cont)); /* each block brings a thousand more */
    uint64_t root = put_header(&im, 1, cont, 1);
    image_finish(&im, root);
    fby__h5_file *f = open_image(&im);
    fby__h5_object *o;
    fby_error err;
    assert_int_equal(fby__h5_object_parse(f, root, &o, &err), FBY_E_FORMAT);
    assert_non_null(strstr(err.message, "circle"));
    fby__h5_file_close(f);
    for (size_t i = 0; i < COUNT(cont); i++)
        fby__buf_fini(&cont[i].body);
    image_fini(&im);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts_of_versions_1_to_3_are_read),
        cmocka_unit_test(flags_of_chunked_layouts_are_kept),
        cmocka_unit_test(unknown_messages_are_respected_by_their_flags),
        cmocka_unit_test(newer_versions_are_declined_and_older_than_the_first_are_damage),
        cmocka_unit_test(messages_must_agree_with_each_other),
        cmocka_unit_test(dataspaces_out_of_bounds_are_damage),
        cmocka_unit_test(every_kind_of_link_is_read),
        cmocka_unit_test(attributes_of_versions_1_to_3_are_read),
        cmocka_unit_test(shared_types_that_lead_nowhere_are_damage),
        cmocka_unit_test(continuations_are_followed_and_circles_end),
        cmocka_unit_test(a_circle_of_nothing_but_continuations_ends_soon),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
