"""Spack package of Forebay. Not yet built: written by Spack's documentation."""

from spack.package import *


class Forebay(CMakePackage):
    """Shuffled, deterministic, ready-to-train batches from scientific data sets as they lie on disk: library and command."""

    homepage = "https://pypi.org/project/forebay/"
    pypi = "forebay/forebay-0.2.0.tar.gz"

    license("Apache-2.0")

    version("0.2.0", sha256="0000000000000000000000000000000000000000000000000000000000000000")  # of the release

    variant("hdf5", default=True, description="Read unusual HDF5 files, by libhdf5 in a program of its own")
    variant("uring", default=True, description="Read by io_uring")

    depends_on("c", type="build")
    depends_on("cmake@3.18:", type="build")
    depends_on("pkgconfig", type="build")
    for name in ("zstd", "lz4", "brotli", "libdeflate", "snappy", "xxhash", "c-blosc", "liblzf", "libaec", "libyaml", "jansson"):
        depends_on(name)
    depends_on("hdf5", when="+hdf5")
    depends_on("liburing", when="+uring")

    def cmake_args(self):
        return [
            self.define("FBY_BUILD_TESTS", False),
            self.define("FBY_BUILD_EXAMPLES", False),
            self.define("FBY_BUILD_HELPER", "ON" if self.spec.satisfies("+hdf5") else "OFF"),
        ]
