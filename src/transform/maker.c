/* Kinds of makers, and what all of them share. */
#include "transform/maker_internal.h"

#include "base/alloc.h"
#include "block/convert.h"

struct fby__maker {
    const fby__maker_ops *ops;
    void *state; /* owned */
};

static const fby__maker_ops *const KIND[] = {
    [FBY_MAKE_BITS] = &fby__maker_bits,
    [FBY_MAKE_ONE_HOT] = &fby__maker_one_hot,
    [FBY_MAKE_MAP] = &fby__maker_map,
    [FBY_MAKE_NGRAMS] = &fby__maker_ngrams,
    [FBY_MAKE_LOOKUP] = &fby__maker_lookup,
    [FBY_MAKE_EXPRESSION] = &fby__maker_expression,
    [FBY_MAKE_STANDARDIZE] = &fby__maker_standardize,
    [FBY_MAKE_SYMMETRIC] = &fby__maker_symmetric,
    [FBY_MAKE_GROUP_CHANNELS] = &fby__maker_group_channels,
    [FBY_MAKE_CROP] = &fby__maker_crop,
    [FBY_MAKE_SEQUENCE_MASK] = &fby__maker_sequence_mask,
    [FBY_MAKE_SELECT] = &fby__maker_select,
    [FBY_MAKE_TIME] = &fby__maker_time,
};

fby_status fby__maker_create(fby__make_spec *spec, fby__maker **out, fby__made *out_made, fby_error *err)
{
    fby_make_kind kind = spec->make->kind;
    if ((unsigned)kind >= sizeof KIND / sizeof *KIND || !KIND[kind])
        return fby__fail(err, FBY_E_ARG, "output '%s': unknown kind of make", spec->output);
    fby__maker *m = fby__calloc(1, sizeof *m);
    if (!m)
        return fby__fail_nomem(err, "an output");
    m->ops = KIND[kind];
    fby__made made = {0};
    fby_status status = m->ops->create(spec, &m->state, &made, err);
    if (status != FBY_OK) {
        fby__maker_destroy(m);
        return status;
    }
    *out = m;
    *out_made = made;
    return FBY_OK;
}

void fby__maker_destroy(fby__maker *m)
{
    if (m)
        m->ops->destroy(m->state);
    fby__free(m);
}

fby_status fby__maker_run(const fby__maker *m, fby__make_job *job, fby_error *err) { return m->ops->run(m->state, job, err); }

void *fby__make_scratch_get(fby__make_scratch *s, size_t bytes)
{
    if (s->data && bytes <= s->bytes) /* no bytes at all are memory too: NULL says that there is none */
        return s->data;
    fby__make_scratch_fini(s);
    size_t room = bytes + bytes / 4;
    if (!(s->memory = fby__malloc(room + 64)))
        return NULL;
    s->data = (uint8_t *)(((uintptr_t)s->memory + 63) & ~(uintptr_t)63);
    s->bytes = room;
    return s->data;
}

void fby__make_scratch_fini(fby__make_scratch *s)
{
    fby__free(s->memory);
    *s = (fby__make_scratch){0};
}

fby__random fby__make_random(uint64_t seed, uint64_t epoch, uint64_t id, uint64_t purpose)
{
    /* the key mixes seed and epoch by the generator itself; the sample and the purpose are the stream, the draws its counter */
    return (fby__random){.key = fby__random_u64(seed, epoch, 0x4d414b45), .stream = fby__random_u64(purpose, id, 0x4d414b45)};
}

fby_status fby__make_expect_columns(const fby__make_spec *spec, const char *what, uint32_t least, uint32_t most, fby_error *err)
{
    if (spec->n_columns >= least && spec->n_columns <= most)
        return FBY_OK;
    if (least == most)
        return fby__fail(err, FBY_E_ARG, "output '%s': %s takes %u column%s, not %u", spec->output, what, least, least == 1 ? "" : "s",
                         spec->n_columns);
    return fby__fail(err, FBY_E_ARG, "output '%s': %s takes %u to %u columns, not %u", spec->output, what, least, most, spec->n_columns);
}

fby_status fby__make_refuse_column(const fby__make_spec *spec, uint32_t column, const char *what, fby_error *err)
{
    char type[160];
    (void)fby_field_type_text(spec->columns[column].field, type, sizeof type);
    return fby__fail(err, FBY_E_UNSUPPORTED, "output '%s': column '%s' of type %s %s", spec->output, spec->columns[column].name, type,
                     what);
}

fby_dtype fby__make_dtype(const fby__make_spec *spec, fby_dtype otherwise)
{
    return spec->dtype == FBY_DTYPE_NONE ? otherwise : spec->dtype;
}

fby_status fby__make_fail_value(fby_dtype stored, const uint8_t *values, size_t i, fby_dtype wanted, fby_error *err)
{
    char text[64];
    (void)fby__value_text(stored, values + i * fby_dtype_bytes(stored), text, sizeof text); /* a cut number is still a number */
    return fby__fail(err, FBY_E_DATA, "the value %s does not fit %s; choose a wider dtype", text, fby_dtype_name(wanted));
}
