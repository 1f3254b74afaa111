"""Where the real data is: FOREBAY_TEST_DATA, else ../shared/data from the project's root."""

import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ.get("FOREBAY_TEST_DATA", ROOT.parent / "shared" / "data"))
