"""Options are data: the library's tables, pipeline files, Python's arguments and the docs agree, and it is said where one is left out."""

import copy
import dataclasses
import importlib.util
import inspect
import json
import os
import pathlib

import pytest

import forebay as fb
from forebay import _forebay, _options
from forebay._lookup import Lookup
from forebay._output_rows import OutputRow

ROOT = pathlib.Path(__file__).resolve().parents[2]
FUNCTIONS = {
    "open": fb.open, "windows": fb.Dataset.windows, "groups": fb.Dataset.groups, "select": fb.Samples.select, "split": fb.Samples.split,
    "oversample": fb.Samples.oversample, "resample": fb.Samples.resample, "lookup": Lookup.__init__, "fit": fb.fit, "pipeline": fb.pipeline,
    "loader": fb.Loader.__init__, "pack": fb.pack, "mix": fb.mix, "ngrams": fb.ngrams,
    **{name: getattr(fb.Column, name) for name in ("ragged", "padded", "bits", "one_hot", "symmetric", "crop", "sequence_mask", "spec_augment")},
}
# Where a key of a set stands in a pipeline file.
FILES = {
    "open": "data: {{paths: x, {}}}", "windows": "data: x\nsamples: {{windows: {{{}}}}}", "groups": "data: x\nsamples: {{groups: {{{}}}}}",
    "select": "data: x\nsamples: {{select: {{{}}}}}", "oversample": "data: x\nsamples: {{oversample: {{{}}}}}",
    "resample": "data: x\nsamples: {{resample: {{{}}}}}", "split": "data: x\nsplits: {{a: 0.5, {}}}", "lookup": "data: x\nlookups: {{t: {{{}}}}}",
    "fit": "data: x\nmoments: {{m: {{{}}}}}", "loader": "data: x\nloader: {{{}}}", "mix": "mix: {{{}}}",
    **{make: "data: x\noutputs: {{y: {{columns: [a, b], " + make + ": {{{}}}}}}}"
       for make in ("ragged", "padded", "bits", "one_hot", "map", "ngrams", "symmetric", "group_channels", "crop", "sequence_mask")},
    "output": "data: x\noutputs: {{y: {{{}}}}}", "make_standardize": "data: x\noutputs: {{y: {{columns: [a, b], standardize: {{{}}}}}}}",
    "spec_augment": "data: x\noutputs: {{y: {{columns: a, after: {{spec_augment: {{{}}}}}}}}}",
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_option_is_an_argument(name):
    arguments = inspect.signature(FUNCTIONS[name]).parameters
    for row in _options.table(name):
        if row["in_python"]:
            assert row["name"] in arguments, f"{name} has no {row['name']}="


@pytest.mark.parametrize("name", FILES)
def test_each_option_is_a_key_of_a_pipeline_file(name, tmp_path):
    in_file = {row["name"] for row in _options.table(name) if row["in_file"]}
    for row in _options.table(name):
        # A value that none takes: the key is known, the value refused.
        (tmp_path / "p.yaml").write_text(FILES[name].format(f"{row['name']}: [[[{{}}]]]"))
        try:
            fb.pipeline(tmp_path / "p.yaml")
        except ValueError as error:
            known = f"unknown key '{row['name']}'" not in str(error)
            if name == "split":  # another name would be a part
                known = "whole numbers or texts are expected" not in str(error)
            of_data = name == "lookup" and row["name"] == "threads"  # a key of the table's files
            assert known == (row["name"] in in_file or of_data), str(error)
        else:
            pytest.fail(f"{row['name']} of {name} takes anything")


def test_outputs_are_handed_over_by_the_names_of_their_options():
    given = OutputRow("x", "columns").core()
    assert set(given) == {row["name"] for row in _options.table("output") if row["in_python"]}


@pytest.mark.parametrize("name", FILES)
def test_bounds_of_a_pipeline_file_are_those_of_the_table(name, tmp_path):
    for row in _options.table(name):
        if not row["in_file"] or row["form"] is not None or row["type"] not in ("u32", "u64", "int"):
            continue
        most = row["most"] or {"u32": 2**32 - 1, "int": 2**31 - 1}.get(row["type"])
        for value in (row["least"] - 1, *([] if most is None else [most + 1])):
            (tmp_path / "p.yaml").write_text(FILES[name].format(f"{row['name']}: {value}"))
            with pytest.raises(ValueError, match=rf"p.yaml:\d+:\d+: .*{row['name']}: {value} is (below|above)"):
                fb.pipeline(tmp_path / "p.yaml")


def test_what_an_output_is_made_of_is_refused_where_it_is_written():
    x = fb.col("x")
    for make, error, text in (
        (lambda: x.padded(pad="5"), TypeError, "pad must be a number, not str"), (lambda: x.padded(pad=[1]), TypeError, "pad must be a number, not list"),
        (lambda: x.padded(4, to_max="no"), TypeError, "to_max must be True or False"), (lambda: x.one_hot(0), ValueError, "n_classes=0 is out of range"),
        (lambda: x.spec_augment(time_masks=1, max_time=1, time_axis=9), ValueError, "time_axis=9 is out of range: it must be at most 8"),
        (lambda: x.spec_augment(time_masks=1, max_time=1, freq_axis=0), ValueError, "freq_axis=0: an axis of the output"),
        (lambda: fb.ngrams("x", n=9, vocabulary=["a"]), ValueError, "n=9 is out of range: it must be at most 8"),
        (lambda: fb.group_channels(key="a", order="b", max_groups=1, keys="no"), TypeError, "keys must be True or False"),
        (lambda: fb.open({"x": memoryview(b"1")}).rows().limit(1, random="no"), TypeError, "random must be True or False"),
    ):  # fmt: skip
        with pytest.raises(error, match=text):
            make()


def test_none_is_the_default_of_what_an_output_is_made_of():
    x = fb.col("x")
    plain = {
        "ragged": x.ragged, "padded": x.padded, "bits": x.bits, "symmetric": x.symmetric, "one_hot": lambda **of: x.one_hot(**{"n_classes": 3, **of}),
        "crop": lambda **of: x.crop(**{"length": 4, **of}), "sequence_mask": lambda **of: x.sequence_mask(**{"size": 4, **of}),
        "spec_augment": lambda **of: x.spec_augment(**{"time_masks": 1, "max_time": 2, **of}),
        "ngrams": lambda **of: fb.ngrams("x", **{"vocabulary": ["ab"], **of}),
    }  # fmt: skip
    for name, make in plain.items():
        for row in _options.table(name):
            if not row["in_python"] or row["form"] is not None or (name == "spec_augment" and row["name"].endswith("time")) or row["name"] == "time_masks":
                continue
            if row["default"] == "needed":
                with pytest.raises(TypeError, match=f"{row['name']} is needed"):
                    make(**{row["name"]: None})
            else:
                made = make(**{row["name"]: None})
                assert made == make() and repr(made) == repr(make()), row["name"]
    assert len({x.padded(4), x.padded(4), x.ragged(), x.padded(pad=False)}) == 3  # they are values
    assert x.padded(pad=False) == x.padded(pad=np_false()) == x.padded()


def np_false():
    return pytest.importorskip("numpy").False_


def test_outputs_are_written_without_what_is_at_its_default(parquet, tmp_path):
    x = fb.col("l")
    outputs = {"a": x.padded(), "b": x.ragged(keep="first"), "c": x.padded(2, to_max=True), "d": fb.col("k").one_hot(3)}
    with fb.open(parquet({"k": [0, 1, 2], "l": [[1.0], [1.0, 2.0], []]})).loader(outputs, batch_size=2) as loader:
        loader.to_yaml(tmp_path / "p.yaml")
    text = (tmp_path / "p.yaml").read_text()
    assert "padded: true" in text and "ragged: true" in text and "multiple_of" not in text and "keep" not in text
    with fb.pipeline(tmp_path / "p.yaml").loader() as again:
        again.to_yaml(tmp_path / "again.yaml")
    assert (tmp_path / "again.yaml").read_text() == text


def test_words_and_bounds_are_those_of_the_table(tmp_path):
    core = fb.open({"x": memoryview(b"12345678")})._core
    for row in _options.table("loader"):
        if row["form"] is None and row["type"] in ("u32", "u64", "int", "bytes"):
            for value in (row["least"] - 1, (row["most"] or 1 << 64) + 1 if row["type"] != "u32" else 1 << 32):
                with pytest.raises(ValueError, match=f"{row['name']}={value} is out of range"):
                    _forebay.Loader(core, None, None, {"batch_size": 1, row["name"]: value})
            for value in (True, "1", 1.5):
                with pytest.raises(TypeError, match=f"{row['name']} must be an integer"):
                    _forebay.Loader(core, None, None, {"batch_size": 1, row["name"]: value})
    with pytest.raises(ValueError, match="tail='last': use 'auto', 'keep', 'drop', 'wrap' or 'uneven'"):
        _forebay.Loader(core, None, None, {"batch_size": 1, "tail": "last"})
    with pytest.raises(TypeError, match="there is no option 'batchsize' of loader"):
        _forebay.Loader(core, None, None, {"batchsize": 1})
    with pytest.raises(ValueError, match="there is no set of options"):
        _forebay.options("load")


def test_what_outputs_are_made_of_is_read_by_name():
    with fb.open({"x": memoryview(b"12345678")}) as ds:
        for make, text in (
            (("crop", {"lenght": 3}), "there is no option 'lenght' of crop"), (("crop", {"length": 0}), "length=0 is out of range"),
            (("time", {"unit": "h"}), "unit='h': use"), (("twist", {}), "kind='twist': use"),
        ):  # fmt: skip
            with pytest.raises((TypeError, ValueError), match=text):
                ds.loader({"x": dataclasses.replace(fb.col("x"), make=make)}, batch_size=1)


@pytest.mark.parametrize("value", ["no", "false", "", b"x", 2, float("nan"), [], {}, object()])
def test_a_switch_is_true_or_false(value):
    samples = fb.open({"x": memoryview(b"12345678")}).rows()
    with pytest.raises(TypeError, match="exclude must be True or False, not "):
        samples.select("x", values=[1], exclude=value)
    with pytest.raises(TypeError, match="drop_last must be True or False, not "):
        samples.loader(batch_size=3, drop_last=value)


@pytest.mark.parametrize("value", [True, 1, False, 0])
def test_a_switch_may_be_a_number_or_numpys(value):
    np = pytest.importorskip("numpy")
    samples = fb.open({"x": memoryview(b"12345678")}).rows()
    for given in (value, np.bool_(value)):
        assert len(samples.select("x", values=[ord("1")], exclude=given)) == (7 if value else 1)
        with samples.loader(batch_size=3, drop_last=given) as loader:
            assert len(loader) == (2 if value else 3)


def test_what_is_wrong_with_a_value_names_its_option():
    ds = fb.open({"x": memoryview(b"12345678")})
    for value in ("0", [0]):
        with pytest.raises(TypeError, match=f"pad must be a number, not {type(value).__name__}"):
            fb.fit(ds, "x", pad=value)
    with pytest.raises(ValueError, match="part_key: a text that holds a NUL"):
        ds.rows().loader(batch_size=3, part="2 keys", part_key="a\0b")


def test_a_state_has_every_field_of_its_table():
    with fb.open({"x": memoryview(bytes(range(64)))}).rows().loader(batch_size=8) as loader:
        state = loader.state_dict()
        json.dumps(state)
        assert {row["name"] for row in _options.table("state")} == set(state) - {"format", "dataset"} | set(state["dataset"])
        assert {row["name"] for row in _options.table("report")} | {"waits", "sources"} == set(loader._core.report())
        for row in _options.table("state"):
            where = "dataset" if row["name"] in state["dataset"] else None
            less = copy.deepcopy(state)
            del (less[where] if where else less)[row["name"]]
            if row["later"]:
                loader.load_state_dict(less)
            else:
                with pytest.raises(ValueError, match="damaged"):
                    loader.load_state_dict(less)


def tool():
    spec = importlib.util.spec_from_file_location("options_tool", ROOT / "tools/options.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_an_option_that_is_left_out_is_said():
    library = pathlib.Path(os.environ.get("FOREBAY_CLI", ROOT / "build/forebay")).parent / "libforebay.so"
    if not library.exists():
        pytest.skip(f"{library} is not built")
    options = tool()
    found = options.tables(library)
    assert options.check_structs(found) + options.check_python(found) + options.docs(found, False) + options.tuning(found, False) == []

    struct, rows = found["loader"]
    for i, row in enumerate(rows):
        fewer = {**found, "loader": (struct, rows[:i] + rows[i + 1 :])}
        assert f"{struct}.{row['field']} is in no table of src/options" in options.check_structs(fewer)
        shared = sum(other["name"] == row["name"] for other in rows) > 1
        if row["flags"] & options.IN_PYTHON and not shared:
            assert any(f"the argument {row['name']} is no option of loader" in text for text in options.check_python(fewer))
        if row["flags"] & options.IN_FILE and not shared:
            assert any("docs/pipelines.md" in text for text in options.docs(fewer, False))
    for name, (of, some) in found.items():  # of every set, one that no other row shares its name or field with
        alone = [row for row in some if sum(row["name"] == other["name"] or row["field"] == other["field"] for other in some) == 1]
        if name in options.WORDS_ALONE or not alone:
            continue
        row, fewer = alone[-1], {**found, name: (of, [row for row in some if row is not alone[-1]])}
        same_struct = [other for key, (struct_of, others) in found.items() if struct_of == of and key != name for other in others]
        if all(other["field"] != row["field"] for other in same_struct):
            assert f"{of}.{row['field']} is in no table of src/options" in options.check_structs(fewer)
        if row["flags"] & options.IN_PYTHON and name in options.PYTHON:
            assert any(f"the argument {row['name']} is no option of {name}" in text for text in options.check_python(fewer))
        if row["flags"] & options.IN_FILE:
            assert any("docs/pipelines.md" in text for text in options.docs(fewer, False)), name
    more = {**found, "loader": (struct, [*rows, {**rows[-1], "name": "echo", "field": "echo", "flags": options.IN_PYTHON | options.IN_FILE}])}
    assert options.check_structs(more) == [f"src/options: {struct} has no field echo"]
    assert any("__init__() has no argument echo" in text for text in options.check_python(more))
    assert any("docs/pipelines.md" in text for text in options.docs(more, False))
    assert options.tuning(more, False) == ["docs/tuning.md: no row for echo, an option of loader"]


def test_a_wrong_type_names_the_option(parquet):
    path = parquet({"k": [1], "x": [1.0]})
    for options, name in (({"ids": 5}, "ids"), ({"external": 5}, "external"), ({"external": [5]}, "external"), ({"cache_dir": 5}, "cache_dir")):
        with pytest.raises(TypeError, match=name):
            fb.open(path, **options)
    for wrong, error in ((float("nan"), ValueError), (float("inf"), ValueError), (True, TypeError)):
        with pytest.raises(error, match="pad"):
            fb.fit(fb.open(path), ["x"], pad=wrong)
