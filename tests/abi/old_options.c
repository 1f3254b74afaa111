/* What a program of the kept headers hands over: options, and room for what comes back. */
#include <forebay/forebay.h>

static const char *const COLUMN[] = {"x"};
static const fby_op OPS[] = {{.kind = FBY_OP_LOG1P}, {.kind = FBY_OP_AFFINE, .a = 2, .b = 3}};
static const fby_op *const EACH[] = {OPS};
static const size_t N_EACH[] = {2};
static const fby_make MAKE = {.kind = FBY_MAKE_CROP, .crop = {.length = 5, .begin = 6}};
static const fby_after AFTER[] = {{.kind = FBY_AFTER_CHANNELS_LAST}, {.kind = FBY_AFTER_SPEC_AUGMENT, .spec_augment = {.n_time = 7}}};
static const fby_output OUTPUTS[] = {
    {.name = "a", .columns = COLUMN, .n_columns = 1, .ops = OPS, .n_ops = 2, .after = AFTER, .n_after = 2},
    {.name = "b", .columns = COLUMN, .n_columns = 1, .make = &MAKE, .column_ops = EACH, .n_column_ops = N_EACH, .pad = 8},
};

/* Ones behind each struct: what is beyond a program's memory is not the library's to look at. */
static struct {
    fby_loader_opts opts;
    uint64_t beyond;
} loader = {{FBY_LOADER_SIZES, .outputs = OUTPUTS, .n_outputs = 2, .batch_size = 9, .local_world_size = 10}, UINT64_MAX};
static struct {
    fby_fit_opts opts;
    uint64_t beyond;
} fit = {{FBY_FIT_SIZES, .columns = COLUMN, .n_columns = 1, .ops = OPS, .n_ops = 2, .n_threads = 11}, UINT64_MAX};
static struct {
    fby_report report;
    uint64_t beyond;
} report = {{.size = sizeof(fby_report)}, 12};

const void *old_loader_opts(void) { return &loader; }
const void *old_fit_opts(void) { return &fit; }
void *old_report(void) { return &report; }
int old_report_is_whole(void) { return report.report.size == sizeof(fby_report) && report.report.confidence == 13 && report.beyond == 12; }
