/* Numbers are read as C reads them, whatever the locale. */
#include "base/number.h"

#include <locale.h>
#include <pthread.h>
#include <stdlib.h>

static locale_t plain;
static void make_plain(void) { plain = newlocale(LC_ALL_MASK, "C", (locale_t)0); } /* glibc: static, no memory */

double fby__strtod(const char *text, char **end)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, make_plain); /* cannot fail with these arguments */
    return strtod_l(text, end, plain);
}
