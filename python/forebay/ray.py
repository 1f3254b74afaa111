"""A pack by Ray: its tasks are Ray's, which places them, and runs those anew whose worker has died.

>>> import forebay.ray
>>> done = forebay.ray.pack("/shared/events/*.parquet", "/shared/packed", seed=7, memory="16GiB")

All nodes see the source and the folder. The bytes are those that :func:`forebay.pack` writes; the same call goes on with what was interrupted.
"""

from __future__ import annotations

import functools
import itertools
import os
import pickle
from collections.abc import Callable, Mapping
from typing import Any, Union

try:
    import ray as _ray
except ImportError as _error:
    raise ImportError(f"forebay.ray needs Ray: {_error}. Install ray") from _error

from ._dataset import Dataset
from ._pack import Pack, PackTask, opened, pack_task, pack_tasks
from ._sizes import size_bytes
from ._sources import progress_of

__all__ = ["pack"]

_TASK_BYTES = 4 << 30  # what a task holds if nothing is said


@functools.lru_cache(maxsize=1)
def _opened(dataset: bytes) -> Dataset:
    """In a worker, which runs task after task of one pack."""
    return pickle.loads(dataset)


def _run(dataset: bytes, to: str, name: str, options: dict[str, Any]) -> Pack:
    return pack_task(_opened(dataset), to, name, **options)


def pack(
    source: Any,
    to: Union[str, "os.PathLike[str]"],
    *,
    ray_options: Mapping[str, Any] | None = None,
    progress: bool | Callable[[int, int, str], Any] | None = None,
    **options: Any,
) -> Pack:
    """Pack a data set by Ray tasks.

    Parameters
    ----------
    source, to, progress, **options
        As of :func:`forebay.pack`. Paths are those of the nodes. `memory` is what a task may hold, by default 4 GiB.
    ray_options : mapping, optional
        Of ``ray.remote``: ``num_cpus``, ``max_retries``, ``scheduling_strategy``, ``resources``. By default a task has one CPU, its memory, and is
        run again up to 3 times.

    Raises
    ------
    What :func:`forebay.pack_task` raises, as Ray hands it on.
    """
    dataset = opened(source)
    folder, pickled = os.path.abspath(os.fspath(to)), pickle.dumps(dataset)
    memory = size_bytes(options.get("memory") or _TASK_BYTES, "memory")
    remote = _ray.remote(_run)
    how = {"num_cpus": 1, "max_retries": 3, "memory": memory, **(ray_options or {})}
    tell = progress_of(progress) or (lambda done, total, what: None)

    def run(tasks: list[PackTask]) -> list[Pack]:
        named = ((task, remote.options(**{"name": f"forebay pack {task.name}", **how})) for task in tasks)
        rows = {function.remote(pickled, folder, task.name, options): task.rows for task, function in named}
        running, done = list(rows), 0
        try:
            while running:
                ended, running = _ray.wait(running)
                _ray.get(ended)
                done += sum(rows[reference] for reference in ended)
                tell(done, sum(rows.values()), tasks[0].phase)
        except BaseException:
            for reference in running:
                _ray.cancel(reference)
            raise
        return _ray.get(list(rows))

    run([PackTask("plan", 0, 1, rows=0, bytes_in=0, bytes_out=0, inputs=(), outputs=())])  # listing tasks without a plan would read the key here
    tasks = pack_tasks(dataset, folder, **options)
    done: list[Pack] = []
    for phase, of_phase in itertools.groupby(tasks, lambda task: task.phase):
        done = run(list(of_phase)) if phase != "plan" else done
    return done[0]
