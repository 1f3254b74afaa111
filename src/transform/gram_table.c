/*
 * Grams by the classes of their characters: see gram_table.h.
 *
 *   character ──► class        ASCII by a table of 128, others by open addressing
 *   classes   ──► column       index = Σ class · K^…: a table where K^n is small, else open addressing on the index; K classes
 *
 * Classes 0 … K−1 stand for characters of the vocabulary. Three more are no part of a gram: a character that is in none, white space that
 * is in none (it is stripped all the same), and a character that is left out, which never reaches the classes of a text.
 *
 * lower: every character whose towlower, in the C.UTF-8 locale, is in the vocabulary or is left out has that one's class; found by asking
 * for all characters up to the last that has a lower case. Two characters differ from Python's str.lower: U+0130 becomes "i̇" there, two
 * characters, and does so here; and Σ at the end of a word becomes ς there, and σ here.
 */
#include "transform/gram_table.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/checked.h"
#include "base/utf8.h"

#include <locale.h>
#include <string.h>
#include <wctype.h>

enum { MAX_N = 8, MAX_CLASSES = 60000, LAST_CASED = 0x1e943, I_WITH_DOT = 0x130, DOT_ABOVE = 0x307, INVALID = -1, MAX_WHITE = 32 };
enum { CLASS_NONE = 0xffff, CLASS_SPACE = 0xfffe, CLASS_DELETED = 0xfffd };
#define MAX_GRAMS ((size_t)1 << 24)
#define MOST_DIRECT ((uint64_t)1 << 18) /* 1 MiB; two-grams of up to 512 characters, three-grams of up to 64 */
#define NO_COLUMN UINT32_MAX

typedef struct char_slot {
    int32_t code; /* INVALID = free */
    uint16_t class;
} char_slot;

typedef struct gram_slot {
    uint64_t index;
    uint32_t column; /* NO_COLUMN = free */
} gram_slot;

struct fby__gram_table {
    uint16_t ascii[128];
    char_slot *chars; /* owned */
    size_t n_chars, char_mask;
    uint32_t n;         /* characters of a gram */
    uint64_t n_classes; /* K */
    uint64_t top;       /* K^(n−1): an index modulo it is without its first character */
    uint32_t *direct;   /* owned: column of each index, or NULL */
    gram_slot *grams;   /* owned: or this */
    size_t gram_mask;
    bool strip, lowers_i_with_dot;
    uint32_t n_white;
    uint16_t white[MAX_WHITE]; /* classes of white space in the vocabulary */
};

void fby__gram_table_destroy(fby__gram_table *t)
{
    if (!t)
        return;
    fby__free(t->chars);
    fby__free(t->direct);
    fby__free(t->grams);
    fby__free(t);
}

size_t fby__gram_table_bytes(const fby__gram_table *t)
{
    return sizeof *t + (t->char_mask + 1) * sizeof *t->chars +
           (t->direct ? (size_t)(t->top * t->n_classes) * sizeof *t->direct : (t->gram_mask + 1) * sizeof *t->grams);
}

/* ---- characters ---- */

