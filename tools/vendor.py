#!/usr/bin/env python3
"""Build the libraries that wheels hold, as static libraries into one prefix, from the sources that cmake/vendor.toml names.

    tools/vendor.py fetch FOLDER                  only fetch them: for a build without a network
    tools/vendor.py build WORK [--arch=aarch64]   fetch, compile with zig for glibc 2.28 or newer, install into WORK/prefix

A file that is in FOLDER (WORK/sources) already is not fetched again; each is compared with its hash whenever it is used. What was built stays: a
library is built again when its entry in vendor.toml, the compiler or this script changes.
"""
import hashlib
import io
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tomllib
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "cmake/vendor.toml"
MIRRORS = ["http://deb.debian.org/debian", "https://snapshot.debian.org/archive/debian/20251001T000000Z"]
APT_HELPER = "/usr/lib/apt/apt-helper"  # knows the proxy that apt was told of
GLIBC = "2.28"
REVISION = 2  # of how libraries are built here: another number builds all anew
JOBS = os.environ.get("JOBS") or str(os.cpu_count())


def die(text):
    sys.exit(f"vendor: error: {text}")


def libraries():
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))["library"]


def origin(library, arch):
    """Where its file is and which hash it has."""
    place = library.get("packages", {}).get(arch, library)
    if "source" not in place:
        die(f"{library['name']}: {TABLE.name} has no package for {arch}")
    return place["source"], place["sha256"]


def download(url, path):
    if os.access(APT_HELPER, os.X_OK):
        if subprocess.run([APT_HELPER, "download-file", url, path], capture_output=True, check=False).returncode == 0:
            return True
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            path.write_bytes(answer.read())
        return True
    except (urllib.error.URLError, TimeoutError, OSError):
        return False


def fetch(library, arch, folder):
    source, expected = origin(library, arch)
    path = folder / source.rsplit("/", 1)[1]
    folder.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        print(f"fetching {path.name}", flush=True)
        part = path.with_name(path.name + ".part")
        if not any(download(f"{mirror}/{source}", part) for mirror in MIRRORS):
            die(f"{path.name} could not be fetched from {' or '.join(MIRRORS)}: put it into {folder}")
        part.rename(path)
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != expected:
        die(f"{path}: SHA-256 is {found}, not {expected} as {TABLE.name} has it: remove the file")
    return path


def unpack(path, folder):
    """Into `folder`, without the one folder that archives of sources have at the top."""
    shutil.rmtree(folder, ignore_errors=True)
    data = path.read_bytes()
    strip = True
    if path.suffix == ".deb":  # an ar archive: 60 bytes of header, the member, padded to even
        strip, at = False, 8
        while at < len(data):
            name, size = data[at : at + 16].rstrip(b" /"), int(data[at + 48 : at + 58])
            if name.startswith(b"data.tar"):
                data = data[at + 60 : at + 60 + size]
                break
            at += 60 + size + size % 2
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for member in tar.getmembers():
            name = member.name.removeprefix("./")
            if strip:
                name = name.partition("/")[2]
            if name:
                member.name = name
                if member.islnk() and strip:
                    member.linkname = member.linkname.removeprefix("./").partition("/")[2]
                tar.extract(member, folder, filter="tar")


def symbols_of(path, *options):
    """Names that an object, archive or shared library defines for others."""
    done = subprocess.run(["readelf", "-W", *options, path], capture_output=True, text=True, check=True)
    rows = (line.split() for line in done.stdout.splitlines())
    return {row[7] for row in rows if len(row) > 7 and row[4] in ("GLOBAL", "WEAK") and row[6] != "UND"}


def glibc_header(work, cc):
    """A header for all that is compiled: what zig's runtime library has as well as glibc is asked of glibc, by name and version.

    The linker finds that library first: its exp() is less exact than that of the system where the wheel is installed, and its memcpy() is made for no
    processor in particular.
    """
    header, probe = work / "glibc.h", work / "probe.c"
    probe.write_text("int main(void) { return 0; }\n")
    run([cc, "-O3", probe, "-lm", "-o", work / "probe"], work / "probe.log")  # makes what is read here
    own = set()
    for archive in work.glob("zig/o/*/libcompiler_rt.a"):
        own |= symbols_of(archive, "--symbols")
    versions = {}
    for library in ("libm.so.6", "libc.so.6"):
        for path in work.glob(f"zig/o/*/{library}"):
            versions |= dict(name.split("@@", 1) for name in symbols_of(path, "--dyn-syms") if "@@" in name)
    both = sorted(own & set(versions))
    if not {"exp", "memcpy"} <= set(both):
        die(f"{work}/zig: zig keeps its runtime library and its descriptions of glibc in another way than this script knows")
    lines = (f'__asm__(".symver {name},{name}@{versions[name]}");\n' for name in both)
    header.write_text("#ifndef __ASSEMBLER__\n" + "".join(lines) + "#endif\n")
    return header


