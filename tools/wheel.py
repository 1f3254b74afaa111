#!/usr/bin/env python3
"""Build the wheel that installs on any Linux with glibc 2.28 or newer: `make wheels`, which makes a virtual environment with what this needs.

    tools/wheel.py [--arch=aarch64] [--work=build-wheel] [--out=dist]

The libraries come from tools/vendor.py. scikit-build-core builds the wheel; here it gets its platform tag, the licenses of what is inside and a list of it
(an SBOM, CycloneDX), and is written anew with sorted names and one time, so that a commit has one wheel, byte for byte. SOURCE_DATE_EPOCH is that time, by
default the commit's.
"""
import base64
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import vendor

ROOT = Path(__file__).resolve().parent.parent
LIMIT_BYTES = 6_000_000


def epoch():
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return int(given)
    done = subprocess.run(["git", "-C", ROOT, "log", "-1", "--format=%ct"], capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 else 315532800  # 1980: the first that a zip file can say


def versions_for_cmake(work):
    """What fby_library_at() says, where no .pc file or header says it as well."""
    text = "".join(f'set(FBY_VERSION_OF_{library["name"]} "{library["version"]}")\n' for library in vendor.libraries())
    path = work / "versions.cmake"
    path.write_text(text)
    return path


def build(work, arch, out):
    folder, toolchain = vendor.build_all(work, arch)
    flags = f"-ffile-prefix-map={ROOT}=. -ffunction-sections -fdata-sections"
    link = "-Wl,-s -Wl,--gc-sections -lc++"  # stripped; snappy is C++
    env = dict(vendor.environment(work, ""), CFLAGS=flags, SOURCE_DATE_EPOCH=str(epoch()), CMAKE_TOOLCHAIN_FILE=str(toolchain))
    for stale in (out, work / "forebay"):
        shutil.rmtree(stale, ignore_errors=True)
    define = {
        "FBY_BUILD_HELPER": "ON",
        "PKG_CONFIG_ARGN": "--static",
        "CMAKE_PREFIX_PATH": work / "prefix",
        "CMAKE_PROJECT_forebay_INCLUDE": versions_for_cmake(work),
        "CMAKE_EXE_LINKER_FLAGS": link,
        "CMAKE_MODULE_LINKER_FLAGS": link,
    }
    words = [sys.executable, "-m", "pip", "wheel", ".", "-w", out, "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "-q",
             f"-Cbuild-dir={work}/forebay", "-Ccmake.build-type=Release", *(f"-Ccmake.define.{name}={value}" for name, value in define.items())]
    if subprocess.run(words, cwd=ROOT, env=env, check=False).returncode:
        vendor.die("the wheel was not built: what pip said is above")
    return next(out.glob("*.whl"))


def sbom(version, arch, stamp):
    """CycloneDX: the package, and what was built into it."""
    parts = []
    for library in vendor.libraries():
        references = [{"type": "website", "url": library["homepage"]}]
        if library.get("build") != "compiler":
            source, sha256 = vendor.origin(library, arch)
            references.append({"type": "distribution", "url": f"{vendor.MIRRORS[0]}/{source}", "hashes": [{"alg": "SHA-256", "content": sha256}]})
        license = library["license"]
        parts.append({
            "type": "library", "bom-ref": library["name"], "name": library["name"], "version": library["version"],
            "licenses": [{"license": {"name": license}} if license.startswith("LicenseRef-") else {"expression": license}],
            "purl": f"pkg:generic/{library['name']}@{library['version']}",
            "externalReferences": references,
        })
    me = f"pkg:pypi/forebay@{version}"
    return {
        "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(stamp)),
            "component": {"type": "library", "bom-ref": me, "name": "forebay", "version": version, "purl": me,
                          "licenses": [{"license": {"id": "Apache-2.0"}}]},
        },
        "components": parts,
        "dependencies": [{"ref": me, "dependsOn": [part["bom-ref"] for part in parts]}],
    }


def record(files, path):
    def row(name, data):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        return f"{name},sha256={digest},{len(data)}\n"

    return "".join(row(name, data) for name, data in sorted(files.items())) + f"{path},,\n"


def finish(built, work, arch, out):
    """Tag, licenses, SBOM, RECORD; sorted, with one time and the modes that matter."""
    stamp = epoch()
    with zipfile.ZipFile(built) as old:
        files = {info.filename: old.read(info) for info in old.infolist() if not info.is_dir()}
        programs = {info.filename for info in old.infolist() if info.external_attr >> 16 & 0o111}
    info = next(name.split("/")[0] for name in files if name.endswith(".dist-info/WHEEL"))
    name, version = info.removesuffix(".dist-info").split("-")
    tag = f"cp311-abi3-manylinux_2_28_{arch}"
    kept = [line for line in files[f"{info}/WHEEL"].decode().splitlines() if line and not line.startswith("Tag:")]
    files[f"{info}/WHEEL"] = "\n".join([*kept, f"Tag: {tag}", ""]).encode()
    for text in sorted((work / "prefix/licenses").iterdir()):
        files[f"{info}/licenses/{text.name}"] = text.read_bytes()
    files[f"{info}/sboms/forebay.cdx.json"] = (json.dumps(sbom(version, arch, stamp), indent=1) + "\n").encode()
    files.pop(f"{info}/RECORD")
    files[f"{info}/RECORD"] = record(files, f"{info}/RECORD").encode()

    built.unlink()
    path = out / f"{name}-{version}-{tag}.whl"
    for earlier in out.glob(f"{name}-*_{arch}.whl"):  # of another version: who takes the one for this machine finds one
        earlier.unlink()
    moment = time.gmtime(max(stamp, 315532800))[:6]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as new:
        for name in sorted(files, key=lambda name: (name.startswith(info), name)):  # readers find the metadata at the end
            entry = zipfile.ZipInfo(name, moment)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            entry.external_attr = (0o100755 if name in programs else 0o100644) << 16
            new.writestr(entry, files[name])
    return path


def main(argv):
    given = dict(word.removeprefix("--").split("=", 1) for word in argv if word.startswith("--") and "=" in word)
    if len(given) != len(argv) or set(given) - {"arch", "work", "out"}:
        sys.exit(__doc__)
    arch = given.get("arch", platform.machine())
    work = Path(given.get("work", ROOT / "build-wheel")).resolve() / arch
    out = Path(given.get("out", ROOT / "dist")).resolve()
    path = finish(build(work, arch, work / "built"), work, arch, out_folder(out))
    size = path.stat().st_size
    print(f"{path}: {size / 1e6:.2f} MB, sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}")
    if size > LIMIT_BYTES:
        vendor.die(f"{path.name} is larger than {LIMIT_BYTES / 1e6:.0f} MB")


def out_folder(out):
    out.mkdir(parents=True, exist_ok=True)
    return out


if __name__ == "__main__":
    main(sys.argv[1:])
