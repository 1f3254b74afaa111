"""A pack by the ranks of an MPI job: each phase's tasks dealt to the ranks, and a barrier between phases.

    mpirun -n 64 python -m forebay.mpi pack "events/*.parquet" --to packed --seed 7 --memory 16GiB

>>> import forebay.mpi
>>> done = forebay.mpi.pack("events/*.parquet", "packed", seed=7, memory="16GiB")      # called by every rank

All ranks see the source and the folder. The bytes are those that :func:`forebay.pack` writes. A job that was stopped is begun again the same way, with
as many ranks as you like, and goes on where it was.
"""

from __future__ import annotations

import argparse
import collections
import decimal
import functools
import os
import sys
from collections.abc import Callable
from typing import Any, Union

try:
    from mpi4py import MPI as _mpi
except ImportError as _error:
    raise ImportError(f"forebay.mpi needs mpi4py: {_error}. Install mpi4py, built for the MPI that runs the job") from _error

from . import _options
from ._dataset import Dataset
from ._dataset import open as open_dataset
from ._pack import Pack, opened, pack_task, pack_tasks
from ._pipeline import Pipeline, _reopen
from ._samples import Samples

__all__ = ["pack"]

_FAILED = 1  # tag of the word that a rank has failed


class _Ranks:
    """A communicator of our own, over which ranks work together and fail together."""

    def __init__(self, comm: Any) -> None:
        self.comm = comm.Dup()
        self.rank, self.size = self.comm.Get_rank(), self.comm.Get_size()

    def others(self) -> list[int]:
        return [rank for rank in range(self.size) if rank != self.rank]

    def one_has_failed(self) -> bool:
        return bool(self.comm.iprobe(tag=_FAILED))

    def together(self, work: Callable[[], Any]) -> list[Any]:
        """What every rank's work returned; where that of one failed, an exception on all of them."""
        result, error, sent = None, None, []
        try:
            result = work()
        except Exception as raised:
            error = raised
            sent = [self.comm.isend(None, dest=rank, tag=_FAILED) for rank in self.others()]
        results = self.comm.allgather((result, None if error is None else f"{type(error).__name__}: {error}"))
        failed = [rank for rank, (_, text) in enumerate(results) if text is not None]
        for rank in failed:
            if rank != self.rank:
                self.comm.recv(source=rank, tag=_FAILED)
        _mpi.Request.waitall(sent)
        if error is not None:
            raise error
        if failed:
            raise RuntimeError(f"rank {failed[0]}: {results[failed[0]][1]}")
        return [result for result, _ in results]

    def first(self, work: Callable[[], Any]) -> Any:
        """What rank 0's work returned, on every rank."""
        return self.together(lambda: work() if self.rank == 0 else None)[0]


def pack(source: Any, to: Union[str, "os.PathLike[str]"], *, comm: Any = None, **options: Any) -> Pack:
    """Pack a data set by all ranks of a communicator; each calls it with the same arguments.

    Parameters
    ----------
    source, to, **options
        As of :func:`forebay.pack`. `memory` is what a rank may hold, by default 4 GiB.
    comm : mpi4py.MPI.Comm, optional
        By default ``MPI.COMM_WORLD``.

    Returns
    -------
    Pack, on every rank

    Raises
    ------
    What :func:`forebay.pack_task` raises, on the rank where it happens; RuntimeError with its message on the others.
    """
    return _pack(lambda: opened(source), to, comm, options)


def _pack(open_source: Callable[[], "Dataset | Samples"], to: Union[str, "os.PathLike[str]"], comm: Any, options: dict[str, Any]) -> Pack:
    ranks = _Ranks(_mpi.COMM_WORLD if comm is None else comm)
    dataset = functools.cache(open_source)

    def plan() -> list[tuple[str, int]]:
        pack_task(dataset(), to, "plan:0", **options)
        listed = pack_tasks(dataset(), to, **options)
        return list(collections.Counter(task.phase for task in listed).items())  # in the order that they run in

    def dealt(phase: str, n: int) -> None:
        for k in range(ranks.rank, n, ranks.size):
            if ranks.one_has_failed():
                return
            pack_task(dataset(), to, f"{phase}:{k}", **options)

    try:
        phases = ranks.first(plan)  # the others open the source when its index is in the cache
        for phase, n in phases[1:-1]:
            ranks.together(functools.partial(dealt, phase, n))
        return ranks.first(lambda: pack_task(dataset(), to, "finish:0", **options))
    finally:
        ranks.comm.Free()


# ---- python -m forebay.mpi ----

_SHORT = {"to": "-t", "seed": "-s", "batch": "-b", "format": "-f", "columns": "-c", "outputs": "-o", "memory": "-m"}  # as of the command


def _count(text: str) -> int:
    try:
        number = decimal.Decimal(text)
        if 0 <= number < 1 << 64 and number == int(number):
            return int(number)
    except (ArithmeticError, ValueError):
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number such as 1000, 1_000 or 1e6")


def _words(name: str) -> list[str]:
    return [*([_SHORT[name]] if name in _SHORT else []), "--" + name.replace("_", "-")]