def compilers(work, arch):
    """Programs of one word around zig, and the CMake toolchain that names them."""
    try:
        import ziglang  # noqa: PLC0415 - only builds need it
    except ImportError:
        die("the compiler is missing: pip install -r tools/wheel-requirements.txt")
    zig = Path(ziglang.__file__).parent / "zig"
    folder = work / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    common = f"-target {arch}-linux-gnu.{GLIBC} -fno-sanitize=all"

    def wrap(name, words):
        program = folder / name
        program.write_text(f'#!/bin/sh\nexport ZIG_GLOBAL_CACHE_DIR="{work}/zig" ZIG_LOCAL_CACHE_DIR="{work}/zig"\nexec "{zig}" {words} "$@"\n')
        program.chmod(0o755)

    wrap("cc", f"cc {common}")
    header = glibc_header(work, folder / "cc")
    for name, words in {"cc": f"cc {common} -include {header}", "c++": f"c++ {common} -include {header}", "ar": "ar", "ranlib": "ranlib"}.items():
        wrap(name, words)
    toolchain = work / "toolchain.cmake"
    emulator = "env" if arch == platform.machine() else shutil.which(f"qemu-{arch}-static") or ""  # what runs the command, to print its man pages
    # No strip program: what is linked is stripped by the linker (-s), the same on every machine.
    toolchain.write_text(
        f"""set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR {arch})
set(CMAKE_C_COMPILER {folder}/cc)
set(CMAKE_CXX_COMPILER {folder}/c++)
set(CMAKE_AR {folder}/ar)
set(CMAKE_RANLIB {folder}/ranlib)
set(CMAKE_STRIP "")
set(CMAKE_FIND_ROOT_PATH {work}/prefix)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CROSSCOMPILING_EMULATOR "{emulator}")
"""
    )
    return folder, toolchain, subprocess.run([zig, "version"], capture_output=True, text=True, check=True).stdout.strip()


def run(words, log, **kwargs):
    with open(log, "ab") as out:
        if subprocess.run(words, stdout=out, stderr=subprocess.STDOUT, check=False, **kwargs).returncode:
            print(log.read_text(errors="replace")[-6000:], file=sys.stderr)
            die(f"{' '.join(map(str, words))}: the log is {log}")


def environment(work, flags):
    """That of the builds: pkg-config and the compilers know the prefix alone, and sources lie in /src as far as the output can tell."""
    flags = f"{flags} -O3 -fPIC -ffunction-sections -fdata-sections -ffile-prefix-map={work}/src=/src -ffile-prefix-map={work}/obj=/obj"
    return dict(os.environ, PKG_CONFIG_LIBDIR=f"{work}/prefix/lib/pkgconfig", PKG_CONFIG_PATH="", CFLAGS=flags, CXXFLAGS=flags, LDFLAGS="",
                ZERO_AR_DATE="1", CMAKE_C_COMPILER_LAUNCHER="", CMAKE_CXX_COMPILER_LAUNCHER="")


