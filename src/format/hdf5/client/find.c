/*
 * Where the helper program is, and whether it may be run: only where nobody but the user and root may write it. See helper.h.
 */
#include "format/hdf5/client/helper_internal.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { IS_PROGRAM, IS_NONE, IS_OPEN_TO_OTHERS };

/*
 * May somebody else change it, or put another in its place? The group that has the user's own number is the user's alone, as systems with
 * such groups make new files writable for it.
 */
static bool others_may_write(const struct stat *st)
{
    if (st->st_uid != 0 && st->st_uid != geteuid())
        return true;
    bool group = (st->st_mode & S_IWGRP) && st->st_gid != 0 && st->st_gid != geteuid();
    return (group || (st->st_mode & S_IWOTH)) && !(S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX));
}

/* @out  its real name */
static int check_program(const char *path, char *out)
{
    struct stat st;
    char folder[FBY__H5P_MAX_PATH];
    if (!realpath(path, out) || stat(out, &st) != 0 || !S_ISREG(st.st_mode) || access(out, X_OK) != 0)
        return IS_NONE;
    strcpy(folder, out);
    *strrchr(folder, '/') = 0; /* an absolute path has one */
    struct stat around;
    return others_may_write(&st) || stat(*folder ? folder : "/", &around) != 0 || others_may_write(&around) ? IS_OPEN_TO_OTHERS
                                                                                                            : IS_PROGRAM;
}

static const char HERE;

/* The folder of the shared object, or the program, that holds this code. */
static bool own_folder(char *out)
{
    Dl_info info;
    if (dladdr((void *)(uintptr_t)&HERE, &info) && info.dli_fname && info.dli_fname[0] == '/' && realpath(info.dli_fname, out)) {
        /* as wanted */
    } else {
        ssize_t n = readlink("/proc/self/exe", out, FBY__H5P_MAX_PATH - 1); /* a name relative to an old working directory */
        if (n <= 0)
            return false;
        out[n] = 0;
    }
    char *slash = strrchr(out, '/');
    if (!slash)
        return false;
    *slash = 0;
    return true;
}

static bool ends_with(const char *path, size_t n, const char *end)
{
    size_t k = strlen(end);
    return n >= k && memcmp(path + n - k, end, k) == 0;
}

/* prefix/lib, prefix/lib64, prefix/lib/<machine>, prefix/bin → the length of prefix; 0: it is none of these. */
static size_t prefix_of(const char *folder)
{
    static const char *const FOLDERS[] = {"/lib", "/lib64", "/bin"};
    size_t n = strlen(folder), up = n;
    while (up > 0 && folder[up - 1] != '/')
        up--;
    for (size_t i = 0; i < sizeof FOLDERS / sizeof *FOLDERS; i++)
        if (ends_with(folder, n, FOLDERS[i]))
            return n - strlen(FOLDERS[i]);
    return up > 0 && ends_with(folder, up - 1, "/lib") ? up - 1 - strlen("/lib") : 0;
}

#if defined(FBY_IN_WHEEL)
/* The command of a wheel is in bin/, and the helper with the package: prefix/lib/python3.x/site-packages/forebay, or beside bin/ (--target). */
static void path_in_package(const char *prefix, size_t n, char *out)
{
    char pattern[FBY__H5P_MAX_PATH + 64];
    glob_t found = {0};
    out[0] = 0;
    if (n >= FBY__H5P_MAX_PATH || strcspn(prefix, "*?[\\") < n)
        return;
    (void)snprintf(pattern, sizeof pattern, "%.*s/lib*/python3.*/*-packages/forebay/forebay-hdf5", (int)n, prefix); /* fits */
    if (glob(pattern, 0, NULL, &found) == 0 && strlen(found.gl_pathv[0]) < FBY__H5P_MAX_PATH)
        strcpy(out, found.gl_pathv[0]);
    else
        (void)snprintf(out, FBY__H5P_MAX_PATH, "%.*s/forebay/forebay-hdf5", (int)n, prefix); /* a cut name is no program */
    globfree(&found);
}
#endif

