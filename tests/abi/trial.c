/* The library's side with headers that have a field more in every struct that may grow: what an old program did not say is 0, the rest arrives. */
#include "base/sized.h"
#include "options/options.h"

#include <stdio.h>
#include <string.h>

const void *old_loader_opts(void);
const void *old_fit_opts(void);
void *old_report(void);
int old_report_is_whole(void);

static int n_wrong;

#define CHECK(what)                                                                                                                        \
    do {                                                                                                                                   \
        if (!(what)) {                                                                                                                     \
            printf("not so: %s\n", #what);                                                                                                 \
            n_wrong++;                                                                                                                     \
        }                                                                                                                                  \
    } while (0)

static void check_ops(const fby_op *ops)
{
    CHECK(ops[0].kind == FBY_OP_LOG1P && ops[0].on_trial == 0);
    CHECK(ops[1].kind == FBY_OP_AFFINE && ops[1].a == 2 && ops[1].b == 3 && ops[1].on_trial == 0);
}

int main(void)
{
    fby__arena arena = {0};
    fby_error err = {0};
    fby_loader_opts l;
    fby_fit_opts f;
    CHECK(fby__loader_opts_in(old_loader_opts(), &l, &arena, &err) == FBY_OK);
    CHECK(l.size == sizeof l && l.batch_size == 9 && l.local_world_size == 10 && l.on_trial == 0 && l.n_outputs == 2);
    CHECK(strcmp(l.outputs[0].name, "a") == 0 && strcmp(l.outputs[1].name, "b") == 0 && l.outputs[1].pad == 8);
    CHECK(l.outputs[0].on_trial == 0 && l.outputs[1].on_trial == 0);
    check_ops(l.outputs[0].ops);
    check_ops(l.outputs[1].column_ops[0]);
    CHECK(l.outputs[1].make->crop.length == 5 && l.outputs[1].make->crop.begin == 6 && l.outputs[1].make->on_trial == 0);
    CHECK(l.outputs[0].after[1].kind == FBY_AFTER_SPEC_AUGMENT && l.outputs[0].after[1].spec_augment.n_time == 7);
    CHECK(l.outputs[0].after[0].on_trial == 0 && l.outputs[0].after[1].on_trial == 0);

    CHECK(fby__fit_opts_in(old_fit_opts(), &f, &arena, &err) == FBY_OK);
    CHECK(f.n_threads == 11 && f.on_trial == 0 && f.n_ops == 2);
    check_ops(f.ops);

    const fby_report report = {.size = sizeof report, .confidence = 13, .on_trial = 14};
    CHECK(FBY__SIZED_OUT(fby_report, elapsed_ns, &report, (fby_report *)old_report(), &err) == FBY_OK);
    CHECK(old_report_is_whole());
    fby__arena_fini(&arena);
    if (err.message[0])
        printf("%s\n", err.message);
    return n_wrong != 0;
}
