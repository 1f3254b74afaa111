"""What this installation is made of, for bug reports."""

import platform
import sys
from importlib import metadata

from . import _forebay

_OTHERS = ("numpy", "torch", "pandas", "pyarrow", "polars", "duckdb", "lightning", "jax", "h5py")


def show_versions() -> None:
    """Print the versions of Forebay, of the libraries inside it with their licenses, and of the packages that it works with."""
    print(f"forebay     {_forebay.version}  {_forebay.__file__}")
    print(f"python      {platform.python_version()}  {sys.executable}")
    print(f"platform    {platform.platform()}")
    print("\nlibraries inside (name, version, license)")
    for name, version, license in _forebay.libraries:
        print(f"  {name:11} {version or '?':10} {license}")
    print("\npackages beside it")
    for name in _OTHERS:
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            version = "not installed"
        print(f"  {name:11} {version}")
