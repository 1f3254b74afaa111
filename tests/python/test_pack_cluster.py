"""Tasks of a pack by those who run them on a cluster: the script for Slurm, MPI, Ray; the bytes are those of one process."""

import importlib.util
import json
import os
import shutil
import stat
import sys

import h5py
import numpy as np
import pytest

import forebay as fb
from pack_cases import contents, read
from pack_task_cases import CLI, FLAGS, OPTIONS, by_phase, needs_cli, run, source, whole  # noqa: F401

# ---- Slurm ----

SBATCH = """#!/bin/sh
# As much of Slurm's sbatch as the script needs: jobs run at once, one after the other.
for word in "$@"; do
    case "$word" in
        --array=*) last=${word#--array=0-} ;;
        --dependency=afterok:*) test -e "$JOBS/${word#--dependency=afterok:}.ended" || exit 3 ;;
        --partition=*) echo "$word" >> "$JOBS/partitions" ;;
    esac
done
number=$(ls "$JOBS" | grep -c ended)
cat > "$JOBS/$number.sh"
for k in $(seq 0 "$last"); do
    SLURM_ARRAY_TASK_ID=$k sh "$JOBS/$number.sh" > "$JOBS/$number.log" 2>&1 || exit 4
done
touch "$JOBS/$number.ended"
echo "$number"
"""


@needs_cli
def test_the_script_for_slurm_runs_all_tasks_in_dependent_jobs(source, tmp_path, whole):
    (tmp_path / "bin").mkdir()
    (tmp_path / "jobs").mkdir()
    (tmp_path / "bin/forebay").symlink_to(CLI)
    (tmp_path / "bin/sbatch").write_text(SBATCH)
    (tmp_path / "bin/sbatch").chmod(stat.S_IRWXU)
    folder = tmp_path / "it's $HOME"
    script = run([CLI, "pack", source, "--to", folder, "--no-cache", *FLAGS, "--slurm"])
    assert script.returncode == 0 and "plan:0" not in script.stdout, script.stderr
    assert (folder / ".forebay-pack/plan").exists()  # so that a key is read once
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "JOBS": str(tmp_path / "jobs")}
    ran = run(["sh", "-s", "--", "--partition=cpu"], input=script.stdout, env=environment)
    assert ran.returncode == 0, ran.stderr + "".join(p.read_text() for p in (tmp_path / "jobs").glob("*.log"))
    assert (tmp_path / "jobs/partitions").read_text().split() == ["--partition=cpu"] * 3
    assert contents(folder) == whole
    shutil.rmtree(folder)
    again = run(["sh", "-s"], input=script.stdout, env=environment)
    assert again.returncode == 1 and again.stderr == f"{folder}/.forebay-pack/plan is gone: print this script again\n"
    assert (tmp_path / "jobs/partitions").read_text().split() == ["--partition=cpu"] * 3  # nothing was queued


# ---- MPI ----

needs_mpi = pytest.mark.skipif(
    shutil.which("mpirun") is None or importlib.util.find_spec("mpi4py") is None, reason="MPI: mpirun or mpi4py is not installed"
)
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n"]


@needs_mpi
@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_of_mpi_write_the_bytes_of_one_process(source, tmp_path, whole, ranks):
    command = [*MPIRUN, ranks, sys.executable, "-m", "forebay.mpi", "pack", source, "--to", tmp_path / "out", "--no-cache", *FLAGS]
    done = run(command, timeout=240)
    assert done.returncode == 0, done.stderr
    assert f"packed 300,000 rows into {tmp_path / 'out'} by {ranks} ranks" in done.stdout
    assert contents(tmp_path / "out") == whole


