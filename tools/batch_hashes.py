"""Are the batches the same as before a change, bit for bit? A pytest plugin that hashes every batch that the tests' loaders give.

    PYTHONPATH=tools BATCH_HASHES=before.json pytest -p batch_hashes tests/python     in a checkout of before
    PYTHONPATH=tools BATCH_HASHES=after.json  pytest -p batch_hashes tests/python     after the change
    python tools/batch_hashes.py before.json after.json [again.json]

Of each test: the hashes of its batches, loader by loader, in the order they came. again.json: a second run of before; tests that differ there by
themselves (random seeds, threads that are stopped) or are missing there are left out. What is left and differs: look at each, it stops something in
the middle, or the order or a value has changed. A test that is gone was not compared: it failed, was skipped or has another name. Either ends with 1.
"""
import hashlib
import json
import os
import sys

import pytest

recorded = {}
current = None  # the test that runs


def add(hasher, x):
    """Names, dtypes, shapes and bytes of whatever a batch may be."""
    import numpy as np

    if isinstance(x, dict):
        for name, value in x.items():
            hasher.update(str(name).encode())
            add(hasher, value)
    elif hasattr(x, "_parts"):  # Ragged, Strings, Bytes, Padded
        add(hasher, x._parts())
    elif isinstance(x, (list, tuple)):
        for value in x:
            add(hasher, value)
    elif x is None or isinstance(x, (str, bytes, int, float, bool)):
        hasher.update(repr(x).encode())
    else:
        try:
            array = np.asarray(x)
        except Exception:  # a dtype that NumPy lacks (bfloat16), an object of a user's transform
            hasher.update(type(x).__name__.encode())
            torch = sys.modules.get("torch")
            if not torch or not isinstance(x, torch.Tensor):
                return
            array = x.detach().cpu().reshape(-1).view(torch.uint8).numpy()
            hasher.update(str((x.dtype, tuple(x.shape))).encode())
        hasher.update(str((array.dtype, array.shape)).encode())
        hasher.update(repr(array.tolist()).encode() if array.dtype == object else np.ascontiguousarray(array).tobytes())


class Recording:
    """An iterator and the list of its batches' hashes."""

    def __init__(self, iterator, hashes):
        self._iterator, self._hashes = iterator, hashes

    def __iter__(self):
        return self

    def __next__(self):
        batch = next(self._iterator)
        hasher = hashlib.blake2b(digest_size=8)
        add(hasher, batch)
        self._hashes.append(hasher.hexdigest())
        return batch

    def __getattr__(self, name):
        return getattr(self._iterator, name)


def pytest_configure(config):
    from forebay import _loader

    begin = _loader.Loader.__iter__

    def recording(loader):
        iterator = begin(loader)
        if current is None:
            return iterator
        recorded.setdefault(current, []).append([])
        return Recording(iterator, recorded[current][-1])

    _loader.Loader.__iter__ = recording


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item, nextitem):
    global current
    current = item.nodeid
    yield
    current = None


def pytest_sessionfinish(session):
    with open(os.environ["BATCH_HASHES"], "w", encoding="utf-8") as file:
        json.dump(recorded, file)


def main(paths):
    before, after, *again = (json.load(open(path, encoding="utf-8")) for path in paths)
    stable = [test for test in before if test in after and all(before[test] == run.get(test) for run in again)]
    differ = [test for test in stable if before[test] != after[test]]
    for test in differ:
        print(f"differs: {test}")
    gone = [test for test in before if test not in after and all(test in run for run in again)]
    for test in gone:
        print(f"gone: {test}")
    batches = sum(len(log) for test in stable for log in before[test])
    print(f"{len(stable)} tests, {batches:,} batches compared; {len(differ)} tests differ, {len(gone)} are gone")
    return 1 if differ or gone else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
