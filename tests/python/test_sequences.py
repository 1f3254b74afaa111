"""Packed and padded samples of a batch as Python sequences: length, indexing, iteration, conversion, moving, pytrees."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

import forebay as fb

torch = pytest.importorskip("torch")

LISTS = [[1.0, 2.0], [], [3.0], [4.0, 5.0, 6.0]]
WORDS = ["a", "", "zwölf", "dd"]


def packed(framework):
    """LISTS as a Ragged of a framework's tensors."""
    values, offsets = np.array(sum(LISTS, []), np.float32), np.array([0, 2, 2, 3, 6])
    return fb.Ragged(values, offsets) if framework == "numpy" else fb.Ragged(torch.from_numpy(values), torch.from_numpy(offsets))


def words(kind=fb.Strings):
    raw = [word.encode() for word in WORDS]
    return kind(np.frombuffer(b"".join(raw), np.uint8).copy(), np.cumsum([0, *map(len, raw)]))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    file = tmp_path_factory.mktemp("sequences") / "x.parquet"
    numbers = {"a": [0, 2, 4, 6], "b": [1, 3, 5, 7], "key": [0, 0, 0, 1]}
    pq.write_table(pa.table({"l": pa.array(LISTS, pa.list_(pa.float32())), "s": WORDS, "z": [w.encode() for w in WORDS], **numbers}), file)
    return file


@pytest.mark.parametrize("framework", ["numpy", "torch", "buffer"])
def test_batches_hold_sequences_of_samples(path, framework):
    loader = fb.open(path).loader({"l": "l", "s": "s", "z": "z"}, batch_size=4, shuffle=False, framework=framework)
    for batch in loader:
        assert [len(batch[name]) for name in "lsz"] == [4, 4, 4]
        assert batch["l"].to_list() == LISTS == [x.tolist() for x in batch["l"]] and batch["l"][1:].to_list() == LISTS[1:]
        assert batch["l"].lengths.tolist() == [2, 0, 1, 3] and batch["l"][1:].lengths.tolist() == [0, 1, 3] and "3 samples" in repr(batch["l"][1:])
        assert list(batch["s"]) == WORDS == batch["s"].to_list() and batch["s"][-1] == "dd"
        assert list(batch["z"]) == [w.encode() for w in WORDS]


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_ragged_indexes_slices_and_iterates(framework):
    r = packed(framework)
    assert len(r) == 4 and [x.tolist() for x in r] == LISTS and r[2].tolist() == [3.0] and r[-1].tolist() == LISTS[-1]
    for cut in (slice(1, 3), slice(0, 0), slice(3, 1), slice(None), slice(-2, None)):
        assert r[cut].to_list() == LISTS[cut] and len(r[cut]) == len(LISTS[cut])
    assert r.lengths.tolist() == [2, 0, 1, 3]
    assert "4 samples" in repr(r)
    with pytest.raises(IndexError, match="sample 4 of 4"):
        r[4]
    with pytest.raises(TypeError, match="indexed by ints and slices, not list"):
        r[[0, 1]]
    with pytest.raises(ValueError, match="step 2"):
        r[::2]


def test_strings_and_bytes_give_python_values_and_slices():
    assert list(words()) == WORDS and words()[1:3].to_list() == WORDS[1:3]
    assert list(words(fb.Bytes)) == [w.encode() for w in WORDS]


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_to_padded_is_what_a_loop_gives(framework):
    rng = np.random.default_rng(1)
    for n, shape in ((7, (3,)), (1, ()), (4, (2, 2)), (0, (5,))):
        lengths = rng.integers(0, 5, n)
        values = rng.random((int(lengths.sum()), *shape)).astype(np.float32)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        r = fb.Ragged(values, offsets) if framework == "numpy" else fb.Ragged(torch.from_numpy(values), torch.from_numpy(offsets))
        for length in (None, 2, 9):
            got = r.to_padded(length, pad=-1)
            L = length if length is not None else int(lengths.max(initial=0))
            want, mask = np.full((n, L, *shape), -1, np.float32), np.zeros((n, L), bool)
            for i in range(n):
                rows = values[offsets[i] : offsets[i + 1]][:L]
                want[i, : len(rows)], mask[i, : len(rows)] = rows, True
            assert np.array_equal(np.asarray(got.values), want) and np.array_equal(np.asarray(got.mask), mask)
            assert np.asarray(got.values).dtype == np.float32


def test_to_nested_is_torchs():
    nested = packed("torch").to_nested()
    assert nested.is_nested and [x.tolist() for x in nested.unbind()] == LISTS


