"""What iter() uses up: nothing. An epoch is used up when its first batch is taken, by whatever wraps the loader."""

import gc
import threading
import warnings

import pytest

import forebay as fb

np = pytest.importorskip("numpy")
FILES, ROWS, BATCH = 12, 40, 10


@pytest.fixture
def files(parquet, tmp_path):
    for i in range(FILES):
        parquet({"file": np.full(ROWS, i), "row": np.arange(ROWS) + ROWS * i}, f"data/{i:02}.parquet")
    return str(tmp_path / "data" / "*.parquet")


def plain(loader):
    return loader


def under_torch(loader):
    pytest.importorskip("torch")
    import forebay.torch

    return forebay.torch.IterableDataset(loader)


def in_a_dataloader(loader):
    return __import__("torch").utils.data.DataLoader(under_torch(loader), batch_size=None)


def open_(files, **options):
    return fb.open(files).rows().loader(["file", "row"], **{"batch_size": BATCH, "seed": 2, "part": "3 files", **options})


def transform(batch):
    batch["calls"] = threading.get_ident()
    return batch


OPTIONS = [{}, {"transform": transform}, {"framework": "torch", "device": "cpu"}]
IDS = ["plain", "transform", "device"]


def rows(loader):
    return [batch["row"].tolist() for batch in loader]


@pytest.mark.parametrize("options", OPTIONS, ids=IDS)
@pytest.mark.parametrize("wrap", [plain, under_torch, in_a_dataloader])
def test_asking_for_iterators_uses_up_no_epoch(files, wrap, options):
    pytest.importorskip("torch")
    options = {"framework": "torch", **options}
    with open_(files, **options) as loader, open_(files, **options) as twice:
        wrapped = wrap(twice)
        for epoch in range(8):
            iterators = [iter(wrapped) for _ in range(3)]
            assert twice.epoch == epoch and twice.state_dict()["batch"] == 0
            assert rows(iterators[-1]) == rows(loader), epoch


@pytest.mark.parametrize("options", OPTIONS, ids=IDS)
def test_an_iterator_that_gave_nothing_may_go_and_an_older_one_is_over(files, options):
    with open_(files, **options) as loader, open_(files, **options) as plain:
        whole = rows(plain)
        first = iter(loader)
        second = iter(loader)
        with pytest.raises(fb.StateError, match="one epoch at a time"):
            next(first)
        del first
        gc.collect()
        assert next(second)["row"].tolist() == whole[0]
        del second
        gc.collect()
        assert loader.state_dict()["batch"] == 1
        assert rows(loader) == rows(plain)  # the one that was left is used up
        iter(loader)
        gc.collect()
        assert loader.state_dict()["epoch"] == 2 and rows(loader) == rows(plain)


def test_results_that_wait_are_not_made_again(files):
    made = []

    def count(batch):
        made.append(batch["row"][0].item())
        return batch

    with open_(files, transform=count, transform_prefetch=2, check=False) as loader:
        first = iter(loader)
        while len(made) < 2:
            pass
        second = iter(loader)
        assert len(rows(second)) == len(made) == 12
        del first


@pytest.mark.parametrize("options", OPTIONS, ids=IDS)
def test_set_epoch_reaches_an_iterator_that_gave_nothing(files, options):
    with open_(files, **options) as loader, open_(files, **options) as plain:
        epochs = [rows(plain) for _ in range(4)]
        for epoch in (3, 0, 1):
            iterator = iter(loader)
            loader.set_epoch(epoch)
            assert loader.epoch == epoch and loader.state_dict()["epoch"] == epoch
            assert [next(iterator)["row"].tolist() for _ in range(4)] == epochs[epoch][:4]
            assert loader.state_dict()["batch"] == 4
        loader.set_epoch(2)  # what runs goes on
        assert next(iterator)["row"].tolist() == epochs[1][4] and rows(loader) == epochs[2]


def test_set_epoch_of_the_epoch_that_begins_changes_nothing(files):
    with open_(files) as loader:
        whole = rows(loader)
        for epoch in range(1, 5):
            loader.set_epoch(epoch)
            iterator = iter(loader)
            loader.set_epoch(epoch)
            assert len(list(iterator)) == len(whole) and loader.state_dict()["epoch"] == epoch + 1
        loader.set_epoch(0)
        assert rows(loader) == whole


@pytest.mark.parametrize("options", OPTIONS, ids=IDS)
@pytest.mark.parametrize("taken", [0, 1, 5, 12])
def test_a_state_is_begun_once_however_often_iterators_are_made(files, taken, options):
    with open_(files, **options) as plain:
        epochs = [rows(plain) for _ in range(3)]
        plain.set_epoch(1)
        iterator = iter(plain)
        for _ in range(taken):
            next(iterator)
        state = plain.state_dict()
        with open_(files, **options) as loader:
            loader.load_state_dict(state)
            if taken < len(epochs[1]):
                for _ in range(2):
                    again = iter(loader)
                    assert loader.state_dict() == state
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    loader.set_epoch(1)
                assert rows(again) == epochs[1][taken:]
            else:
                assert rows(loader) == []
            assert rows(loader) == epochs[2]


def test_set_epoch_says_that_it_leaves_a_state_also_after_iter(files):
    with open_(files) as loader:
        next(iter(loader))
        state = loader.state_dict()
        loader.load_state_dict(state)
        iterator = iter(loader)
        with pytest.warns(UserWarning, match="leaves the state"):
            loader.set_epoch(4)
        assert len(list(iterator)) == 12 and loader.state_dict()["epoch"] == 5


def test_a_loader_that_was_closed_or_has_no_iterator_takes_an_epoch_number(files):
    with open_(files) as loader:
        iterator = iter(loader)
        del iterator
        gc.collect()
        loader.set_epoch(3)
        assert loader.report().epochs_begun == 1 and len(list(loader)) == 12 and loader.epoch == 3
        iterator = iter(loader)
    loader.set_epoch(1)
    with pytest.raises(fb.StateError, match="closed"):
        next(iterator)


def test_an_epoch_without_batches_is_over_at_once(parquet):
    with fb.open(parquet({"a": np.arange(5)})).loader("a", batch_size=4, shuffle=False) as loader:
        state = loader.state_dict()
        loader.load_state_dict({**state, "batch": 2})
        assert list(loader) == [] and len(list(loader)) == 2 and loader.epoch == 1
        loader.load_state_dict({**state, "batch": 2})
        iter(loader)
        assert len(list(loader)) == 2  # nothing was left of the one before
