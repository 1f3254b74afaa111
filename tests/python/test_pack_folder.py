"""The folder of a pack: what lies there and is no file of it, what killed tasks leave, and what opening compares with its manifest."""

import fcntl
import os
import shutil
import threading
import time

import numpy as np
import pyarrow as pa
import pytest

import forebay as fb
from pack_cases import contents, floats, read, write
from pack_task_cases import OPTIONS, by_phase, run_all, source, whole  # noqa: F401


@pytest.mark.parametrize("kind", ["pipe", "dangling", "link", "empty", "folder"])
def test_what_has_the_name_of_a_file_and_is_none_is_replaced_or_named(source, tmp_path, whole, kind):
    out = tmp_path / "out"
    part = out / ".forebay-pack/part-00000.arrow"
    _, scatter, write_, *_ = by_phase(fb.pack_tasks(source, out, **OPTIONS))

    def place():
        if kind == "pipe":
            os.mkfifo(part)
        elif kind in ("dangling", "link"):
            part.symlink_to(source / "0.arrow" if kind == "link" else tmp_path / "nothing")
        elif kind == "empty":
            part.touch()
        else:
            part.mkdir()

    for task in ["plan:0", *scatter, *write_[1:]]:
        fb.pack_task(source, out, task, **OPTIONS)
    place()
    with pytest.raises(ValueError, match="run task write:0 first"):
        fb.pack_task(source, out, "finish:0", **OPTIONS)
    if kind == "folder":
        with pytest.raises(OSError, match=r"part-00000\.arrow'.*directory"):
            fb.pack_task(source, out, write_[0], **OPTIONS)
        part.rmdir()
    fb.pack_task(source, out, write_[0], **OPTIONS)
    fb.pack_task(source, out, "finish:0", **OPTIONS)
    assert contents(out) == whole and not any(p.is_symlink() for p in out.iterdir())


def test_only_files_of_an_unfinished_pack_may_lie_beside_it(source, tmp_path, whole):
    out = tmp_path / "out"
    tasks = fb.pack_tasks(source, out, **OPTIONS)
    for task in tasks[:-1]:
        fb.pack_task(source, out, task, **OPTIONS)
    for name in ("part-old.arrow", "part-00000.parquet", "part-99999.arrow", "_pack.json", "notes.txt"):
        (out / name).touch()
        for again in (lambda: fb.pack_task(source, out, "finish:0", **OPTIONS), lambda: fb.pack(source, out, **OPTIONS)):
            with pytest.raises(ValueError, match=f"holds '{name}', which is not of the unfinished pack there: remove it"):
                again()
        (out / name).unlink()
    (out / ".forebay-pack/part-00001.arrow").rename(out / "part-00001.arrow")  # as finish leaves it when it is stopped
    fb.pack_task(source, out, "finish:0", **OPTIONS)
    assert contents(out) == whole


def test_a_manifest_of_another_pack_ends_none(source, tmp_path):
    out = tmp_path / "out"
    tasks = fb.pack_tasks(source, out, **OPTIONS)
    for task in tasks[:3]:
        fb.pack_task(source, out, task, **OPTIONS)
    fb.pack(source, tmp_path / "other", **{**OPTIONS, "seed": 6})
    shutil.copy(tmp_path / "other/_pack.json", out)
    for again in (lambda: fb.pack_task(source, out, tasks[3], **OPTIONS), lambda: fb.pack(source, out, **OPTIONS)):
        with pytest.raises(ValueError, match='finished pack with other options: it has "seed": 6, and this one "seed": 5'):
            again()
    assert (out / ".forebay-pack/scatter-00000").exists()


def test_what_differs_from_an_unfinished_pack_is_named_as_it_was_given(source, tmp_path):
    fb.pack_task(source, tmp_path / "out", "plan:0", **OPTIONS)
    with pytest.raises(fb.ChangedError, match='of a source that has changed: it has "source_identity"'):  # with fewer blocks than the plan has ranges
        fb.pack(sorted(source.iterdir())[0], tmp_path / "out", **OPTIONS)
    fb.pack_task(source, tmp_path / "sizes", "plan:0")
    with pytest.raises(ValueError, match=r'with other options: it has "columns": \["i", .*, and this one "columns": \["i"\]'):
        fb.pack(source, tmp_path / "sizes", columns=["i"])


def test_no_task_follows_a_link_in_place_of_the_work_folder(source, tmp_path):
    out, moved = tmp_path / "out", tmp_path / "moved"
    tasks = fb.pack_tasks(source, out, **OPTIONS)
    for task in tasks[:-1]:
        fb.pack_task(source, out, task, **OPTIONS)
    (out / ".forebay-pack").rename(moved)
    (out / ".forebay-pack").symlink_to(moved)
    (moved / "letter.txt").write_text("mine")
    before = sorted(p.name for p in moved.iterdir())
    for task in tasks:
        with pytest.raises(ValueError, match=r"\.forebay-pack' is no folder, but a link"):
            fb.pack_task(source, out, task, **OPTIONS)
    assert sorted(p.name for p in moved.iterdir()) == before