@pytest.mark.parametrize("framework", ["numpy", "torch", "buffer"])
@pytest.mark.parametrize("with_lengths", [False, True])
def test_padded_is_a_sequence_of_its_real_rows(path, with_lengths, framework):
    for batch in fb.open(path).loader({"l": fb.col("l").padded(lengths=with_lengths)}, batch_size=4, shuffle=False, framework=framework):
        p = batch["l"]
        assert type(p) is fb.Padded and len(p) == 4 and [x.tolist() for x in p] == LISTS == p.to_list() == [p[i].tolist() for i in range(-4, 0)]
        assert p.mask.tolist() == [[j < len(x) for j in range(3)] for x in LISTS] and p.lengths.tolist() == [2, 0, 1, 3]
        assert p[1:3].to_list() == LISTS[1:3] and p[1:3][1].tolist() == LISTS[2] and "2 samples" in repr(p[1:3])
        assert p.offsets.tolist() == [0, 2, 2, 3, 6] and p[:0].offsets.tolist() == [0] and p.to_ragged().to_list() == LISTS
        assert p.to_padded(2, pad=-1).values.tolist() == [[1, 2], [-1, -1], [3, -1], [4, 5]] and p.to_padded().to_list() == LISTS
        assert p.to_padded(4, pad=9).values.tolist() == [[1, 2, 9, 9], [9, 9, 9, 9], [3, 9, 9, 9], [4, 5, 6, 9]] and p.to_padded(4).to_list() == LISTS
        if framework == "torch":
            assert p.to("cpu").to_list() == LISTS == [x.tolist() for x in p.to_nested().unbind()]
        else:
            with pytest.raises(TypeError, match="stay in the memory of the CPU: tensors of framework='torch'"):
                p.to("cpu")
            with pytest.raises(TypeError, match=r"to_nested\(\) makes a tensor of torch"):
                p.to_nested()
            assert p.pin_memory().to_list() == LISTS  # as a DataLoader leaves arrays of NumPy
        if framework == "buffer":
            assert p[1].shape == (0,) and p[1].format == p[0].format == "f"
            with pytest.raises(ValueError, match="step 2: buffers are sliced in steps of 1"):
                p[::2]


def test_lengths_beyond_a_padded_buffer_end_with_it_and_rows_of_none_have_their_axes():
    values = memoryview(np.arange(24, dtype=np.int32).reshape(2, 3, 4))
    p = fb.Padded.with_lengths(values, memoryview(np.array([5, 0])))
    assert p[0].tolist() == np.asarray(values)[0].tolist() and p[1].shape == (0, 4) and [x.shape for x in p] == [(3, 4), (0, 4)]
    for values in (values, np.asarray(values), torch.from_numpy(np.asarray(values).copy())):
        lengths = np.array([5, 0]) if not hasattr(values, "detach") else torch.tensor([5, 0])
        p = fb.Padded.with_lengths(values, memoryview(lengths) if isinstance(values, memoryview) else lengths)
        assert p.offsets.tolist() == [0, 3, 3] and [len(x) for x in p.to_ragged()] == [3, 0] == [len(x) for x in p.to_padded(4)]
    assert [len(x) for x in fb.Padded.with_lengths(memoryview(np.zeros((2, 0), np.int32)), memoryview(np.array([0, 0])))] == [0, 0]


def test_rows_of_padded_buffers_have_their_axes(path):
    outputs = {name: fb.col("a", "b", dtype=name).padded() for name in ("int16", "float16")}
    for batch in fb.open(path).groups("key").loader(outputs, batch_size=2, shuffle=False, framework="buffer"):
        assert [(x.shape, x.format, x.tolist()) for x in batch["int16"]] == [((3, 2), "h", [[0, 1], [2, 3], [4, 5]]), ((1, 2), "h", [[6, 7]])]
        try:
            memoryview(b"").cast("e")
        except ValueError:
            with pytest.raises(TypeError, match="cannot index a buffer of 'e': take numpy.asarray"):
                batch["float16"][0]
        else:
            assert batch["float16"][0].tolist() == [[0, 1], [2, 3], [4, 5]]


def test_padded_takes_one_of_mask_and_lengths():
    with pytest.raises(TypeError, match="mask, or lengths"):
        fb.Padded(np.zeros((2, 3)))


@pytest.mark.parametrize("make",
                         [lambda: packed("numpy"), words, lambda: packed("numpy").to_padded(),
                          lambda: fb.Padded.with_lengths(np.ones((2, 3)), np.array([1, 2]))])