/* What Python's str.strip takes: bidirectional type WS, B or S, or category Zs. */
static bool is_white(int32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
           c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

static char_slot *find_char(const fby__gram_table *t, int32_t code)
{
    for (size_t at = (uint32_t)code * UINT32_C(0x9e3779b1);; at++) {
        char_slot *s = &t->chars[at & t->char_mask];
        if (s->code == code || s->code == INVALID)
            return s;
    }
}

static uint16_t class_of(const fby__gram_table *t, int32_t code)
{
    if (code < 128)
        return code < 0 ? (uint16_t)CLASS_NONE : t->ascii[code];
    const char_slot *s = find_char(t, code);
    return s->code == code ? s->class : (uint16_t)CLASS_NONE;
}

static bool make_room_for_char(fby__gram_table *t)
{
    if (t->chars && 2 * t->n_chars <= t->char_mask)
        return true;
    const size_t count = t->chars ? 2 * (t->char_mask + 1) : 256;
    char_slot *old = t->chars, *grown = fby__malloc(count * sizeof *grown);
    if (!grown)
        return false;
    for (size_t i = 0; i < count; i++)
        grown[i] = (char_slot){.code = INVALID};
    const size_t n_old = old ? t->char_mask + 1 : 0;
    t->chars = grown;
    t->char_mask = count - 1;
    for (size_t i = 0; i < n_old; i++)
        if (old[i].code != INVALID)
            *find_char(t, old[i].code) = old[i];
    fby__free(old);
    return true;
}

static bool set_class(fby__gram_table *t, int32_t code, uint16_t class)
{
    if (code < 128) {
        t->ascii[code] = class;
        return true;
    }
    if (!make_room_for_char(t))
        return false;
    char_slot *s = find_char(t, code);
    t->n_chars += s->code == INVALID;
    *s = (char_slot){.code = code, .class = class};
    return true;
}

/* ---- creation ---- */

static fby_status add_spaces(fby__gram_table *t, fby_error *err)
{
    for (int32_t c = 0; c <= 0x3000; c++)
        if (is_white(c) && !set_class(t, c, CLASS_SPACE))
            return fby__fail_nomem(err, "a vocabulary");
    return FBY_OK;
}

/* Every character of the vocabulary its own class; n of them in every gram. */
static fby_status add_vocabulary(fby__gram_table *t, const fby_make_ngrams *make, const char *output, fby_error *err)
{
    for (size_t i = 0; i < make->n_vocabulary; i++) {
        const uint8_t *p = (const uint8_t *)make->vocabulary[i], *end = p + strlen(make->vocabulary[i]);
        uint32_t n = 0;
        for (; p < end; n++) {
            const int32_t code = fby__utf8_next(&p, end);
            if (code == INVALID)
                return fby__fail(err, FBY_E_ARG, "output '%s': entry %zu of the vocabulary is no UTF-8", output, i);
            if (class_of(t, code) < CLASS_DELETED || (make->drop_spaces && code == ' '))
                continue;
            if (t->n_classes == MAX_CLASSES)
                return fby__fail(err, FBY_E_ARG, "output '%s': a vocabulary of more than %d different characters", output, MAX_CLASSES);
            if (is_white(code))
                t->white[t->n_white++] = (uint16_t)t->n_classes; /* there are 29 */
            if (!set_class(t, code, (uint16_t)t->n_classes++))
                return fby__fail_nomem(err, "a vocabulary");
        }
        if (n != make->n)
            return fby__fail(err, FBY_E_ARG, "output '%s': the vocabulary is of %u characters an entry, and '%.40s' (entry %zu) has %u",
                             output, make->n, make->vocabulary[i], i, n);
    }
    return FBY_OK;
}

static fby_status add_deleted(fby__gram_table *t, const char *chars, const char *output, fby_error *err)
{
    const uint8_t *p = (const uint8_t *)chars, *end = p + strlen(chars);
    while (p < end) {
        const int32_t code = fby__utf8_next(&p, end);
        if (code == INVALID)
            return fby__fail(err, FBY_E_ARG, "output '%s': the characters to leave out are no UTF-8", output);
        if (!set_class(t, code, CLASS_DELETED))
            return fby__fail_nomem(err, "a vocabulary");
    }
    return FBY_OK;
}

/* A character becomes its lower case before all else: it has that one's class. */
static fby_status add_upper_case(fby__gram_table *t, const char *output, fby_error *err)
{
    locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    if (!utf8)
        return fby__fail(err, FBY_E_UNSUPPORTED,
                         "output '%s': there is no locale C.UTF-8 on this system, whose lower case letters 'lower' "
                         "needs",
                         output);
    fby_status status = FBY_OK;
    for (int32_t c = 0; c <= LAST_CASED && status == FBY_OK; c++) {
        const int32_t lower = (int32_t)towlower_l((wint_t)c, utf8);
        if (lower != c && class_of(t, lower) != class_of(t, c) && !set_class(t, c, class_of(t, lower)))
            status = fby__fail_nomem(err, "a vocabulary");
    }
    freelocale(utf8);
    return status;
}

/* The index of a gram of the vocabulary; false when it can never occur. */
static bool index_of(const fby__gram_table *t, const uint16_t *classes, uint64_t *out)
{
    *out = 0;
    for (uint32_t i = 0; i < t->n; i++) {
        if (classes[i] >= CLASS_DELETED)
            return false;
        *out = *out * t->n_classes + classes[i];
    }
    return true;
}

static uint64_t hash_index(uint64_t index) { return (index ^ index >> 31) * UINT64_C(0x9e3779b97f4a7c15) >> 20; }

/* The slot with this index, or the free one where it belongs. */
static inline gram_slot *find_gram(const fby__gram_table *t, uint64_t index)
{
    for (uint64_t at = hash_index(index);; at++) {
        gram_slot *s = &t->grams[at & t->gram_mask];
        if (s->index == index || s->column == NO_COLUMN)
            return s;
    }
}

static bool make_index(fby__gram_table *t, size_t n_grams)
{
    const uint64_t all = t->top * t->n_classes;
    if (all <= MOST_DIRECT) {
        if (!(t->direct = fby__malloc((size_t)all * sizeof *t->direct)))
            return false;
        memset(t->direct, 0xff, (size_t)all * sizeof *t->direct);
        return true;
    }
    size_t count = 16;
    while (count < 2 * n_grams)
        count *= 2;
    if (!(t->grams = fby__malloc(count * sizeof *t->grams)))
        return false;
    for (size_t i = 0; i < count; i++)
        t->grams[i] = (gram_slot){.column = NO_COLUMN};
    t->gram_mask = count - 1;
    return true;
}

static fby_status add_grams(fby__gram_table *t, const fby_make_ngrams *make, const uint16_t *vocabulary_class, const char *output,
                            fby_error *err)
{
    for (size_t i = 0; i < make->n_vocabulary; i++) {
        uint64_t index;
        if (!index_of(t, vocabulary_class + i * t->n, &index))
            continue; /* holds a space, and such grams are dropped */
        gram_slot *slot = t->direct ? NULL : find_gram(t, index);
        uint32_t *column = slot ? &slot->column : &t->direct[index];
        if (slot)
            slot->index = index;
        if (*column != NO_COLUMN)
            return fby__fail(err, FBY_E_ARG, "output '%s': '%.40s' is in the vocabulary twice, as entries %u and %zu", output,
                             make->vocabulary[i], *column, i);
        *column = (uint32_t)i;
    }
    return FBY_OK;
}

/* The classes before lower case and characters to leave out are put over them: an entry "Ab" or "a." never occurs then. */
static fby_status add_all(fby__gram_table *t, const fby_make_ngrams *make, const char *output, fby_error *err)
{
    FBY__TRY(add_spaces(t, err));
    FBY__TRY(add_vocabulary(t, make, output, err));
    for (uint32_t i = 1; i < t->n; i++)
        if (!fby__mul_u64_checked(t->top, t->n_classes, &t->top))
            t->top = 0;
    uint64_t all;
    if (t->n_classes && (!t->top || !fby__mul_u64_checked(t->top, t->n_classes, &all)))
        return fby__fail(err, FBY_E_ARG, "output '%s': %llu different characters are too many for grams of %u", output,
                         (unsigned long long)t->n_classes, t->n);
    if (!make_index(t, make->n_vocabulary))
        return fby__fail_nomem(err, "a vocabulary");
    uint16_t *classes = fby__malloc(make->n_vocabulary * t->n * sizeof *classes);
    if (!classes)
        return fby__fail_nomem(err, "a vocabulary");
    for (size_t i = 0, k = 0; i < make->n_vocabulary; i++) {
        const uint8_t *p = (const uint8_t *)make->vocabulary[i], *end = p + strlen(make->vocabulary[i]);
        for (uint32_t c = 0; c < t->n; c++)
            classes[k++] = class_of(t, fby__utf8_next(&p, end));
    }
    fby_status status = add_grams(t, make, classes, output, err);
    fby__free(classes);
    FBY__TRY(status);
    if (make->delete_chars)
        FBY__TRY(add_deleted(t, make->delete_chars, output, err));
    t->lowers_i_with_dot = make->lower;
    return make->lower ? add_upper_case(t, output, err) : FBY_OK;
}

fby_status fby__gram_table_create(const fby_make_ngrams *make, const char *output, fby__gram_table **out, fby_error *err)
{
    if (make->n == 0 || make->n > MAX_N)
        return fby__fail(err, FBY_E_ARG, "output '%s': grams of %u characters: 1 to %d are possible", output, make->n, MAX_N);
    if (make->n_vocabulary == 0 || make->n_vocabulary > MAX_GRAMS)
        return fby__fail(err, FBY_E_ARG, "output '%s': a vocabulary of %zu grams: 1 to %zu are possible", output, make->n_vocabulary,
                         MAX_GRAMS);
    fby__gram_table *t = fby__calloc(1, sizeof *t);
    if (!t || !make_room_for_char(t)) {
        fby__gram_table_destroy(t);
        return fby__fail_nomem(err, "a vocabulary");
    }
    memset(t->ascii, 0xff, sizeof t->ascii); /* CLASS_NONE */
    t->n = make->n;
    t->top = 1;
    t->strip = make->strip;
    fby_status status = add_all(t, make, output, err);
    if (status != FBY_OK) {
        fby__gram_table_destroy(t);
        return status;
    }
    *out = t;
    return FBY_OK;
}

/* ---- texts ---- */

/* Characters beyond ASCII. U+0130 in lower case is the one that becomes two. */
static size_t classes_of_char(const fby__gram_table *t, const uint8_t **p, const uint8_t *end, uint16_t *classes)
{
    const int32_t code = fby__utf8_next(p, end);
    size_t k = 0;
    if (code == I_WITH_DOT && t->lowers_i_with_dot) {
        classes[0] = t->ascii['i'];
        k += classes[0] != CLASS_DELETED;
        classes[k] = class_of(t, DOT_ABOVE);
    } else {
        classes[0] = class_of(t, code);
    }
    return k + (classes[k] != CLASS_DELETED);
}

size_t fby__gram_classes(const fby__gram_table *t, const uint8_t *text, size_t n, uint16_t *classes)
{
    size_t k = 0;
    for (const uint8_t *p = text, *end = text + n; p < end;) {
        if (*p < 128) {
            const uint16_t class = t->ascii[*p++];
            classes[k] = class;
            k += class != CLASS_DELETED;
        } else {
            k += classes_of_char(t, &p, end, classes + k);
        }
    }
    return k;
}

static bool is_white_class(const fby__gram_table *t, uint16_t class)
{
    for (uint32_t i = 0; i < t->n_white; i++)
        if (t->white[i] == class)
            return true;
    return class == CLASS_SPACE;
}

size_t fby__gram_strip(const fby__gram_table *t, const uint16_t **classes, size_t n)
{
    if (!t->strip || t->n_white == 0) /* white space that is in no gram may stay */
        return n;
    while (n && is_white_class(t, (*classes)[n - 1]))
        n--;
    while (n && is_white_class(t, (*classes)[0])) {
        ++*classes;
        n--;
    }
    return n;
}

/* Constant bytes make each store one move. */
static inline __attribute__((always_inline)) void mark_pairs(const fby__gram_table *t, const uint16_t *classes, size_t n, uint8_t *dst,
                                                             size_t bytes, uint64_t one)
{
    const uint64_t k = t->n_classes;
    uint64_t last = CLASS_NONE;
    for (size_t i = 0; i < n; i++) {
        const uint64_t class = classes[i];
        if (last < k && class < k) {
            const uint32_t column = t->direct[last * k + class];
            if (column != NO_COLUMN)
                memcpy(dst + column * bytes, &one, bytes);
        }
        last = class;
    }
}

static void mark_any(const fby__gram_table *t, const uint16_t *classes, size_t n, uint8_t *dst, size_t bytes, uint64_t one)
{
    uint64_t index = 0;
    uint32_t run = 0; /* characters of the vocabulary in a row, up to n */
    for (size_t i = 0; i < n; i++) {
        if (classes[i] >= t->n_classes) {
            run = 0;
            continue;
        }
        index = (run == 0 ? 0 : index % t->top) * t->n_classes + classes[i];
        run += run < t->n;
        if (run < t->n)
            continue;
        const uint32_t column = t->direct ? t->direct[index] : find_gram(t, index)->column;
        if (column != NO_COLUMN)
            memcpy(dst + column * bytes, &one, bytes);
    }
}

void fby__gram_mark(const fby__gram_table *t, const uint16_t *classes, size_t n, uint8_t *dst, size_t bytes, uint64_t one)
{
    if (t->n != 2 || !t->direct) {
        mark_any(t, classes, n, dst, bytes, one);
        return;
    }
    switch (bytes) {
    case 1: mark_pairs(t, classes, n, dst, 1, one); break;
    case 2: mark_pairs(t, classes, n, dst, 2, one); break;
    case 4: mark_pairs(t, classes, n, dst, 4, one); break;
    default: mark_pairs(t, classes, n, dst, 8, one); break;
    }
}