/* Where the program may be, by number; false: there are no more. An empty path does not apply. */
static bool candidate(unsigned i, const char *folder, char *out)
{
    const size_t prefix = prefix_of(folder);
    int n = 0;
    out[0] = 0;
    switch (i) {
    case 0: n = snprintf(out, FBY__H5P_MAX_PATH, "%s/forebay-hdf5", folder); break;
    case 1:
        if (prefix)
            n = snprintf(out, FBY__H5P_MAX_PATH, "%.*s/libexec/forebay/forebay-hdf5", (int)prefix, folder);
        break;
    case 2:
#if defined(FBY_HDF5_BUILD_FOLDER)
        /* Only for what lies in the build tree: elsewhere that name means nothing. */
        if (strncmp(folder, FBY_HDF5_BUILD_FOLDER, strlen(FBY_HDF5_BUILD_FOLDER)) == 0 &&
            (folder[strlen(FBY_HDF5_BUILD_FOLDER)] == '/' || !folder[strlen(FBY_HDF5_BUILD_FOLDER)]))
            n = snprintf(out, FBY__H5P_MAX_PATH, "%s/helper/forebay-hdf5", FBY_HDF5_BUILD_FOLDER);
#endif
        break;
    case 3:
#if defined(FBY_HDF5_HELPER_PATH)
        n = snprintf(out, FBY__H5P_MAX_PATH, "%s", FBY_HDF5_HELPER_PATH);
#endif
        break;
    case 4:
#if defined(FBY_IN_WHEEL)
        if (prefix)
            path_in_package(folder, prefix, out);
#endif
        break;
    default: return false;
    }
    if (n < 0 || (size_t)n >= FBY__H5P_MAX_PATH)
        out[0] = 0;
    return true;
}

static fby_status fail_open_to_others(const char *path, fby_error *err)
{
    return fby__fail(
        err, FBY_E_UNSUPPORTED,
        "this needs libhdf5 in a program of its own, but %.300s is not run: it, or its folder, belongs to somebody else or may be "
        "written by others (chmod go-w)",
        path);
}

fby_status fby__h5_helper_find(const fby__h5_environment *environment, char *out, fby_error *err)
{
    const char *said = environment->program;
    if (said && strcmp(said, "none") == 0)
        return fby__fail(err, FBY_E_UNSUPPORTED, "this needs libhdf5 in a program of its own, and FOREBAY_HDF5_HELPER is \"none\"");
    if (said) {
        int is = strlen(said) < FBY__H5P_MAX_PATH ? check_program(said, out) : IS_NONE;
        if (is == IS_PROGRAM)
            return FBY_OK;
        if (is == IS_OPEN_TO_OTHERS)
            return fail_open_to_others(said, err);
        return fby__fail(err, FBY_E_UNSUPPORTED,
                         "this needs libhdf5 in a program of its own, but FOREBAY_HDF5_HELPER names \"%.300s\", which cannot be run; with "
                         "\"none\" there, what needs it is left out by name",
                         said);
    }
    char folder[FBY__H5P_MAX_PATH] = "", path[FBY__H5P_MAX_PATH];
    if (!own_folder(folder))
        folder[0] = 0;
    for (unsigned i = folder[0] ? 0 : 3; candidate(i, folder, path); i++) {
        int is = path[0] ? check_program(path, out) : IS_NONE;
        if (is == IS_PROGRAM)
            return FBY_OK;
        if (is == IS_OPEN_TO_OTHERS)
            return fail_open_to_others(path, err);
    }
    return fby__fail(
        err, FBY_E_UNSUPPORTED,
        "this needs libhdf5 in a program of its own, forebay-hdf5, which was not found: build Forebay where libhdf5 is "
        "installed (Debian: libhdf5-dev), or set FOREBAY_HDF5_HELPER to the program (to \"none\": what needs it is left out by name)");
}

bool fby__h5_helper_is_expected(const fby__h5_environment *environment)
{
    if (environment->program)
        return strcmp(environment->program, "none") != 0;
#if defined(FBY_HAVE_HELPER)
    return true;
#else
    return false;
#endif
}
