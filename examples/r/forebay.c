/*
 * R's door to the loader, through .Call: open a pipeline file, take batches as lists of arrays.
 *
 *     PKG_CFLAGS=$(pkg-config --cflags forebay) PKG_LIBS=$(pkg-config --libs forebay) R CMD SHLIB forebay.c
 *
 * Arrays of R have the first axis first in memory, those of C the last: an output (B, n) is an array of dim c(n, B). R has no float32: numbers
 * become double, bool becomes logical. Outputs that have no array of R (strings, bytes) are an error that names the output.
 */
#include <forebay/forebay.h>

#include <R.h>
#include <Rinternals.h>
#include <string.h>

static void finalize(SEXP handle)
{
    fby_loader_close(R_ExternalPtrAddr(handle));
    R_ClearExternalPtr(handle);
}

SEXP forebay_open(SEXP path, SEXP split)
{
    fby_error err = {0};
    fby_pipeline *pipeline = NULL;
    fby_loader *loader = NULL;
    const char *name = isNull(split) ? NULL : translateCharUTF8(STRING_ELT(split, 0));
    fby_status status = fby_pipeline_open(translateCharUTF8(STRING_ELT(path, 0)), NULL, &pipeline, &err);
    if (status == FBY_OK)
        status = fby_pipeline_loader(pipeline, name, &loader, &err);
    fby_pipeline_close(pipeline);
    if (status != FBY_OK)
        error("%s", err.message);
    SEXP handle = PROTECT(R_MakeExternalPtr(loader, R_NilValue, R_NilValue));
    R_RegisterCFinalizerEx(handle, finalize, TRUE);
    UNPROTECT(1);
    return handle;
}

/** The tensor as an array, or R_NilValue where R has none of its kind. Does not protect. */
static SEXP array_of(const fby_tensor *tensor)
{
    size_t n = 1;
    for (int32_t d = 0; d < tensor->ndim; d++)
        n *= (size_t)tensor->shape[d];
    SEXP out = R_NilValue;
#define COPY(type, kind, store)                                                                                                            \
    out = PROTECT(allocVector(kind, (R_xlen_t)n));                                                                                         \
    for (size_t i = 0; i < n; i++)                                                                                                         \
        store(out)[i] = ((const type *)tensor->data)[i];
    switch (tensor->dtype) {
    case FBY_FLOAT32: COPY(float, REALSXP, REAL) break;
    case FBY_FLOAT64: COPY(double, REALSXP, REAL) break;
    case FBY_INT32: COPY(int32_t, INTSXP, INTEGER) break;
    case FBY_INT64: COPY(int64_t, REALSXP, REAL) break; /* exact to 2^53 */
    case FBY_BOOL: COPY(bool, LGLSXP, LOGICAL) break;
    default: return R_NilValue;
    }
#undef COPY
    SEXP dim = PROTECT(allocVector(INTSXP, tensor->ndim));
    for (int32_t d = 0; d < tensor->ndim; d++)
        INTEGER(dim)[d] = (int)tensor->shape[tensor->ndim - 1 - d];
    setAttrib(out, R_DimSymbol, dim);
    UNPROTECT(2);
    return out;
}

/** The next batch as a named list, or NULL at the end of the epoch; the call after that begins the next one. */
SEXP forebay_next(SEXP handle)
{
    fby_error err = {0};
    fby_batch *batch = NULL;
    fby_status status = fby_loader_next(R_ExternalPtrAddr(handle), -1, &batch, &err);
    if (status == FBY_END)
        return R_NilValue;
    if (status != FBY_OK)
        error("%s", err.message);
    size_t n = fby_batch_tensor_count(batch);
    SEXP out = PROTECT(allocVector(VECSXP, (R_xlen_t)n)), names = PROTECT(allocVector(STRSXP, (R_xlen_t)n));
    for (size_t i = 0; i < n; i++) {
        const fby_tensor *tensor = fby_batch_tensor(batch, i);
        char name[256];
        snprintf(name, sizeof name, strcmp(tensor->role, "values") ? "%s.%s" : "%s", tensor->output, tensor->role);
        SEXP array = array_of(tensor);
        if (isNull(array)) {
            const char *dtype = fby_dtype_name(tensor->dtype);
            fby_batch_unref(batch);
            error("output '%s' is %s, which R has no array of", name, dtype); /* both are copies or static */
        }
        SET_VECTOR_ELT(out, (R_xlen_t)i, array);
        SET_STRING_ELT(names, (R_xlen_t)i, mkCharCE(name, CE_UTF8));
    }
    setAttrib(out, R_NamesSymbol, names);
    fby_batch_unref(batch);
    UNPROTECT(2);
    return out;
}
