"""Which rank this process is, as the program or its launcher says."""

from __future__ import annotations

import os
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


def _number(name: str) -> int | None:
    try:
        return int(os.environ[name])
    except (KeyError, ValueError):
        return None


def detected_rank() -> tuple[int, int]:
    """(rank, world size) of torch.distributed when it is initialised, else of the launcher's environment, else (0, 1)."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    for rank_name, size_name in _LAUNCHERS:
        rank, size = _number(rank_name), _number(size_name)
        if size is None and rank_name == "SLURM_PROCID" and "SLURM_STEP_ID" in os.environ:
            size = _number("SLURM_NTASKS")
        if rank is not None and size is not None and 0 <= rank < size:
            return rank, size
    return 0, 1