@needs_mpi
def test_ranks_of_mpi_open_as_the_command_does(tmp_path):
    (tmp_path / "a.csv").write_text("uid,x\n007,1\n008,2\n")
    pack = [*MPIRUN, 2, sys.executable, "-m", "forebay.mpi", "pack", "--no-cache"]
    done = run([*pack, tmp_path / "a.csv", "--to", tmp_path / "csv", "--dtype", "uid=str"], timeout=240)
    assert done.returncode == 0, done.stderr
    assert sorted(read(tmp_path / "csv")["uid"].to_pylist()) == ["007", "008"]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(12).reshape(3, 4)
    done = run([*pack, tmp_path / "a.h5", "--to", tmp_path / "h5", "--axis", "1"], timeout=240)
    assert done.returncode == 0, done.stderr
    assert sorted(read(tmp_path / "h5")["x"].to_pylist()) == [[0, 4, 8], [1, 5, 9], [2, 6, 10], [3, 7, 11]]
    (tmp_path / "a.yaml").write_text("data: {paths: a.csv}\noutputs: {y: {columns: x, ops: [scale: 2.0]}}\n")
    done = run([*pack, "--outputs", tmp_path / "a.yaml", "--to", tmp_path / "y"], timeout=240)
    assert done.returncode == 0, done.stderr
    assert sorted(read(tmp_path / "y")["y"].to_pylist()) == [2.0, 4.0]
    assert "give either paths" in run([*pack, "--to", tmp_path / "no"], timeout=240).stderr


# As much of mpi4py as one rank needs.
ONE_RANK = """
class Request:
    @staticmethod
    def waitall(requests): pass

class Comm:
    def Dup(self): return self
    def Free(self): pass
    def Get_rank(self): return 0
    def Get_size(self): return 1
    def iprobe(self, tag): return False
    def allgather(self, value): return [value]

COMM_WORLD = Comm()
"""


@pytest.fixture(scope="module")
def one_rank(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mpi")
    (folder / "mpi4py").mkdir()
    (folder / "mpi4py/__init__.py").touch()
    (folder / "mpi4py/MPI.py").write_text(ONE_RANK)
    return {**os.environ, "PYTHONPATH": str(folder)}


def mpi(environment, *words):
    return run([sys.executable, "-m", "forebay.mpi", "pack", "--no-cache", *words], env=environment)


def test_the_commands_words_are_those_of_mpi(tmp_path, one_rank):
    (tmp_path / "a.csv").write_text("x\n1\n2\n3\n")
    (tmp_path / "b.csv").write_text("x\n5\n")
    (tmp_path / "p.yaml").write_text("data: {paths: a.csv}\noutputs: {y: {columns: x, ops: [scale: 2.0]}}\n")
    words = [tmp_path / "a.csv", "-t", tmp_path / "short", "-s", "1_0", "-b", "1E0", "-f", "parquet", "-c", "x", "-m", "64MiB", "--rows-per-file", "2e0"]
    done = mpi(one_rank, *words)
    assert done.returncode == 0, done.stderr
    made_of = json.loads((tmp_path / "short/_pack.json").read_text())
    assert (made_of["seed"], made_of["batch"], made_of["rows_per_file"], made_of["format"]) == (10, 1, 2, "parquet")
    done = mpi(one_rank, tmp_path / "p.yaml", "--to", tmp_path / "rows")
    assert done.returncode == 0, done.stderr
    assert sorted(read(tmp_path / "rows")["x"].to_pylist()) == [1, 2, 3]
    done = mpi(one_rank, "-o", tmp_path / "p.yaml", "--to", tmp_path / "set", "--set", f"data.paths={tmp_path}/b.csv", "--set", "outputs.y.ops=[scale: 3.0]")
    assert done.returncode == 0, done.stderr
    assert read(tmp_path / "set")["y"].to_pylist() == [15.0]
    for name, source in (("of_csv", [tmp_path / "a.csv"]), ("of_rows", [tmp_path / "p.yaml"]), ("of_outputs", ["-o", tmp_path / "p.yaml"])):
        done = mpi(one_rank, *source, "--to", tmp_path / name, "--cache-dir", tmp_path / "cache")  # beside --no-cache, which wins
        assert done.returncode == 0, done.stderr
        assert read(tmp_path / name).num_rows == 3 and not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-o", "p.yaml", "--stored-values"], "--stored-values is for data files: 'p.yaml' says itself how its data are opened"),
        (["-o", "p.yaml", "--axis", "0"], "--axis is for data files"),
        (["-o", "p.yaml", "--dtype", "x=str"], "--dtype is for data files"),
        (["p.yaml", "--io", "threads"], "--io is for data files"),
        (["-o", "p.yaml", "--columns", "x"], "--columns and --outputs both say what is packed"),
        (["a.csv", "--set", "loader.seed=1"], "--split and --set are of a pipeline file"),
        (["a.csv", "--split", "train"], "--split and --set are of a pipeline file"),
        (["a.csv", "--rows-per-file", "1.5"], "'1.5' is not a whole number such as 1000, 1_000 or 1e6"),
        (["a.csv", "--rows-per-file", "many"], "'many' is not a whole number"),
        (["a.csv", "--batch", "0"], "batch"),
    ],
)
def test_what_mpi_would_pass_over_is_refused(tmp_path, monkeypatch, one_rank, words, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("x\n1\n")
    (tmp_path / "p.yaml").write_text("data: {paths: a.csv}\noutputs: {y: {columns: x}}\n")
    done = mpi(one_rank, "--to", "out", *words)
    assert done.returncode != 0 and said in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_mpi_names_what_holds_samples(tmp_path, one_rank):
    (tmp_path / "a.csv").write_text("x\n1\n")
    (tmp_path / "p.yaml").write_text("data: {paths: a.csv}\noutputs: {y: {columns: x}}\n")
    assert "--cache-dir" in mpi(one_rank, "--help").stdout
    program = f"import forebay as fb, forebay.mpi; forebay.mpi.pack(fb.pipeline({str(tmp_path / 'p.yaml')!r}), 'out')"
    with pytest.raises(TypeError, match="pack.. of a pipeline"):
        fb.pack(fb.pipeline(tmp_path / "p.yaml"), "out")
    done = run([sys.executable, "-c", program], env=one_rank)
    assert "TypeError: pack() of a pipeline: pack its samples" in done.stderr


@needs_mpi
def test_what_one_rank_finds_ends_all_with_its_message(source, tmp_path):
    src = tmp_path / "src"
    shutil.copytree(source, src)
    command = [*MPIRUN, 2, sys.executable, "-m", "forebay.mpi", "pack", src, "--to", tmp_path / "out", "--no-cache", *FLAGS]
    tasks = fb.pack_tasks(src, tmp_path / "out", **OPTIONS)
    scatter = by_phase(tasks)[1]
    fb.pack_task(src, tmp_path / "out", tasks[0], **OPTIONS)
    for task in scatter:
        fb.pack_task(src, tmp_path / "out", task, **OPTIONS)
    path = tmp_path / "out/.forebay-pack/scatter-00001"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    done = run(command, timeout=240)
    assert done.returncode == 1, done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("forebay: ")]
    assert len(said) == 1 and "FormatError" in said[0] and "scatter-00001' is damaged" in said[0]
    assert [p.name for p in (tmp_path / "out").iterdir()] == [".forebay-pack"]


