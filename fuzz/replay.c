/* Feeds files, or all files of directories, to a fuzz target: the corpus as a test, for compilers without libFuzzer. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
    FILE *f = fopen(path, "rbe");
    if (!f) {
        perror(path);
        return -1;
    }
    uint8_t *data = NULL;
    size_t size = 0, got;
    do {
        uint8_t *grown = realloc(data, size + 65536);
        if (!grown) {
            free(data);
            (void)fclose(f);
            return -1;
        }
        data = grown;
        got = fread(data + size, 1, 65536, f);
        size += got;
    } while (got > 0);
    (void)fclose(f); /* only read */
    /* An exact copy, so that AddressSanitizer sees the first byte read past the end. */
    uint8_t *exact = malloc(size ? size : 1);
    if (exact) {
        memcpy(exact, data, size);
        printf("%s\n", path); /* before: a crash is then attributed */
        fflush(stdout);
        (void)LLVMFuzzerTestOneInput(exact, size);
    }
    free(data);
    free(exact);
    return exact ? 1 : -1;
}

/** Number of inputs replayed; -1 when a file cannot be read. */
static int replay(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        perror(path);
        return -1;
    }
    if (!S_ISDIR(info.st_mode))
        return replay_file(path);
    struct dirent **entries;
    int n = scandir(path, &entries, NULL, alphasort), count = 0;
    for (int i = 0; i < n; i++) {
        char child[4096];
        if (entries[i]->d_name[0] != '.' && count >= 0) {
            (void)snprintf(child, sizeof child, "%s/%s", path, entries[i]->d_name);
            int result = replay(child);
            count = result < 0 ? -1 : count + result;
        }
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
    return n < 0 ? -1 : count;
}

int main(int argc, char **argv)
{
    int total = 0;
    for (int i = 1; i < argc; i++) {
        int n = replay(argv[i]);
        if (n < 0)
            return 1;
        total += n;
    }
    printf("%d inputs replayed\n", total);
    return total > 0 ? 0 : 1; /* an empty corpus tests nothing */
}
