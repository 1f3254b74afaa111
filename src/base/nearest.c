/* Near names: the distance by dynamic programming, the three best by insertion. */
#include "base/nearest.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Not tolower(): the program's locale must not change a message. */
static char fold(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

static unsigned least(unsigned a, unsigned b) { return a < b ? a : b; }

unsigned fby__edit_distance(const char *a, const char *b)
{
    enum { MAX = FBY__NEAREST_MAX_BYTES };
    const size_t n = strlen(a), m = strlen(b);
    if (n > MAX || m > MAX)
        return UINT_MAX;
    unsigned rows[3][MAX + 1]; /* of the table of all prefixes, the row of i bytes of a at i % 3 */
    for (unsigned j = 0; j <= m; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        const unsigned *before = rows[(i + 1) % 3], *above = rows[(i + 2) % 3];
        unsigned *row = rows[i % 3];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            const char x = fold(a[i - 1]), y = fold(b[j - 1]);
            row[j] = least(above[j - 1] + (x != y), least(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && x == fold(b[j - 2]) && fold(a[i - 2]) == y)
                row[j] = least(row[j], before[j - 2] + 1);
        }
    }
    return rows[n % 3][m];
}

/* Does a name hold the word, of three letters or more? "gauge" is near to "gauge_id", "flow" to "streamflow". */
static bool holds(const char *name, const char *word)
{
    const size_t n = strlen(word);
    for (; n >= 3 && strlen(name) >= n; name++) {
        size_t i = 0;
        while (i < n && fold(name[i]) == fold(word[i]))
            i++;
        if (i == n)
            return true;
    }
    return false;
}

void fby__near_offer(fby__near *near, const char *name)
{
    const unsigned most = (unsigned)(strlen(near->wanted) + 2) / 3;
    unsigned d = fby__edit_distance(near->wanted, name);
    if (d > most && !holds(name, near->wanted))
        return;
    for (unsigned i = 0; i < near->n; i++)
        if (strcmp(near->names[i], name) == 0)
            return;
    d = least(d, most + 1); /* behind those that are misspelt */
    unsigned i = near->n < FBY__NEAREST_MAX_NAMES ? near->n++ : FBY__NEAREST_MAX_NAMES;
    for (; i > 0 && near->distance[i - 1] > d; i--) {
        if (i < FBY__NEAREST_MAX_NAMES) {
            near->names[i] = near->names[i - 1];
            near->distance[i] = near->distance[i - 1];
        }
    }
    if (i < FBY__NEAREST_MAX_NAMES) {
        near->names[i] = name;
        near->distance[i] = d;
    }
}

void fby__near_text(const fby__near *near, char *out, size_t n)
{
    size_t used = 0;
    *out = 0;
    for (unsigned i = 0; i < near->n && used < n; i++) {
        int more = snprintf(out + used, n - used, "%s'%s'%s", i ? ", " : "; did you mean ", near->names[i], i + 1 == near->n ? "?" : "");
        used += more > 0 ? (size_t)more : 0;
    }
}

const char *fby__nearest(const char *word, const char *const *names)
{
    fby__near near = {.wanted = word};
    for (; *names; names++)
        fby__near_offer(&near, *names);
    return near.n ? near.names[0] : NULL;
}