def build(library, work, arch, folder, toolchain, log):
    source, prefix = work / "src" / library["name"], work / "prefix"
    env, how = environment(work, library.get("flags", "")), library.get("build", "cmake")
    if how == "cmake":
        binary = work / "obj" / library["name"]
        shutil.rmtree(binary, ignore_errors=True)
        run(["cmake", "-S", source / library.get("folder", "."), "-B", binary, "-G", "Ninja", f"-DCMAKE_TOOLCHAIN_FILE={toolchain}",
             "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_C_FLAGS_RELEASE=-DNDEBUG", "-DCMAKE_CXX_FLAGS_RELEASE=-DNDEBUG",
             f"-DCMAKE_INSTALL_PREFIX={prefix}", f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_INSTALL_LIBDIR=lib",
             "-DCMAKE_POLICY_VERSION_MINIMUM=3.5", *library["options"]], log, env=env)
        run(["cmake", "--build", binary, "-j", JOBS], log, env=env)
        run(["cmake", "--install", binary], log, env=env)
    elif how == "liburing":
        run(["./configure", f"--prefix={prefix}", f"--cc={folder}/cc", "--use-libc"], log, env=env, cwd=source)
        run(["make", "-C", "src", "-j", JOBS, f"AR={folder}/ar", f"RANLIB={folder}/ranlib", "ENABLE_SHARED=0", "install"], log, env=env, cwd=source)
        (prefix / "lib/pkgconfig").mkdir(exist_ok=True)
        run(["make", f"prefix={prefix}", "liburing.pc"], log, env=env, cwd=source)
        shutil.copy(source / "liburing.pc", prefix / "lib/pkgconfig")
    elif how == "archive":
        objects = []
        for name in library["compile"]:
            objects.append(source / (name + ".o"))
            run([folder / "cc", *env["CFLAGS"].split(), "-DNDEBUG", "-c", source / name, "-o", objects[-1]], log, env=env)
        run([folder / "ar", "rcs", prefix / "lib" / library["archive"], *objects], log, env=env)
    for name in library.get("files", []):
        found = next(iter(sorted(source.rglob(name), key=lambda path: len(path.parts))), None) or die(f"{library['name']}: {name} is not in its sources")
        shutil.copy(found, prefix / ("lib" if name.endswith(".a") else "include"))
    if "pc" in library:
        pc = library["pc"]
        (prefix / f"lib/pkgconfig/{pc['name']}.pc").write_text(
            f"Name: {pc['name']}\nDescription: {library['name']}\nVersion: {library['version']}\n"
            f"Libs: -L{prefix}/lib {pc['libs']}\nCflags: -I{prefix}/include\n")
    if library.get("cmake") == "libaec":
        (prefix / "lib/cmake/libaec").mkdir(parents=True, exist_ok=True)
        (prefix / "lib/cmake/libaec/libaec-config.cmake").write_text(
            "add_library(libaec::sz STATIC IMPORTED)\n"
            f"set_target_properties(libaec::sz PROPERTIES IMPORTED_LOCATION {prefix}/lib/libsz.a OUTPUT_NAME sz "
            f"INTERFACE_LINK_LIBRARIES {prefix}/lib/libaec.a)\n"
            f"set(SZIP_FOUND TRUE)\nset(SZIP_INCLUDE_DIR {prefix}/include)\nset(SZIP_LIBRARIES libaec::sz)\n")
    texts = prefix / "licenses"
    texts.mkdir(exist_ok=True)
    if how == "compiler":
        import ziglang  # noqa: PLC0415

        source = Path(ziglang.__file__).parent
    for text in library["texts"]:
        shutil.copy(source / text, texts / f"{library['name']}-{Path(text).name}.txt")


def build_all(work, arch):
    work = work.resolve()
    folder, toolchain, zig = compilers(work, arch)
    for name in ("lib", "include", "stamps"):
        (work / "prefix" / name).mkdir(parents=True, exist_ok=True)
    earlier = ""  # a library is built again when one before it was: those that it needs are
    for library in libraries():
        how = library.get("build")
        path = fetch(library, arch, work / "sources") if how != "compiler" else None
        earlier += repr((library, arch, zig, REVISION))
        stamp, key = work / "prefix/stamps" / library["name"], hashlib.sha256(earlier.encode()).hexdigest()
        if stamp.exists() and stamp.read_text() == key:
            continue
        print(f"building {library['name']} {library['version']}", flush=True)
        if path:
            source = work / "src" / library["name"]
            unpack(path, source)
            for name, by in library.get("replaced", {}).items():
                shutil.copy(source / by, source / name)
        log = work / f"{library['name']}.log"
        log.unlink(missing_ok=True)
        build(library, work, arch, folder, toolchain, log)
        stamp.write_text(key)
    return folder, toolchain


def main(argv):
    words = [a for a in argv if not a.startswith("--")]
    arch = next((a.removeprefix("--arch=") for a in argv if a.startswith("--arch=")), platform.machine())
    if len(words) != 2 or words[0] not in ("fetch", "build"):
        sys.exit(__doc__)
    if words[0] == "fetch":
        for library in libraries():
            if library.get("build") != "compiler":
                fetch(library, arch, Path(words[1]))
    else:
        build_all(Path(words[1]), arch)


if __name__ == "__main__":
    main(sys.argv[1:])
