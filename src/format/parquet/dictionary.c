/* The dictionary page: fixed-size values used where they lie, byte arrays indexed once. */
#include "format/parquet/reader.h"

#include "base/checked.h"

fby_status fby__pq_reader_dictionary(fby__pq_reader *r, const fby__pq_page *page, fby__bytes body, fby_error *err)
{
    if (r->has_dictionary)
        return fby__fail(err, FBY_E_FORMAT, "a second dictionary page");
    if (page->encoding != FBY__PQ_PLAIN && page->encoding != FBY__PQ_PLAIN_DICTIONARY)
        return fby__fail(err, FBY_E_FORMAT, "a dictionary page with encoding %s", fby_encoding_name((unsigned)page->encoding));
    if (r->leaf->physical == FBY__PQ_BOOLEAN)
        return fby__fail(err, FBY_E_FORMAT, "a dictionary of booleans");
    const size_t n = page->n_values;
    if (r->leaf->physical == FBY__PQ_BYTE_ARRAY) {
        if (n > body.n / 4) /* each has a length of 4 bytes */
            return fby__fail(err, FBY_E_FORMAT, "a dictionary page of %zu bytes for %zu strings", body.n, n);
        FBY__TRY(fby__pq_mem_need(&r->mem.strings, n * sizeof(fby__pq_string), err));
        r->dictionary_strings = (fby__pq_string *)(void *)r->mem.strings.data;
        const uint8_t *p = body.data;
        FBY__TRY(fby__plain_strings(&p, body.data + body.n, r->dictionary_strings, n, err));
    } else {
        if (n > body.n / r->value_bytes)
            return fby__fail(err, FBY_E_FORMAT, "a dictionary page of %zu bytes for %zu values of %zu", body.n, n, r->value_bytes);
        r->dictionary = body.data;
    }
    r->n_dictionary = page->n_values;
    r->has_dictionary = true;
    return FBY_OK;
}