# ---- Ray ----

KILLER = """
import os, signal, sys, threading, time
import forebay.ray, ray

source, to, seed, memory, batch, rows = sys.argv[1:]
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=80_000_000)
killed = []

def kill(folder):
    # the process that writes a file of the pack, in the middle of it
    while not killed:
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            if name.endswith(".new") and not name.startswith("plan"):
                for pid in filter(str.isdigit, os.listdir("/proc")):
                    try:
                        held = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
                    except OSError:
                        continue
                    if os.path.join(folder, name) in held and int(pid) != os.getpid():
                        os.kill(int(pid), signal.SIGKILL)
                        killed.append(name)
                        return
        time.sleep(0.0005)

watch = threading.Thread(target=kill, args=[os.path.join(os.path.realpath(to), ".forebay-pack")], daemon=True)
watch.start()
done = forebay.ray.pack(source, to, seed=int(seed), memory=memory, batch=int(batch), rows_per_file=int(rows))
print("killed", killed, "rows", done.rows)
"""


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed")
def test_two_workers_of_ray_one_killed_write_the_bytes_of_one_process(source, tmp_path, whole):
    (tmp_path / "killer.py").write_text(KILLER)
    arguments = [OPTIONS[name] for name in ("seed", "memory", "batch", "rows_per_file")]
    done = run([sys.executable, tmp_path / "killer.py", source, tmp_path / "out", *arguments], timeout=280, env={**os.environ, "RAY_AUTH_MODE": "disabled"})
    assert done.returncode == 0, done.stderr[-3000:]
    assert "killed ['" in done.stdout and "rows 300000" in done.stdout
    assert contents(tmp_path / "out") == whole