def test_what_a_killed_run_of_a_task_was_writing_is_removed_by_the_next(source, tmp_path):
    out = tmp_path / "out"
    work = out / ".forebay-pack"
    plan, scatter, write_, *_ = by_phase(fb.pack_tasks(source, out, **OPTIONS))
    run_all(source, out, plan, OPTIONS)
    left = [work / f"{name}.{i:016x}.new" for i, name in enumerate(["scatter-00000", "scatter-00000", "scatter-00001", "part-00000.arrow"])]
    for path in left:
        path.write_bytes(b"some of it")
    with left[1].open("rb") as file:  # as another run that is at work
        fcntl.flock(file, fcntl.LOCK_EX)
        fb.pack_task(source, out, scatter[0], **OPTIONS)
        assert sorted(work.glob("*.new")) == sorted(left[1:])
    run_all(source, out, scatter[1:] + write_, OPTIONS)
    assert sorted(work.glob("*.new")) == left[1:2]
    fb.pack_task(source, out, scatter[0], **OPTIONS)
    assert not list(work.glob("*.new"))


def test_tasks_that_write_little_do_not_list_a_folder_of_very_many_files(tmp_path):
    src = write(floats(1_100, columns=1), tmp_path / "src")
    out, options = tmp_path / "out", {"shuffle": "none", "rows_per_file": 1}
    fb.pack_task(src, out, "plan:0", **options)
    left = out / ".forebay-pack/part-00000.arrow.0123456789abcdef.new"
    left.write_bytes(b"some of it")
    fb.pack_task(src, out, "write:0", **options)
    assert left.exists()
    assert fb.pack(src, out, **options, memory="4GiB").files == 1_100
    assert not (out / ".forebay-pack").exists() and len(os.listdir(out)) == 1_101


