/*
 * Beside the helper program's own sources in the library that its fuzzers link (fuzz/CMakeLists.txt): what libFuzzer counts of them. A fork
 * of the fuzzer hands it back to its parent, which would otherwise learn nothing from an input.
 */
#include <stddef.h>
#include <stdint.h>

#define OF_THIS_LIBRARY extern uint8_t __attribute__((weak, visibility("hidden"))) /* made by the linker; NULL without instrumentation */
OF_THIS_LIBRARY __start___sancov_cntrs[], __stop___sancov_cntrs[];

uint8_t *helper_counters(size_t *out_n);

uint8_t *helper_counters(size_t *out_n)
{
    *out_n = (size_t)(__stop___sancov_cntrs - __start___sancov_cntrs);
    return __start___sancov_cntrs;
}
