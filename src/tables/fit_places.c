/* See fit_places.h. */
#include "tables/fit_places.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "block/schema.h"
#include "dataset/dataset.h"

#include <inttypes.h>

fby_status fby__places_init(fby__places *p, fby_dataset *ds, const fby_fit_opts *o, fby_error *err)
{
    *p = (fby__places){.n_each = o->n_each, .axis = o->axis};
    for (size_t i = 0; o->n_each && i < o->n_columns; i++) {
        fby__dataset_column column;
        char type[80];
        FBY__TRY(fby__dataset_resolve(ds, o->columns[i], &column, err));
        (void)fby_field_type_text(column.field, type, sizeof type); /* a cut type is still a type */
        const int64_t size = fby__field_axis(column.field, o->axis);
        if (size < 0)
            return fby__fail(err, FBY_E_ARG, "axis %d: column '%s' is %s: count the axes of an array in a row from the end, -1 is the last",
                             o->axis, o->columns[i], type);
        if ((uint64_t)size != o->n_each)
            return fby__fail(err, FBY_E_ARG, "axis %d of column '%s' has %" PRId64 " places, not %zu: fit columns of other shapes apart",
                             o->axis, o->columns[i], size, o->n_each);
    }
    return FBY_OK;
}

void fby__places_fini(fby__places *p) { fby__free(p->values); }

fby_status fby__places_add(fby__places *p, const fby_tensor *values, uint64_t from, uint64_t to, fby__moment_sums *m, fby_error *err)
{
    size_t inner = 1, width = 1; /* elements at one position of the axis; of a row */
    for (int32_t d = values->ndim - 1; d > 0; d--) {
        inner *= d > values->ndim + p->axis ? (size_t)values->shape[d] : 1;
        width *= (size_t)values->shape[d];
    }
    if (values->ndim + p->axis < 1 || (uint64_t)values->shape[values->ndim + p->axis] != p->n_each)
        return fby__fail(err, FBY_E_UNSUPPORTED, "axis %d of column '%s': arrays of compounds are fitted as whole columns", p->axis,
                         values->output);
    const size_t stretch = inner * p->n_each, n = (size_t)(to - from) * (width / p->n_each);
    const double *at = (const double *)values->data + from * width, *end = (const double *)values->data + to * width;
    if (fby__grow((void **)&p->values, &p->cap_values, n, sizeof *p->values))
        return fby__fail_nomem(err, "the moments");
    for (size_t place = 0; place < p->n_each; place++, at += inner) {
        double *next = p->values;
        for (const double *v = at; v < end; v += stretch)
            for (size_t k = 0; k < inner; k++)
                *next++ = v[k];
        fby__moments_add(&m[place], p->values, n);
    }
    return FBY_OK;
}
