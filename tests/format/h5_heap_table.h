/* A table with strings and lists, made by hand with a global heap, in a file of the test's directory. */
#ifndef FBY_TESTS_H5_HEAP_TABLE_H
#define FBY_TESTS_H5_HEAP_TABLE_H

#include "format/h5_model.h"
#include "support/temp_dir.h"

/* ---- a global heap ---- */

/* A collection of n objects, numbered from 1, at the end of the file; its address. */
static uint64_t put_heap(model *m, const fby__bytes *objects, uint16_t n)
{
    fby__buf b = {0};
    static const uint8_t ZERO[16] = {0};
    put(&b, "GCOL\1\0\0\0", 8);
    put(&b, ZERO, 8);
    for (uint16_t i = 0; i < n; i++) {
        const uint16_t head[4] = {(uint16_t)(i + 1), 1, 0, 0};
        const uint64_t bytes = objects[i].n;
        put(&b, head, 8);
        put(&b, &bytes, 8);
        put(&b, objects[i].data, objects[i].n);
        put(&b, ZERO, (8 - objects[i].n % 8) % 8);
    }
    const uint64_t all = b.n + 16, rest = 16;
    put(&b, ZERO, 8);
    put(&b, &rest, 8);
    memcpy(b.data + 8, &all, 8);
    const uint64_t address = m->file.n;
    put(&m->file, b.data, b.n);
    fby__buf_fini(&b);
    return address;
}

/* { u32 length, u64 address, u32 index } */
static void put_reference(uint8_t *dst, uint32_t length, uint64_t address, uint32_t index)
{
    fby__store_u32(dst, length);
    fby__store_u64(dst + 4, address);
    fby__store_u32(dst + 12, index);
}

/* Ten strings and ten lists of int16 in two collections, and the file they lie in. */
typedef struct heap_table {
    model m;
    uint8_t strings[10][16], lists[10][16];
    fby__h5_type string_type, list_type, number;
    fby__file *file;
} heap_table;

static const char *const TEXTS[10] = {"", "a", "two words", "", "\xc3\xa9", "longer than sixteen bytes are", "a", "z", "", "end"};

static void heap_table_open(heap_table *h)
{
    fby__random rng = {.key = 20};
    fby__bytes objects[10];
    int16_t numbers[10][12];
    uint16_t n = 0;
    *h = (heap_table){.m = {.n_sets = 2}};
    put(&h->m.file, "something before", 16);
    for (int i = 0; i < 10; i++)
        objects[n++] = (fby__bytes){(const uint8_t *)TEXTS[i], strlen(TEXTS[i])};
    const uint64_t first = put_heap(&h->m, objects, n);
    for (int i = 0; i < 10; i++) {
        for (int k = 0; k < i; k++)
            numbers[i][k] = (int16_t)(100 * i + k);
        objects[i] = (fby__bytes){(const uint8_t *)numbers[i], 2u * (unsigned)i};
    }
    const uint64_t second = put_heap(&h->m, objects, 10);
    for (uint32_t i = 0; i < 10; i++) {
        const bool empty = TEXTS[i][0] == 0;
        put_reference(h->strings[i], (uint32_t)strlen(TEXTS[i]), empty ? 0 : first, empty ? 0 : i + 1);
        put_reference(h->lists[i], i, i ? second : FBY__H5_UNDEFINED, i + 1);
    }
    h->string_type = (fby__h5_type){.class = FBY__H5_VLEN, .bytes = 16, .vlen_string = true};
    h->number = number_type(FBY_INT16, false);
    h->list_type = (fby__h5_type){.class = FBY__H5_VLEN, .bytes = 16, .base = &h->number};
    raw_set(&h->m, &h->m.sets[0], &h->string_type, h->strings[0], 10, 4, &rng);
    raw_set(&h->m, &h->m.sets[1], &h->list_type, h->lists[0], 10, 0, &rng);
    finish_table(&h->m, 10, 0);
    add_leaf(&h->m, 0, &h->string_type, FBY__H5_VALUE_VLEN_STRING);
    add_leaf(&h->m, 1, &h->number, FBY__H5_VALUE_VLEN_LIST);
    FILE *f = fopen("x.h5", "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(h->m.file.data, 1, h->m.file.n, f), h->m.file.n);
    fclose(f);
    check_ok(fby__file_open("x.h5", NULL, &h->file, &h->m.err), &h->m.err);
}

static void heap_table_close(heap_table *h)
{
    fby__file_unref(h->file);
    model_fini(&h->m);
}

#endif
