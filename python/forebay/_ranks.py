"""Which rank this process is, as the program or its launcher says."""

from __future__ import annotations

import os
import re
import sys

# (rank, world size) as launchers put them into the environment, the most specific first. Slurm sets the size of the whole job also for
# a script that runs once; the size of the step says how many processes there really are.
_LAUNCHERS = (
    ("RANK", "WORLD_SIZE"),  # torchrun, and what PyTorch's users set themselves
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),  # Open MPI
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),  # MVAPICH
    ("PMI_RANK", "PMI_SIZE"),  # MPICH, Intel MPI
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),  # srun
)


# Ranks on this host, by the same launchers.
_LOCAL_SIZES = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")


def _number(name: str) -> int | None:
    text = os.environ.get(name, "").strip()
    return int(text) if text.isdigit() else None


def _of_torch() -> tuple[int, int] | None:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def _of_jax() -> tuple[int, int] | None:
    jax = sys.modules.get("jax")
    initialized = getattr(getattr(jax, "distributed", None), "is_initialized", None)
    return (jax.process_index(), jax.process_count()) if initialized is not None and initialized() else None


def _of_ray() -> tuple[int, int] | None:
    train = sys.modules.get("ray.train")
    if train is None:
        return None
    try:
        context = train.get_context()
        rank, size = context.get_world_rank(), context.get_world_size()
    except Exception:  # outside of a function that Ray Train runs; what it raises there changes with its versions
        return None
    return (rank, size) if isinstance(rank, int) and isinstance(size, int) and 0 <= rank < size else None


def _of_mpi4py() -> tuple[int, int] | None:
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is None or not mpi.Is_initialized() or mpi.Is_finalized():
        return None
    return mpi.COMM_WORLD.Get_rank(), mpi.COMM_WORLD.Get_size()


def detected_rank() -> tuple[int, int]:
    """(rank, world size) of this process, else (0, 1).

    The first that says something: torch.distributed or jax.distributed when it is initialised; Ray Train inside a function that it runs
    (before the environment: Ray's workers inherit that of whoever started Ray); the launcher's environment; mpi4py when it is imported.
    """
    for found in (_of_torch(), _of_jax(), _of_ray()):
        if found is not None:
            return found
    for rank_name, size_name in _LAUNCHERS:
        rank, size = _number(rank_name), _number(size_name)
        if size is None and rank_name == "SLURM_PROCID" and "SLURM_STEP_ID" in os.environ:
            size = _number("SLURM_NTASKS")
        if rank is not None and size is not None and 0 <= rank < size:
            return rank, size
    return _of_mpi4py() or (0, 1)


def _of_slurm_tasks() -> int | None:
    """The most tasks that a host of this step has: "4", "4(x2),3"."""
    counts = re.findall(r"(\d+)(?:\(x\d+\))?(?:,|$)", os.environ.get("SLURM_STEP_TASKS_PER_NODE", ""))
    return max(map(int, counts), default=None)


def _of_ray_host() -> int | None:
    train = sys.modules.get("ray.train")
    try:
        size = train.get_context().get_local_world_size() if train is not None else None
    except Exception:  # as in _of_ray
        return None
    return size if isinstance(size, int) else None


def local_world_size(world_size: int) -> int:
    """How many of the ranks share this host and its memory, as their launcher says; 0 where none does."""
    for size in (_of_ray_host(), *map(_number, _LOCAL_SIZES), _of_slurm_tasks()):
        if size is not None and 0 < size <= world_size:
            return size
    return 0
