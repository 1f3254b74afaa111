/* trace events: what was recorded is in the file, the last of each thread; nothing while off; threads that record while recordings begin and end. */
#include "trace/events.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { N_THREADS = 4, N_RECORDINGS = 50, N_ADDS = 20000 };

static char folder[] = "/tmp/fby_eventsXXXXXX", path[64];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    (void)snprintf(path, sizeof path, "%s/run.json", folder);
    return 0;
}
static int remove_folder(void **state)
{
    (void)state;
    (void)unlink(path);
    return rmdir(folder); /* nothing else was left there */
}

static char *written(void)
{
    static char text[1 << 20];
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    (void)fclose(f);
    return text;
}

static size_t count(const char *text, const char *part)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, part)); at++)
        n++;
    return n;
}

static void end_ok(void)
{
    fby_error err;
    if (fby_trace_end(path, &err) != FBY_OK)
        fail_msg("%s", err.message);
}

static void events_of_each_kind_are_written(void **state)
{
    (void)state;
    assert_int_equal(fby_trace_begin(0, NULL), FBY_OK);
    const uint64_t now = fby__now_ns();
    fby__event_span("decode", now, now + 1500, "block", 7);
    fby__event_add(&(fby__event){.kind = FBY__EVENT_OVERLAP, .name = "read", .begin_ns = now, .end_ns = now + 9, .text = "b\"a\\se\n"});
    fby__event_add(&(fby__event){.kind = FBY__EVENT_LEVEL, .name = "memory held", .what = "bytes", .begin_ns = now, .number = 4096});
    fby_span_end("forward", fby_span_begin());
    fby_span_end(NULL, 0);
    end_ok();
    const char *text = written();
    assert_non_null(strstr(text, "\"name\":\"decode\""));
    assert_non_null(strstr(text, "\"ph\":\"X\",\"dur\":1.500,\"args\":{\"block\":7}"));
    assert_non_null(strstr(text, "\"of\":\"b\\\"a\\\\se\\\\n\""));
    assert_int_equal(count(text, "\"ph\":\"b\""), 1);
    assert_int_equal(count(text, "\"ph\":\"e\""), 1);
    assert_non_null(strstr(text, "\"ph\":\"C\",\"args\":{\"bytes\":4096}"));
    assert_int_equal(count(text, "\"name\":\"forward\""), 1);
    assert_int_equal(count(text, "thread_name"), 1);
}

static void nothing_is_recorded_while_off(void **state)
{
    (void)state;
    fby_error err;
    fby_span_end("before", fby_span_begin());
    assert_int_equal(fby_trace_end(path, &err), FBY_E_STATE);
    assert_int_equal(fby_trace_begin(0, NULL), FBY_OK);
    assert_int_equal(fby_trace_begin(0, &err), FBY_E_STATE);
    fby_span_end("during", fby_span_begin());
    assert_int_equal(fby_trace_end(NULL, NULL), FBY_OK);
    fby_span_end("after", fby_span_begin());
    assert_int_equal(fby_trace_begin(0, NULL), FBY_OK);
    end_ok();
    assert_int_equal(count(written(), "\"ph\":\"X\""), 0);
    assert_int_equal(fby_trace_begin(UINT64_MAX, &err), FBY_E_ARG);
}

static void the_last_events_of_a_thread_are_kept(void **state)
{
    (void)state;
    assert_int_equal(fby_trace_begin(10, NULL), FBY_OK);
    for (uint64_t i = 0; i < 25; i++)
        fby__event_span("decode", 0, 0, "block", 100 + i);
    end_ok();
    const char *text = written();
    assert_int_equal(count(text, "\"block\""), 10);
    assert_null(strstr(text, "\"block\":114"));
    assert_non_null(strstr(text, "\"block\":115"));
    assert_non_null(strstr(text, "\"block\":124"));
    assert_non_null(strstr(text, "\"events lost\":\"15\""));
}

static void a_file_that_cannot_be_written_is_said_and_ends_the_recording(void **state)
{
    (void)state;
    fby_error err;
    assert_int_equal(fby_trace_begin(0, NULL), FBY_OK);
    assert_int_equal(fby_trace_end("/nowhere/at/all/run.json", &err), FBY_E_IO);
    assert_non_null(strstr(err.message, "/nowhere/at/all/run.json"));
    assert_int_equal(fby_trace_begin(0, NULL), FBY_OK);
    assert_int_equal(fby_trace_end(NULL, NULL), FBY_OK);
}

static void a_child_process_records_nothing_and_ends_nothing(void **state)
{
    (void)state;
    assert_int_equal(fby_trace_begin(0, NULL), FBY_OK);
    pid_t child = fork();
    if (child == 0) {
        fby_span_end("child", fby_span_begin());
        _exit(fby_trace_end(path, NULL) == FBY_E_STATE ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    end_ok();
}

static _Atomic bool over;
static void *record(void *arg)
{
    (void)pthread_setname_np(pthread_self(), "recorder");
    for (uint64_t i = 0; i < N_ADDS || !atomic_load(&over); i++)
        fby__event_span("decode", i, i + 1, arg ? "block" : NULL, i);
    return NULL;
}

static void *record_once(void *arg)
{
    fby__event_span("decode", 0, 1, arg, 3);
    return NULL;
}

static void recordings_begin_and_end_while_threads_record_and_exit(void **state)
{
    (void)state;
    pthread_t threads[N_THREADS];
    bool seen = false;
    atomic_store(&over, false);
    for (size_t i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, record, &over), 0);
    for (size_t i = 0; i < N_RECORDINGS; i++) {
        pthread_t once;
        assert_int_equal(fby_trace_begin(100, NULL), FBY_OK);
        assert_int_equal(pthread_create(&once, NULL, record_once, NULL), 0);
        assert_int_equal(pthread_join(once, NULL), 0);
        (void)usleep(2000); /* the others run */
        end_ok();
        assert_true(count(written(), "\"ph\":\"X\"") <= 100 * N_THREADS + 1);
        seen |= strstr(written(), "\"recorder\"") != NULL;
    }
    atomic_store(&over, true);
    for (size_t i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_true(seen);
}

/* Whichever allocation fails: an event is left out, or the end says so; nothing else. */
static void memory_that_is_short_leaves_events_out(void **state)
{
    (void)state;
    for (uint64_t n = 1; n < 8; n++) {
        pthread_t once;
        assert_int_equal(fby_trace_begin(0, NULL), FBY_OK);
        fby__alloc_fail_at(n);
        const bool made = pthread_create(&once, NULL, record_once, NULL) == 0;
        if (made)
            assert_int_equal(pthread_join(once, NULL), 0);
        fby_status status = fby_trace_end(path, NULL);
        fby__alloc_fail_at(0);
        assert_true(status == FBY_OK || status == FBY_E_NOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_of_each_kind_are_written),
        cmocka_unit_test(nothing_is_recorded_while_off),
        cmocka_unit_test(the_last_events_of_a_thread_are_kept),
        cmocka_unit_test(a_file_that_cannot_be_written_is_said_and_ends_the_recording),
        cmocka_unit_test(a_child_process_records_nothing_and_ends_nothing),
        cmocka_unit_test(recordings_begin_and_end_while_threads_record_and_exit),
        cmocka_unit_test(memory_that_is_short_leaves_events_out),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