def _add(parser: argparse.ArgumentParser, option: dict[str, Any]) -> None:
    words, kind = _words(option["name"]), option["type"]
    help_ = f"{option['help']} (default: {option['default']})".replace("%", "%%")
    if kind == "bool":
        parser.add_argument(*words, action="store_true", help=option["help"])
    elif kind in ("texts", "paths"):
        separator = "," if kind == "texts" else os.pathsep
        parser.add_argument(*words, type=lambda text: text.split(separator), metavar="NAMES" if kind == "texts" else "DIRS", help=help_)
    elif kind == "choice":
        parser.add_argument(*words, choices=option["choices"], help=help_)
    else:
        is_number = kind not in ("text", "path", "bytes")
        metavar = "SIZE" if kind == "bytes" else "N" if is_number else "TEXT"
        parser.add_argument(*words, type=_count if is_number else None, metavar=metavar, help=help_)


def _help(group: str, name: str) -> str:
    return next(option["help"] for option in _options.table(group) if option["name"] == name)


def _dtype(text: str) -> tuple[str, str]:
    column, sign, dtype = text.rpartition("=")  # a column's name may hold one
    if not column or not sign:
        raise argparse.ArgumentTypeError(f"{text!r} is not COLUMN=DTYPE")
    return column, dtype


def _parser() -> tuple[argparse.ArgumentParser, list[str], list[str]]:
    """The parser, and which of its arguments are a pack's, and which are those of opening."""
    parser = argparse.ArgumentParser(prog="python -m forebay.mpi", description="Pack a data set by the ranks of an MPI job.", allow_abbrev=False)
    parser.add_argument("command", choices=["pack"])
    parser.add_argument("source", nargs="*", metavar="PATH")
    parser.add_argument(*_words("to"), required=True, metavar="DIR", help="the folder to pack into")
    parser.add_argument(*_words("outputs"), metavar="FILE", help="pack what this pipeline file gives, in place of rows: its data, samples and outputs")
    parser.add_argument("--split", metavar="NAME", help="of that file (default: what its section loader names)")
    parser.add_argument("--set", action="append", metavar="KEY=VALUE", help="of that file: another value than its own; may be repeated")
    parser.add_argument("--axis", type=lambda text: int(text) if text.isdecimal() else text, metavar="AXIS", help=_help("open", "axis"))
    parser.add_argument("--dtype", type=_dtype, action="append", metavar="COLUMN=DTYPE", help=f"{_help('open', 'dtypes')}; may be repeated")
    parser.add_argument("--no-cache", action="store_true", help="neither read nor write the index cache")
    names: dict[str, list[str]] = {"pack": [], "open": ["axis", "dtype"]}
    for group, found in names.items():
        for option in _options.table(group):
            taken = option["name"] in ("dry_run", "progress") or any(option["name"] in others for others in names.values())
            if option["in_python"] and option["form"] is None and option["type"] != "other" and not taken:
                _add(parser, option)
                found.append(option["name"])
    return parser, names["pack"], names["open"]


def _source_of(parser: argparse.ArgumentParser, given: dict[str, Any], opening: dict[str, Any]) -> Callable[[], "Dataset | Samples"]:
    """What the arguments name, to be opened; those that would be passed over are refused."""
    paths, file = given["source"], given["outputs"]
    cache_dir = opening.pop("cache_dir", None)
    if given["no_cache"]:
        cache_dir = ""
    if bool(paths) == bool(file):
        parser.error("give either paths, or --outputs with a pipeline file, which names its data")
    if file and given["columns"]:
        parser.error("--columns and --outputs both say what is packed: give one of them")
    if not file and (given["split"] or given["set"]):
        parser.error("--split and --set are of a pipeline file: --outputs pipeline.yaml")
    described: str = file or (paths[0] if len(paths) == 1 and paths[0].endswith((".yaml", ".yml")) else "")
    if described and opening:
        word = _words(next(iter(opening)))[-1]
        parser.error(f"{word} is for data files: {described!r} says itself how its data are opened, in its section data")
    if "dtype" in opening:
        opening["dtypes"] = dict(opening.pop("dtype"))

    def read() -> Pipeline:
        return _reopen(described, tuple(given["set"] or ()), cache_dir)

    if described:
        return lambda: read()._chosen(given["split"]) if file else read().dataset
    return lambda: open_dataset(paths if len(paths) > 1 else paths[0], cache_dir=cache_dir, **opening)


def _main() -> int:
    comm = _mpi.COMM_WORLD
    parser, of_pack, of_open = _parser()
    given = vars(parser.parse_intermixed_args())
    said = {name: value for name, value in given.items() if value is not None and value is not False}
    chosen = {name: said[name] for name in of_pack if name in said}
    source = _source_of(parser, given, {name: said[name] for name in of_open if name in said})
    try:
        done = _pack(source, given["to"], comm, chosen)
    except Exception as error:
        texts = comm.allgather(str(error))
        if comm.Get_rank() == 0:
            print(f"forebay: {next((text for text in texts if text.startswith('rank ')), texts[0])}", file=sys.stderr)
        return 1
    except BaseException:
        comm.Abort(130)  # the others wait for this rank
        raise
    if comm.Get_rank() == 0:
        if done.note:
            print(f"forebay: note: {done.note}", file=sys.stderr)
        print(f"packed {done.rows:,} rows into {given['to']} by {comm.Get_size()} ranks: {done.files:,} files, {done.written_bytes:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(_main())
