"""Where the real data is: FOREBAY_TEST_DATA, else ../shared/data from the project's root. And what the recipes generate, kept in FOREBAY_TEST_GENERATED."""

import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ.get("FOREBAY_TEST_DATA", ROOT.parent / "shared" / "data"))


def generated(tmp_path_factory, name, module, **options):
    """The folder with what a recipe's generator writes: made once, and where it is kept once for all runs, of other machines too."""
    base = os.environ.get("FOREBAY_TEST_GENERATED")
    base = pathlib.Path(base) if base else tmp_path_factory.getbasetemp() / "generated"
    folder = base / "-".join([name, *(f"{key}-{value}" for key, value in sorted(options.items()))])
    if not folder.exists():
        part = folder.with_name(f"{folder.name}.{os.getpid()}")
        module.generate(part, **options)
        part.rename(folder)
    return folder
