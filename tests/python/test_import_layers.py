"""tools/check_layers.py sees calls that have one home, and imports that go up, round, or hide in a function."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

spec = importlib.util.spec_from_file_location("check_layers", Path(__file__).parents[2] / "tools/check_layers.py")
check_layers = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_layers)

TIERS = [["low"], ["left", "right"], ["high"]]


def rules(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return [(path.stem, line, rule) for path, line, rule in check_layers.check_package(folder, TIERS)[0]]


@pytest.mark.parametrize(
    "call",
    [
        "status = table->ops->decode_panel(&request, scratch, err);",
        "status = ops.decode_arrow(&request, scratch, out, err);",
        "status = fby__locate(&request, err);",
        *(f"return fby__{name}_decode_{what}(request, scratch, err);" for name in ("pq", "h5", "csv", "ipc", "arrow") for what in ("panel", "arrow")),
    ],
)
def test_a_block_that_is_decoded_outside_the_reader_is_found(call, tmp_path, monkeypatch, capsys):
    (tmp_path / "python/forebay").mkdir(parents=True)
    for folder in ("read", "format", "loader"):
        (tmp_path / "src" / folder).mkdir(parents=True)
        (tmp_path / "src" / folder / "planted.c").write_text(f"static int x;\n    {call}\n")
    monkeypatch.setattr(check_layers, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["check_layers.py"])
    assert check_layers.main() == 1
    assert capsys.readouterr().out == (
        f"src/loader/planted.c:2: {call}: blocks are located and decoded by the reader\ncheck_layers: 0 includes and imports, 1 violations\n"
    )


def test_imports_go_down_at_the_top_of_a_file(tmp_path):
    assert rules(tmp_path, low="import os\n", left="from .low import x\n", high="from . import left, right\nimport forebay.low\n") == []


def test_an_import_that_goes_up_round_or_inside_a_function_is_found(tmp_path):
    found = rules(
        tmp_path,
        low="from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .high import y\nfrom .high import y\n",
        left="from .right import x\n",
        high="def f():\n    import numpy\n    if numpy:\n        from .low import x\n",
        odd="",
    )
    assert found == [
        ("high", 4, "low is imported inside a function: import it at the top"),
        ("left", 1, "left may not import right: it stands in no lower tier"),
        ("low", 4, "low may not import high: it stands in no lower tier"),
        ("odd", 1, "odd has no place in PYTHON_TIERS of tools/check_layers.py: give it one"),
    ]


def test_importing_forebay_imports_nothing_that_training_seldom_needs():
    """It is paid by every worker and every command: what draws reports, calls GPUs or compares runs comes when it is asked for."""
    code = "import sys, forebay; late = set(dir(forebay)) - set(vars(forebay)); print(*sorted(sys.modules)); forebay.diagnose; print(*sorted(late))"
    loaded, late = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    assert not {"ctypes", "importlib.metadata", "importlib.resources", "statistics", "numpy", "torch"} & set(loaded.split())
    assert {"compare", "diagnose", "show_versions", "Gpu"} <= set(late.split())
