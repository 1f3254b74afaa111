"""print() and repr() of every public object, whole, closed and half made: text, and no error."""

import inspect

import pytest

import forebay as fb

np = pytest.importorskip("numpy")
h5py = pytest.importorskip("h5py")


@pytest.fixture
def objects(tmp_path, parquet):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(6.0)
        file["x"].attrs["unit"] = "m"
    path = parquet({"g": [1, 1, 2, 2, 2, 3], "x": np.arange(6.0), "s": list("abcdef"), "l": [[1]] * 6}, "a.parquet")
    ds, h5 = fb.open(path), fb.open(tmp_path / "a.h5")
    groups = ds.groups("g")
    loader = groups.loader({"x": fb.col("x").padded(), "y": fb.col("x").padded(lengths=True), "r": "x", "s": fb.col("s").first(), "i": fb.sample_index()},
                           batch_size=2, framework="numpy")  # fmt: skip
    batch = next(iter(loader))
    raw = next(iter(ds.loader("x", batch_size=2, framework="buffer")))
    (tmp_path / "p.yaml").write_text(f"data: {path}\nsamples: rows\noutputs: {{x: {{columns: x}}}}\nloader: {{batch_size: 2}}\n")
    pipeline = fb.pipeline(tmp_path / "p.yaml")
    moments, by_group = fb.fit(ds, ["x"]), fb.fit(ds, ["x"], by="g")
    table = fb.Lookup(path, "g", first_wins=True)
    contents = h5.contents()
    blocks = ds.blocks
    mixture = fb.mix({"a": ds, "b": h5}, weights={"a": 1, "b": 2}, stop=5)
    mixed = mixture.loader({"x": "x", "i": fb.source()}, batch_size=2, framework="numpy")
    diagnosis = fb.diagnose(len, ds.rows().loader("x", batch_size=2), 0.01)
    comparison = fb.compare(lambda way, seed: [way], {"a": 1.0, "b": 2.0}, seeds=2)
    some = [
        comparison, comparison.runs["a"], fb.Span(1, 2), fb.Cure("threads=4", 1.0, 2.0, "why"), loader.report().epochs[0], fb.span("a"), fb.trace("run.json"),
        fb.pack(ds, tmp_path / "pack"), *fb.pack_tasks(ds, tmp_path / "tasks"),
        diagnosis, fb.BatchSize(8, 1.0, 1), fb.Gpu("a", 0.5, 1, 2),
        mixture, mixed, mixed.sources()["a"], mixed.report().sources[0], fb.source(),
        ds, h5, ds.rows(), ds.windows(2), groups, groups.select([1]), ds.select(["x"]), ds.schema, ds.schema["x"], ds.files, ds.files[0], blocks,
        blocks[0], loader, batch,
        batch["x"], batch["y"], batch["r"], batch["s"], loader.outputs["x"], loader.report(), raw, raw["x"], pipeline, pipeline.outputs, pipeline.outputs["x"],
        pipeline.samples, pipeline.dataset, moments, moments["x"], by_group, by_group[1], table, contents, contents["/x"], contents["/x"].attributes, h5.attrs,
        fb.col("x").standardize(moments).fill_nan(0), fb.col("x").steps(0, 2), fb.col("x").ragged(2), fb.lookup(table, on="g", columns=["x"]),
        fb.encode("g"), fb.encode("g", ds),
        fb.sample_index(), fb.is_repeat(), fb.row_index(), fb.n_rows(), fb.segment_ids(), fb.lit(1), fb.col("x").ragged(3), fb.expr("x + g"),
        fb.Bytes(np.zeros(2, "uint8"), np.array([0, 2])),
    ]  # fmt: skip
    return some


def check(thing):
    for text in (repr(thing), str(thing), f"{thing}"):
        assert isinstance(text, str) and text and len(text) < 20_000
        assert "object at 0x" not in text or not type(thing).__module__.startswith("forebay."), text


def test_every_public_object_can_be_printed(objects):
    for thing in objects:
        check(thing)
    shown = {type(thing) for thing in objects}
    public = {c for c in (getattr(fb, name) for name in fb.__all__) if inspect.isclass(c) and not issubclass(c, BaseException)}
    assert {c.__name__ for c in public - shown} <= {"Chunk", "Pack", "Tensor"}


def test_objects_that_were_closed_or_not_made_can_be_printed():
    with fb.open({"a": np.arange(4)}).loader("a", batch_size=2) as loader:
        assert "2 batches" in repr(loader)
    assert repr(loader) == "<forebay.Loader, closed>" and repr(fb.Loader.__new__(fb.Loader)) == "<forebay.Loader, not made>"


def test_what_the_frameworks_get_can_be_printed():
    ds = fb.open({"a": np.arange(40)})
    things = []
    if pytest.importorskip("torch"):
        import forebay.torch

        things.append(forebay.torch.IterableDataset(ds, "a", batch_size=4))
        assert "IterableDataset: 10 batches of 4 from 40 samples" in repr(things[-1])
    pytest.importorskip("jax")
    import forebay.jax

    things.append(forebay.jax.Loader(ds, "a", batch_size=4))
    assert "forebay.jax.Loader: 10 batches" in repr(things[-1])
    for thing in things:
        check(thing)
        thing.close()
        check(thing)


def test_a_data_module_can_be_printed_before_and_after_its_loaders_are_open():
    pytest.importorskip("lightning.pytorch")
    import forebay.lightning

    ds = fb.open({"a": np.arange(40)})
    for data in (
        forebay.lightning.DataModule(train=ds, val="val/*.parquet", outputs=["a"], batch_size=4),
        forebay.lightning.DataModule(),
        forebay.lightning.DataModule(train=ds.rows(), test=ds.loader("a", batch_size=4)),
    ):
        check(data)
    data = forebay.lightning.DataModule(train=ds, outputs=["a"], batch_size=4)
    check(data.train_dataloader())
    assert "10 batches of 4" in str(data)
    data.close()
    check(data)
