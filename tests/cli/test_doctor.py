"""forebay doctor, the index cache's removal, man pages, completions, --version --verbose."""

import json
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/golden/parquet/flat_v1_two_groups.parquet"
CLI = pathlib.Path(os.environ.get("FOREBAY_CLI", ROOT / "build/forebay"))
HELP = subprocess.run([CLI, "--help"], capture_output=True, text=True, check=True).stdout if CLI.exists() else "Commands\n"
COMMANDS = re.findall(r"(?m)^  (\w+)  ", HELP.split("Commands\n")[1].split("\n\n")[0])

pytestmark = pytest.mark.skipif(not CLI.exists(), reason=f"no command at {CLI}: run make, or set FOREBAY_CLI")


@pytest.fixture
def env(tmp_path):
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "FOREBAY_CACHE": str(tmp_path / "cache")}


def run(*args, env, **options):
    return subprocess.run([CLI, *map(str, args)], env=env, capture_output=True, text=True, timeout=60, **options)


def doctor(env, *args):
    done = run("doctor", *args, "--json", env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def an_old_copy(tmp_path):
    """Files that were written a moment ago are not cached."""
    copy = tmp_path / "a.parquet"
    shutil.copy(GOLDEN, copy)
    os.utime(copy, (1e9, 1e9))
    return copy


def fill_cache(env, tmp_path):
    copy = an_old_copy(tmp_path)
    time.sleep(2.1)  # its ctime cannot be set: the cache leaves files alone that changed within two seconds
    assert run("inspect", copy, env=env).returncode == 0


def test_each_finding_has_a_level_and_what_is_slow_a_cure(env, tmp_path):
    report = doctor(env, tmp_path)
    names = [f["name"] for f in report["findings"]]
    assert {"system", "cores", "memory", "huge pages", "io_uring", "open files", "path", "index cache"} <= set(names)
    for finding in report["findings"]:
        assert finding["level"] in ("ok", "note", "slow") and finding["what"]
        assert finding["cure"] or finding["level"] != "slow"
    assert {"zstd", "snappy"} <= {library["name"] for library in report["libraries"]}
    text = run("doctor", tmp_path, env=env)
    assert text.returncode == 0 and str(tmp_path) in text.stdout and text.stderr == ""


def test_few_open_files_and_one_core_are_said(env):
    command = f"ulimit -n 64; taskset -c {min(os.sched_getaffinity(0))} {CLI} doctor --json"
    report = json.loads(subprocess.run(["bash", "-c", command], env=env, capture_output=True, text=True, check=True).stdout)
    by_name = {f["name"]: f for f in report["findings"]}
    assert by_name["open files"]["level"] == "slow" and "ulimit -n" in by_name["open files"]["cure"]
    assert by_name["cores"]["what"].startswith("1 of")


def test_the_limit_of_memory_is_named(env):
    command = f"ulimit -v 3000000; {CLI} doctor --json"
    report = json.loads(subprocess.run(["bash", "-c", command], env=env, capture_output=True, text=True, check=True).stdout)
    found = next(f for f in report["findings"] if f["name"] == "memory")
    assert "RLIMIT_AS 2929.7 MiB" in found["what"]


def libhdf5(env):
    """What is found of the program that runs libhdf5."""
    return next(f for f in doctor(env)["findings"] if f["name"] in ("sandbox", "libhdf5"))


def test_what_the_helper_program_lacks_is_what_it_says_itself(env, tmp_path):
    found = libhdf5(env)
    if found["what"].startswith("not in this build"):
        pytest.skip("built without libhdf5")
    assert found["name"] == "sandbox"
    for name in ("Landlock", "seccomp"):
        assert name in found["what"]
    assert found["level"] == ("note" if "has no" in found["what"] else "ok")
    found = libhdf5(env | {"FOREBAY_HDF5_HELPER": str(tmp_path / "not/there")})
    assert found["name"] == "libhdf5" and found["level"] == "note" and "does not run" in found["what"] and found["cure"]


def test_a_path_that_is_not_there_is_said(env):
    finding = next(f for f in doctor(env, "/nonexistent")["findings"] if f["name"] == "path")
    assert finding["level"] == "note" and "No such file" in finding["what"]


def test_the_cache_that_the_library_fills_is_the_one_that_is_cleared(env, tmp_path):
    assert doctor(env)["cache"]["files"] == 0
    fill_cache(env, tmp_path)
    (tmp_path / "cache/mine.txt").write_text("kept")
    (tmp_path / "cache/link.fbyindex").symlink_to(tmp_path / "a.parquet")
    cache = doctor(env)["cache"]
    assert cache["files"] == 2 and cache["bytes"] > 0 and cache["folder"] == env["FOREBAY_CACHE"]

    refused = run("doctor", "--clear-cache", env=env, stdin=subprocess.DEVNULL)
    assert refused.returncode == 2 and "--yes" in refused.stderr and doctor(env)["cache"] == cache

    done = run("doctor", "--clear-cache", "--yes", "--json", env=env)
    assert done.returncode == 0 and json.loads(done.stdout)["removed_files"] == cache["files"]
    assert sorted(p.name for p in (tmp_path / "cache").iterdir()) == ["link.fbyindex", "mine.txt"]
    assert run("doctor", "--clear-cache", "--yes", env=env).stdout.startswith("removed 0 files")


def test_that_there_is_no_cache_comes_with_the_reason(env, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    script = 'cd "$1" && rmdir "$1" && shift && exec "$@"'
    for variables, reason in (({**env, "FOREBAY_CACHE": "cache"}, "working directory"), ({"PATH": env["PATH"]}, "HOME is not set")):
        gone.mkdir(exist_ok=True)
        done = subprocess.run(["sh", "-c", script, "sh", gone, CLI, "doctor"], env=variables, capture_output=True, text=True, timeout=60)
        (line,) = (line for line in done.stdout.splitlines() if "index cache" in line and "none" in line)
        assert reason in line, line


def test_a_cache_that_cannot_be_read_is_said(env, tmp_path):
    (tmp_path / "cache").write_text("no folder")
    found = next(f for f in doctor(env)["findings"] if f["name"] == "index cache")
    assert found["level"] == "slow" and "Not a directory" in found["what"] and not doctor(env)["cache"]["writable"]
    done = run("doctor", "--clear-cache", "--yes", env=env)
    assert done.returncode == 1 and "Not a directory" in done.stderr and done.stdout == ""
    done = run("doctor", "--clear-cache", "--yes", env={"PATH": env["PATH"]})
    assert done.returncode == 2 and "HOME" in done.stderr and done.stdout == ""


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_cache_that_the_library_leaves_alone_is_said(env, tmp_path, mode):
    fill_cache(env, tmp_path)
    assert doctor(env)["cache"]["writable"]
    (tmp_path / "cache").chmod(mode)
    report = doctor(env)
    found = next(f for f in report["findings"] if f["name"] == "index cache")
    assert found["level"] == "slow" and "chmod go-w" in found["what"] and found["cure"] and not report["cache"]["writable"]
    assert "chmod go-w" in run("inspect", tmp_path / "a.parquet", env=env).stdout  # its note


@pytest.mark.parametrize(("answer", "code"), [("n", 1), ("", 1), ("y", 0)])
def test_on_a_terminal_it_asks(env, tmp_path, answer, code):
    fill_cache(env, tmp_path)
    parent, child = pty.openpty()
    process = subprocess.Popen([CLI, "doctor", "--clear-cache"], env=env, stdin=child, stdout=subprocess.PIPE, stderr=child, text=True)
    os.close(child)
    os.write(parent, answer.encode() + b"\n")
    process.communicate(timeout=30)
    os.close(parent)
    assert process.returncode == code
    assert doctor(env)["cache"]["files"] == (0 if code == 0 else 2)  # the index and its key


@pytest.mark.parametrize("args", [("--clear-cache", "path"), ("--yes",), ("--what",), ("--cache-dir", "")])
def test_what_makes_no_sense_is_a_usage_error(env, args):
    assert run("doctor", *args, env=env).returncode == 2


def test_every_command_is_listed_and_installed(env):
    assert {"inspect", "head", "bench", "doctor"} <= set(COMMANDS)
    pages = CLI.parent / "command-docs"
    if pages.is_dir():
        assert {p.name for p in pages.glob("*.1")} == {"forebay.1", *(f"forebay-{command}.1" for command in COMMANDS)}


def options_of(help_text):
    return set(re.findall(r"(?m)^  (?:-\w, )?--([\w-]+)", help_text))


@pytest.mark.parametrize("command", COMMANDS)
def test_man_page_and_completions_have_every_option_of_the_help(env, command):
    options = options_of(run(command, "--help", env=env).stdout)
    page = run("--man", command, env=env).stdout
    assert page.startswith(f'.TH "forebay-{command}" 1')
    in_page = {name.replace("\\-", "-") for name in re.findall(r"\\fB\\-\\-((?:[\w]|\\-)+)", page)}
    assert in_page == options
    fish = run("--completions", "fish", env=env).stdout
    assert options - {"help"} == set(re.findall(rf"from {command}' -l ([\w-]+)", fish))
    bash = run("--completions", "bash", env=env).stdout
    block = re.search(rf'(?m)^    {command}\)\n        options="([^"]*)"', bash)[1]
    assert {word.removeprefix("--") for word in block.split()} == options
    zsh = run("--completions", "zsh", env=env).stdout.split(f"\n    {command}) _arguments")[1].split(";;")[0]
    specs = [m[1] for m in (re.fullmatch(r"        '\*?(--.*?)' (?:\\|'\*:path:_files' )", line) for line in zsh.splitlines()) if m]
    assert {re.match(r"--([\w-]+)=?\[", spec)[1] for spec in specs} == options
    for spec in specs:  # option[text] or option=[text]:value:action
        assert re.sub(r"\\.", "", spec).count(":") == (2 if "=[" in spec else 0), spec


def test_man_pages_are_good_roff(env):
    if not shutil.which("groff"):
        pytest.skip("no groff")
    for args in ((), *((command,) for command in COMMANDS)):
        page = run("--man", *args, env=env).stdout
        done = subprocess.run(["groff", "-man", "-Tutf8", "-P-cbou", "-ww", "-Kutf8"], input=page, capture_output=True, text=True, check=True)
        assert done.stderr == "" and "NAME" in done.stdout
        assert not re.search("['`^~]", page)  # newer ones set these as other characters, which no shell takes


def test_bash_completes(env):
    script = f"""eval "$({CLI} --completions bash)"
        complete_words() {{ COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _forebay; echo "${{COMPREPLY[*]}}"; }}
        complete_words forebay do
        complete_words forebay head --ro
        complete_words forebay head --io u
        complete_words forebay head --io = u
        complete_words forebay head --io ="""
    done = subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["doctor", "--rows", "uring", "uring", "auto", "threads", "uring", "mmap", "null"]


def typed(shell, start, keys, env, cwd):
    """What an interactive shell shows when these keys are typed."""
    parent, child = pty.openpty()
    process = subprocess.Popen(shell, env=env | {"TERM": "dumb", "PS1": "$ "}, cwd=cwd, stdin=child, stdout=child, stderr=child, start_new_session=True)
    os.close(child)
    os.write(parent, f"{start}\necho rea''dy\n".encode())
    shown, until = b"", time.monotonic() + 30
    while time.monotonic() < until and select.select([parent], [], [], 30)[0]:
        shown += os.read(parent, 65536)
        if b"ready" in shown and keys:
            os.write(parent, keys)
            keys = b""
        elif b"the end" in shown:
            break
    process.kill()
    process.wait()
    os.close(parent)
    return shown.decode()


def test_bash_quotes_the_files_that_it_completes(env, tmp_path):
    (tmp_path / "two words.parquet").touch()
    shown = typed(["bash", "--norc", "--noprofile", "-i"], f'eval "$({CLI} --completions bash)"; forebay() {{ echo "<$2>"; }}',
                  b"forebay head tw\t\necho the' 'end\n", env, tmp_path)
    assert "<two words.parquet>" in shown


def test_other_shells_accept_their_completions(env):
    for shell in ("bash", "zsh", "fish"):
        if shutil.which(shell):
            text = run("--completions", shell, env=env).stdout
            subprocess.run([shell, "-n", "/dev/stdin"], input=text, text=True, check=True, capture_output=True)


def test_zsh_takes_its_completions_from_a_file_and_from_eval(env, tmp_path):
    if not shutil.which("zsh"):
        pytest.skip("no zsh")
    (tmp_path / "functions").mkdir()
    (tmp_path / "functions/_forebay").write_text(run("--completions", "zsh", env=env).stdout)
    for how in (f'fpath=({tmp_path}/functions $fpath); compinit -u -D', f'compinit -u -D; eval "$({CLI} --completions zsh)"'):
        script = f"autoload -Uz compinit; {how}; print -r -- $_comps[forebay]"
        done = subprocess.run(["zsh", "-fc", script], env=env, capture_output=True, text=True, check=True)
        assert (done.stdout, done.stderr) == ("_forebay\n", "")


@pytest.mark.parametrize(
    "args",
    [("--completions",), ("--completions", "tcsh"), ("--completions", "bash", "x"), ("--man", "nothing"), ("--man", "head", "x"),
     ("--version", "--what"), ("--version", "--verbose", "x"), ("--version", "--json", "--what"), ("help", "nothing"), ("help", "head", "x"),
     ("--help", "nothing"), ("nothing",)],
)  # fmt: skip
def test_what_the_program_does_not_know_is_a_usage_error(env, args):
    done = run(*args, env=env)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.startswith("forebay: error: ")


def test_version_with_what_is_inside(env):
    plain = run("--version", env=env).stdout
    assert re.fullmatch(r"forebay \d+\.\d+\.\d+\n", plain)
    verbose = run("--version", "--verbose", env=env).stdout
    assert verbose.startswith(plain) and "zstd" in verbose and "BSD-3-Clause" in verbose
    both = json.loads(run("--version", "--verbose", "--json", env=env).stdout)
    assert f"forebay {both['forebay']}\n" == plain and {"name", "version", "license"} == set(both["libraries"][0])
