"""Runs the forebay command."""

import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/golden/parquet"
CLI = pathlib.Path(os.environ.get("FOREBAY_CLI", ROOT / "build/forebay"))
sys.path.insert(0, str(ROOT / "tests/python"))


def run(args, env, cwd=GOLDEN, **options):
    return subprocess.run([CLI, *map(str, args)], env=env, cwd=cwd, capture_output=True, text=True, timeout=60, **options)


def run_json(args, env, **options):
    result = run([*args, "--json"], env, **options)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return json.loads(result.stdout)