def test_a_file_that_is_being_written_is_locked(tmp_path):
    src = write(floats(2_000_000, columns=20), tmp_path / "src", row_group_size=4_000)
    out, seen = tmp_path / "out", []
    fb.pack_task(src, out, "plan:0", memory="512MiB")

    def look(done, total, what):
        for path in (out / ".forebay-pack").glob("*.new"):
            with path.open("rb") as file, pytest.raises(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            seen.append(path.name)

    fb.pack_task(src, out, "scatter:0", memory="512MiB", progress=look)  # it takes longer than 0.1 s, after which progress is said again
    assert seen


def test_a_work_folder_that_leads_elsewhere_is_refused(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/letter.txt").write_text("mine")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/.forebay-pack").symlink_to(tmp_path / "precious")
    with pytest.raises(ValueError, match=r"\.forebay-pack' is no folder, but a link"):
        fb.pack(fb.open(floats(100)), tmp_path / "out")
    assert [(p.name, p.read_text()) for p in (tmp_path / "precious").iterdir()] == [("letter.txt", "mine")]


@pytest.mark.parametrize("name", ["plan.new", "part-00000.arrow.new", ".lock"])
def test_links_and_pipes_in_the_work_folder_are_not_written_to(tmp_path, name):
    ds = fb.open(floats(100))
    for kind in ("link", "pipe"):
        work = tmp_path / kind / ".forebay-pack"
        work.mkdir(parents=True)
        (tmp_path / "letter.txt").write_text("mine")
        if kind == "link":
            (work / name).symlink_to(tmp_path / "letter.txt")
        else:
            os.mkfifo(work / name)
        if kind == "link" and name == ".lock":
            with pytest.raises(OSError, match=r"\.lock"):
                fb.pack(ds, tmp_path / kind)
        else:
            fb.pack(ds, tmp_path / kind)
            assert len(read(tmp_path / kind)) == 100
        assert (tmp_path / "letter.txt").read_text() == "mine"


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_plan_that_is_no_file_is_said(tmp_path, kind):
    work = tmp_path / "out/.forebay-pack"
    work.mkdir(parents=True)
    if kind == "link":
        (work / "plan").symlink_to("/dev/zero")
    else:
        os.mkfifo(work / "plan")
    with pytest.raises((OSError, fb.FormatError), match=r"forebay-pack/plan"):
        fb.pack(fb.open(floats(100)), tmp_path / "out")


# ---- what changes while a task waits ----


def test_a_plan_that_comes_when_the_pack_is_finished_leaves_nothing(source, tmp_path, whole):
    out, said = tmp_path / "out", []

    def finish(done, total, what):
        if not said:
            fb.pack(source, out, **OPTIONS)
        said.append(what)

    assert fb.pack_task(source, out, "plan:0", progress=finish, **OPTIONS).resumed
    assert said[0] == "comparing files" and contents(out) == whole
    assert sorted(p.name for p in out.iterdir()) == sorted(whole)


def test_finish_names_no_files_of_a_pack_that_was_begun_while_it_waited(source, tmp_path):
    out, other = tmp_path / "out", tmp_path / "other"
    for folder, options in ((out, OPTIONS), (other, {**OPTIONS, "seed": 6})):
        run_all(source, folder, fb.pack_tasks(source, folder, **options)[:-1], options)
    work, errors = out / ".forebay-pack", []

    def finish():
        try:
            fb.pack_task(source, out, "finish:0", **OPTIONS)
        except ValueError as error:
            errors.append(str(error))

    with open(work / ".lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        waiting = threading.Thread(target=finish)
        waiting.start()
        while sum(os.path.realpath(f"/proc/self/fd/{fd}") == str(work / ".lock") for fd in os.listdir("/proc/self/fd")) < 2:
            time.sleep(0.01)
        for path in work.glob("[!.]*"):  # all but the lock
            path.unlink()
        for path in (other / ".forebay-pack").glob("[!.]*"):
            path.rename(work / path.name)
    waiting.join()
    assert len(errors) == 1 and 'with other options: it has "seed": 6, and this one "seed": 5' in errors[0]
    assert [p.name for p in out.iterdir()] == [".forebay-pack"]


# ---- what is opened ----


def packed(tmp_path, **options):
    """A pack of 1,000 rows, and one of the same source that had fewer, whose files have the same names."""
    data = pa.table({"x": np.arange(1_000.0), "key": np.arange(1_000) % 3})
    out, other = tmp_path / "out", tmp_path / "other"
    fb.pack(data, out, batch=50, rows_per_file=300, **options)
    fb.pack(data.slice(0, 950), other, batch=50, rows_per_file=300, **options)
    return out, other


@pytest.mark.parametrize("format", ["arrow", "parquet", "hdf5"])
def test_a_pack_that_lost_rows_is_not_opened(tmp_path, format):
    out, other = packed(tmp_path, format=format)
    last = f"part-00003.{format}"
    assert len(fb.open(out)) == 1_000
    shutil.copy(other / last, out / last)
    found = rf"out' does not hold the pack .* of 1000 rows in 4 files: there are 950 rows in 4 files \('{last}' has 50\)\. Restore"
    for source in (out, str(out / "*"), str(out / f"part-*.{format}"), str(tmp_path / "ou*/*"), {"a": out}):
        with pytest.raises(fb.FormatError, match=found):
            fb.open(source)
    assert len(fb.open(out / last)) == 50  # a file that is named
    (out / "_pack.json").unlink()
    assert len(fb.open(out)) == 950


def test_a_pack_by_a_key_that_lost_rows_is_not_opened(tmp_path):
    out, other = packed(tmp_path, by="key")
    shutil.copy(other / "part-1-00001.arrow", out)
    with pytest.raises(fb.FormatError, match=r"of 1000 rows in 6 files: there are 984 rows in 6 files\. Restore"):
        fb.open(out)
    assert len(fb.open(out / "part-0-*.arrow")) == 334


def test_files_that_a_pack_lacks_or_has_beyond_its_own_are_refused_with_their_number(tmp_path):
    out, other = packed(tmp_path)
    (out / "part-00001.arrow").rename(tmp_path / "kept.arrow")
    with pytest.raises(fb.FormatError, match="there are 700 rows in 3 files"):
        fb.open(out)
    with pytest.raises(fb.FormatError, match="there are 700 rows in 3 files"):
        fb.open([other, out])
    assert len(fb.open(out / "*.arrow")) == 700  # whoever names files may leave some out
    assert len(fb.open(out, ids=["part-00000"])) == 300
    (tmp_path / "kept.arrow").rename(out / "part-00001.arrow")
    (out / "notes.txt").write_text("no data")
    assert len(fb.open(out)) == 1_000 and len(fb.open(tmp_path)) == 1_950
    shutil.copy(other / "part-00000.arrow", out / "part-00009.arrow")
    with pytest.raises(fb.FormatError, match="there are 1300 rows in 5 files"):
        fb.open(tmp_path)


def test_other_files_beside_those_of_a_pack_are_not_counted_where_a_pattern_names_them(tmp_path):
    out, other = packed(tmp_path)
    shutil.copy(other / "part-00000.arrow", out / "mine-0.arrow")
    assert len(fb.open({"a": out / "part-0000[0-2]*", "b": out / "mine-*"})) == 1_200
    assert len(fb.open([out / "part-*", out / "mine-*"])) == 1_300
    with pytest.raises(fb.FormatError, match="there are 1300 rows in 5 files"):
        fb.open(out)


LATER = '{\n  "pack": 2,\n  "rows": 1,\n  "files": 1,\n  "rows_per_file": 1,\n}'


@pytest.mark.parametrize("text", ["", "{", LATER, '{"pack": 1, "rows": 7}', '{\n  "pack": 1,\n  "rows": 1'])
def test_a_manifest_that_says_nothing_is_not_compared(tmp_path, text):
    out, _ = packed(tmp_path)
    (out / "_pack.json").write_text(text)
    assert len(fb.open(out)) == 1_000