def test_copies_and_pickles_are_the_same(make):
    one = make()
    for other in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one), copy.copy(one)):
        assert type(other) is type(one) and other.to_list() == one.to_list()


def test_to_moves_both_tensors_and_casts_values_alone():
    r = packed("torch")
    meta, half = r.to("meta"), r.to(torch.float16)
    assert meta.values.is_meta and meta.offsets.is_meta and half.values.dtype == torch.float16 and half.offsets.dtype == torch.int64
    lengths = fb.Padded.with_lengths(torch.ones(2, 3), torch.tensor([1, 2])).to("meta")
    assert lengths.values.is_meta and lengths.lengths.is_meta


def test_they_are_pytrees_of_torch(path):
    from torch.utils import _pytree

    for batch in fb.open(path).loader({"l": "l", "p": fb.col("l").padded(lengths=True), "s": "s"}, batch_size=4, shuffle=False, framework="torch"):
        leaves, tree = _pytree.tree_flatten(batch)
        assert len(leaves) == 6 and all(isinstance(leaf, torch.Tensor) for leaf in leaves)
        again = _pytree.tree_unflatten(leaves, tree)
        assert type(again) is fb.Batch and again["l"].to_list() == LISTS == again["p"].to_list() and list(again["s"]) == WORDS
        paths = [_pytree.keystr(path) for path, _ in _pytree.tree_flatten_with_path(batch)[0]]
        assert paths[:4] == ["['l']['values']", "['l']['offsets']", "['p']['values']", "['p']['rows']"]
        assert _pytree.tree_map(lambda _: None, batch)["p"]._parts() == (None, None)


@pytest.mark.parametrize("order", ["import {0} as library, forebay as fb", "import forebay as fb, {0} as library; import forebay.{1}"])
@pytest.mark.parametrize("library, module", [("torch.utils._pytree", "torch"), ("jax", "jax")])
def test_what_is_made_before_any_loader_is_a_pytree(library, module, order):
    pytest.importorskip(library)
    code = f"""if True:
        import numpy; {order.format(library, module)}
        tree = library.tree_map if hasattr(library, "tree_map") else library.tree.map
        ragged = fb.Ragged(numpy.array([1.0, 2.0]), numpy.array([0, 2]))
        got = tree(lambda x: x + 1, fb.Batch(x=numpy.zeros(2), r=ragged, p=ragged.to_padded()))
        assert type(got) is fb.Batch and list(got) == ["x", "r", "p"] and got["x"].tolist() == [1, 1]
        assert type(got["r"]) is fb.Ragged and got["r"].values.tolist() == [2, 3] and type(got["p"]) is fb.Padded
    """
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_they_are_pytrees_of_jax(path):
    jax = pytest.importorskip("jax")
    import forebay.jax

    for batch in forebay.jax.Loader(fb.open(path), {"l": "l", "p": fb.col("l").padded(lengths=True)}, batch_size=4, shuffle=False):
        doubled = jax.jit(lambda b: jax.tree_util.tree_map(lambda x: 2 * x, b["l"]))(batch)
        assert type(doubled) is fb.Ragged and doubled.values.tolist() == [2 * x for x in sum(LISTS, [])]
        assert batch["l"].to_padded().to_list() == LISTS and batch["p"].to_list() == LISTS
        assert batch["p"].offsets.tolist() == [0, 2, 2, 3, 6] and batch["p"].to_ragged().to_list() == LISTS
        assert jax.jit(lambda b: b["p"].to_padded(4, pad=-1).values)(batch)[2].tolist() == [3, -1, -1, -1]
        assert jax.tree.map(lambda _: None, batch["p"])._parts() == (None, None)
        assert jax.tree_util.keystr(jax.tree_util.tree_flatten_with_path(batch["l"])[0][1][0]) == "['offsets']"
        device = jax.devices()[0]
        assert batch["p"].to(device).to_list() == LISTS and batch["l"].to(device).values.devices() == {device}


def test_data_loaders_and_lightning_move_them(path):
    data = pytest.importorskip("lightning.fabric.utilities.apply_func", reason="lightning is not installed")
    import forebay.torch

    dataset = forebay.torch.IterableDataset(fb.open(path), {"l": "l", "s": "s"}, batch_size=4, shuffle=False)
    for batch in torch.utils.data.DataLoader(dataset, batch_size=None):
        assert batch["l"].to_list() == LISTS and list(batch["s"]) == WORDS
        moved = data.move_data_to_device(batch, torch.device("meta"))
        assert moved["l"].values.is_meta and moved["s"].offsets.is_meta
