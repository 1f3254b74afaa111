/* What other modules use of pipelines. */
#ifndef FBY_PIPELINE_PIPELINE_H
#define FBY_PIPELINE_PIPELINE_H

#include "base/error.h"

#include <forebay/loader.h>

/** Outputs as the sections lookups and outputs of a pipeline file, tables with their values; *out is the caller's (fby__free). FBY_E_ARG, FBY_E_NOMEM. */
fby_status fby__outputs_text(const fby_output *outputs, size_t n, char **out, fby_error *err);

#endif
