"""What files, links and YAML say is printed without a byte that a terminal would obey; values and names themselves stay as they are."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb
from refusals import HOSTILE, SHOWN, safe


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    inner = pa.array([{HOSTILE: float(i)} for i in range(8)], pa.struct([(HOSTILE, pa.float64())]))
    for i in range(2):
        pq.write_table(pa.table({HOSTILE: pa.array(range(8), pa.float32()), "s": inner, "t": [HOSTILE] * 8}), folder / f"{i}{HOSTILE}.parquet")
    (folder / f"{HOSTILE}.txt").write_text("no data")
    return folder


def test_reprs_show_escapes_and_names_stay(folder, tmp_path):
    ds = fb.open(folder)
    assert HOSTILE in ds.columns and HOSTILE in ds.files[0].path
    loader = ds.rows().loader({HOSTILE: fb.col(HOSTILE)}, batch_size=4, shuffle="none")
    split = ds.rows().split(by=HOSTILE, a=0.5, b=0.5)["a"]
    texts = [ds, repr(ds), ds.select([HOSTILE]), ds.schema, ds.schema[HOSTILE], ds.files, loader, fb.fit(ds, [HOSTILE]), ds.rows(), split, *ds.notes]
    assert ds.notes
    batch = next(iter(loader))
    assert HOSTILE in batch
    for text in [*map(str, texts), str(batch), str(loader.report())]:
        assert safe(text), text
    shown = [str(x) for x in (ds, ds.schema, ds.schema[HOSTILE], ds.select([HOSTILE]), loader, fb.fit(ds, [HOSTILE]), split)]
    for text in (*shown, " ".join(ds.notes)):
        assert SHOWN in text, text


def test_errors_show_escapes(folder, tmp_path):
    damaged = tmp_path / f"{HOSTILE}.parquet"
    damaged.write_bytes(b"PAR1 nothing PAR1")
    ds = fb.open(folder)
    pipeline = tmp_path / "p.yaml"
    pipeline.write_text(f'data: {{paths: data}}\nsamples: {{"\\e[31mred\\a\\u202eexe\\x9b": 1}}\n')
    plain = tmp_path / f"{HOSTILE}.yaml"
    plain.write_text("data: {paths: data}\nsamples: rows\noutputs: {s: {columns: [t], text: true}}\n")
    for call in (
        lambda: fb.open(damaged),
        lambda: fb.open(tmp_path / f"missing{HOSTILE}"),
        lambda: ds.select(HOSTILE + "x"),
        lambda: ds.rows().loader({HOSTILE: fb.col("t").cast("float32")}, batch_size=4),
        lambda: fb.pipeline(pipeline).samples(),
        lambda: fb.pipeline(plain).samples.loader(),
        lambda: ds.rows().split(**{HOSTILE: 1.5}),
    ):
        with pytest.raises((fb.Error, ValueError)) as error:
            call()
        assert safe(str(error.value)) and SHOWN in str(error.value)


def test_printable_is_the_rule():
    from forebay._forebay import printable

    assert printable("plain ä 漢字 🌊 a\\b") == "plain ä 漢字 🌊 a\\b"
    assert printable("a\nb\t\udcff") == r"a\nb\t\xed\xb3\xbf"
    with pytest.raises(TypeError, match="not int"):
        printable(1)
