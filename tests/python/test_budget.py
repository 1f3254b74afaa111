"""The budget: what is refused, how fast, and that the process grows by no more than it and 64 MiB."""

import json

import pytest

SLACK = 64 << 20


@pytest.mark.parametrize("log2_rows", [40, 60])
def test_an_extent_that_was_never_written_is_refused_at_once(tmp_path, run_python, log2_rows):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "claims.h5"
    with h5py.File(path, "w") as f:
        f.create_dataset("x", shape=(1 << log2_rows,), dtype="f4", chunks=(1024,))
    done = run_python(
        """
        import json, resource, sys, time
        import forebay as fb

        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        best = 1e9
        for _ in range(3):
            begin = time.perf_counter()
            try:
                with fb.open(sys.argv[1]) as ds:
                    ds.rows().loader(batch_size=16, memory="64MiB")
            except fb.BudgetError:
                best = min(best, time.perf_counter() - begin)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
        print(json.dumps({"seconds": best, "grown": grown}))
        """,
        path,
    )
    said = json.loads(done.stdout)
    assert said["seconds"] < 0.1 and said["grown"] < 10 << 20, said
