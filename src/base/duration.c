/* See duration.h. */
#include "base/duration.h"

#include "base/checked.h"

#include <stdio.h>
#include <string.h>

typedef struct unit {
    uint64_t ns;
    const char *names[4];
} unit;

static const unit UNITS[] = {
    {1, {"ns"}},
    {1000, {"us", "µs"}},
    {1000000, {"ms"}},
    {1000000000, {"s", "second", "seconds"}},
    {60000000000, {"min", "minute", "minutes"}},
    {3600000000000, {"h", "hour", "hours"}},
    {86400000000000, {"d", "day", "days"}},
};

static uint64_t ns_of(const char *word)
{
    for (size_t i = 0; i < sizeof UNITS / sizeof *UNITS; i++)
        for (size_t k = 0; k < 4 && UNITS[i].names[k]; k++)
            if (strcmp(word, UNITS[i].names[k]) == 0)
                return UNITS[i].ns;
    return 0;
}

uint64_t fby__duration_ns(const char *text)
{
    uint64_t number = 0, ns;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++)
        if (!fby__mul_u64_checked(number, 10, &number) || !fby__add_u64_checked(number, (uint64_t)(*at - '0'), &number))
            return 0;
    if (at == text)
        return 0;
    while (*at == ' ')
        at++;
    return fby__mul_u64_checked(number, ns_of(at), &ns) && ns <= INT64_MAX ? ns : 0;
}

void fby__duration_text(int64_t ns, char out[FBY__DURATION_CHARS])
{
    const uint64_t size = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;
    size_t i = sizeof UNITS / sizeof *UNITS - 1;
    while (i > 0 && (size == 0 || size % UNITS[i].ns != 0))
        i--;
    const uint64_t n = size / UNITS[i].ns;
    static const char *const WORDS[][2] = {{"ns", "ns"},   {"us", "us"},      {"ms", "ms"},   {"s", "s"},
                                           {"min", "min"}, {"hour", "hours"}, {"day", "days"}};
    (void)snprintf(out, FBY__DURATION_CHARS, "%s%llu %s", ns < 0 ? "-" : "", (unsigned long long)n, WORDS[i][n != 1]);
}
