"""Where the real data is: FOREBAY_TEST_DATA, else ../shared/data from the project's root. And what the recipes generate, once for all tests."""

import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ.get("FOREBAY_TEST_DATA", ROOT.parent / "shared" / "data"))


def generated(tmp_path_factory, name, module, **options):
    """The folder with what a recipe's generator writes: made once."""
    folder = tmp_path_factory.getbasetemp() / "generated" / "-".join([name, *(f"{key}-{value}" for key, value in sorted(options.items()))])
    if not folder.exists():
        module.generate(folder, **options)
    return folder
