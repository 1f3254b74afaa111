/* Prints the version of the library it runs with; fails when the headers are of another one. */
#include <forebay/forebay.h>

#include <stdio.h>
#include <string.h>

int main(void)
{
    puts(fby_version());
    return strcmp(fby_version(), FBY_VERSION_STRING) != 0;
}
