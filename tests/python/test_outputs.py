"""Arguments: sizes, outputs, dtypes. Next to nothing here reads a file."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb
from forebay import _output_rows, _outputs, _sizes


@pytest.mark.parametrize(
    "text, n",
    [
        ("8GiB", 8 << 30), ("512 MB", 512_000_000), ("1.5GiB", 3 << 29), ("100B", 100), ("64kib", 64 << 10), (" 2 TB ", 2 * 10**12),
        ("1_000 MB", 10**9), (12345, 12345), (np.int64(77), 77),
    ],
)  # fmt: skip
def test_sizes_are_read_as_people_write_them(text, n):
    assert _sizes.size_bytes(text, "memory") == n


@pytest.mark.parametrize(
    "text, hint",
    [
        ("8G", "8GiB"), ("8", "8GiB"), ("lots", "such as '8GiB'"), ("8 XB", "'XB' is not a unit"), ("-8GiB", "such as '8GiB'"),
        ("0GiB", "out of range"), ("8GiB extra", "such as"), ("", "such as"), ("99999999999TB", "out of range"),
    ],
)  # fmt: skip
def test_a_size_that_is_not_clear_is_refused_with_what_to_write(text, hint):
    with pytest.raises(ValueError, match="memory=") as error:
        _sizes.size_bytes(text, "memory")
    assert hint in str(error.value)


def test_a_size_that_is_not_a_size_is_a_type_error():
    for value in (1.5, True, None, b"8GiB"):
        with pytest.raises(TypeError, match="memory must be an integer"):
            _sizes.size_bytes(value, "memory")
    with pytest.raises(ValueError, match="at least 1"):
        _sizes.size_bytes(0, "memory")


def test_a_superbatch_is_in_blocks_samples_or_bytes():
    assert _sizes.superbatch(None) == {}
    assert _sizes.superbatch(1000) == {"superbatch_samples": 1000}
    assert _sizes.superbatch("100_000 samples") == {"superbatch_samples": 100_000}
    assert _sizes.superbatch("50 blocks") == {"superbatch_blocks": 50}
    assert _sizes.superbatch("1 block") == {"superbatch_blocks": 1}
    assert _sizes.superbatch("256MiB") == {"superbatch_bytes": 256 << 20}
    for bad in ("50", "5.5 blocks", "50 rows", "8G", "0 blocks", 0, -1):
        with pytest.raises(ValueError, match="superbatch="):
            _sizes.superbatch(bad)


def test_col_stacks_keeps_and_drops_the_axis():
    assert fb.col("a").columns == ("a",) and not fb.col("a").keep_axis
    assert fb.col("a", "b").columns == ("a", "b") and fb.col("a", "b").keep_axis
    assert fb.col(["a"]).columns == ("a",) and fb.col(["a"]).keep_axis
    assert _output_rows.resolve({"x": ["a"]})[0][3] is True
    assert _output_rows.resolve({"x": "a"})[0][3] is False


def test_chaining_makes_new_objects():
    first = fb.col("a", dtype="float32")
    second = first.cast("float16").fill_missing(3).ragged()
    assert first.dtype == "float32" and not first.ops
    assert second.dtype == "float16" and len(second.ops) == 1
    assert second.is_missing().mask_of
    assert repr(second) == "col('a').cast('float16').fill_missing(3.0).ragged()"
    assert repr(fb.col(["a"])) == "col(['a'])"


def test_the_last_layout_holds():
    assert fb.col("a").padded(4, multiple_of=2).ragged() == fb.col("a").ragged()
    assert repr(fb.col("a").ragged(max_rows=4, keep="random")) == "col('a').ragged(4)"
    assert fb.col("a").ragged(4).padded() == fb.col("a").padded()


def test_dtypes_come_in_every_spelling():
    assert _outputs.dtype_name("bfloat16") == "bfloat16"
    assert _outputs.dtype_name(np.float32) == "float32"
    assert _outputs.dtype_name(np.dtype("<u2")) == "uint16"
    assert _outputs.dtype_name(float) == "float64" and _outputs.dtype_name(bool) == "bool"
    torch = pytest.importorskip("torch")
    assert _outputs.dtype_name(torch.bfloat16) == "bfloat16"
    for bad in ("float128", "complex64", np.complex64, object):
        with pytest.raises(ValueError, match="is not a dtype of tensors here: use one of bool, int8.*; of times 'timestamp.ns.'"):
            _outputs.dtype_name(bad)


def test_outputs_that_say_nothing_are_refused():
    with pytest.raises(ValueError, match="empty"):
        _output_rows.resolve({})
    with pytest.raises(ValueError, match="'a' twice"):
        _output_rows.resolve(["a", "b", "a"])
    with pytest.raises(TypeError, match=r"outputs=\{'x': col\('a'\)\}"):
        _output_rows.resolve(fb.col("a"))
    with pytest.raises(TypeError, match="output 'x'"):
        _output_rows.resolve({"x": 3})
    with pytest.raises(TypeError, match="use a dict"):
        _output_rows.resolve([fb.col("a")])
    with pytest.raises(ValueError, match="at least one column"):
        fb.col()
    with pytest.raises(TypeError, match="named by a str"):
        fb.col(1, 2)


def test_the_package_and_the_header_agree_about_the_version():
    import pathlib
    import re

    header = pathlib.Path(__file__).resolve().parents[2] / "include/forebay/base.h"
    assert re.search(r'FBY_VERSION_STRING "([^"]+)"', header.read_text())[1] == fb.__version__


def test_another_versions_extension_refuses_to_import(run_python):
    done = run_python(
        """
        import importlib.util, sys
        spec = importlib.util.find_spec("forebay")
        source = open(spec.origin).read().replace('__version__ = "', '__version__ = "9.', 1)
        module = importlib.util.module_from_spec(spec)
        sys.modules["forebay"] = module
        try:
            exec(compile(source, spec.origin, "exec"), module.__dict__)
        except ImportError as error:
            assert "two installations are mixed" in str(error), error
            print("refused")
        """
    )
    assert done.stdout == "refused\n"


def test_importing_needs_neither_numpy_nor_torch(run_python):
    done = run_python(
        """
        import sys
        class Refuse:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in ("numpy", "torch", "pyarrow", "pandas"):
                    raise ImportError(name)
        sys.meta_path.insert(0, Refuse())
        import array
        import forebay as fb
        ds = fb.open({"a": array.array("i", range(10)), "b": array.array("d", range(10))})
        with ds.loader({"a": "a", "b": ["b"]}, batch_size=4, shuffle=False) as loader:
            batches = list(loader)
        assert [b["a"].tolist() for b in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
        assert batches[2]["b"].tolist() == [[8.0], [9.0]]
        assert type(batches[0]["a"]) is fb.Tensor
        m = memoryview(batches[0]["b"])
        assert (m.format, m.shape, m.readonly) == ("d", (4, 1), False)
        m[0, 0] = 7.5
        assert batches[0]["b"].tolist()[0] == [7.5]
        print("ok")
        """
    )
    assert done.stdout == "ok\n"


def test_public_names_are_documented():
    for name in fb.__all__:
        value = getattr(fb, name)
        if callable(value):
            assert value.__doc__, name
            for attribute, member in vars(value).items() if isinstance(value, type) else ():
                if not attribute.startswith("_") and (callable(member) or isinstance(member, property)):
                    assert member.__doc__, f"{name}.{attribute}"


def test_the_stub_names_what_the_extension_has():
    import ast
    import pathlib

    from forebay import _forebay

    stub = ast.parse((pathlib.Path(fb.__file__).parent / "_forebay.pyi").read_text())
    for node in stub.body:
        if isinstance(node, ast.ClassDef):
            for member in node.body:
                if isinstance(member, ast.FunctionDef) and member.name not in ("__init__", "__buffer__"):
                    assert hasattr(getattr(_forebay, node.name), member.name), f"{node.name}.{member.name}"
        elif isinstance(node, ast.FunctionDef):
            assert hasattr(_forebay, node.name), node.name
    documented = {n.name for n in stub.body if isinstance(n, (ast.ClassDef, ast.FunctionDef))} | {"version", "libraries", "dtypes"}
    assert {name for name in vars(_forebay) if not name.startswith("_")} <= documented
    for kind in ("Dataset", "Loader", "Batch", "Tensor"):
        node = next(n for n in stub.body if isinstance(n, ast.ClassDef) and n.name == kind)
        in_stub = {m.name for m in node.body if isinstance(m, ast.FunctionDef)}
        assert {m for m in vars(getattr(_forebay, kind)) if not m.startswith("_")} <= in_stub


def test_what_is_named_instead_of_a_map_is_accepted(tmp_path):
    maps = pa.array([[("a", 1.0)], [("b", 2.0), ("c", 3.0)]], pa.map_(pa.string(), pa.float32()))
    texts = pa.array([[("a", "b")], []], pa.map_(pa.string(), pa.string()))
    pq.write_table(pa.table({"arr": maps, "texts": texts}), tmp_path / "a.parquet")
    ds = fb.open(tmp_path)
    with pytest.raises(fb.SchemaError, match="'arr' is a map, not one column; name 'arr.value'$"):
        ds.rows().loader({"x": fb.col("arr")}, batch_size=2)
    batch = next(iter(ds.rows().loader({"x": fb.col("arr.value")}, batch_size=2, shuffle="none")))
    assert batch["x"].values.tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(fb.UnsupportedError, match="column 'arr.key', part of 'arr' of type map<string, float32> cannot be a tensor"):
        ds.rows().loader({"x": fb.col("arr.key")}, batch_size=2)
    with pytest.raises(fb.SchemaError, match="nothing in it can be an output: read it through Arrow"):
        ds.rows().loader({"x": fb.col("texts")}, batch_size=2)


def test_versions_are_shown(capsys):
    from forebay import _forebay

    names = [name for name, _, _ in _forebay.libraries]
    assert {"zstd", "lz4", "brotli", "snappy", "libdeflate", "blosc"} <= set(names) and names == sorted(names)
    fb.show_versions()
    shown = capsys.readouterr().out
    assert fb.__version__ in shown and all(name in shown for name in names) and "numpy" in shown


def test_the_extension_is_for_every_later_python():
    from forebay import _forebay

    assert _forebay.__file__.endswith(".abi3.so")
