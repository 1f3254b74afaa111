"""What the recipes' train.py make of their arguments, and that the commands which pages print are ones they take."""

import dataclasses
import importlib
import math
import pathlib
import re
import shlex
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from training_cases import ROOT

NAMES = ("hydrology", "neutrino", "linkage", "jets", "leak", "nanoaod", "weather")
training, data = (importlib.import_module(f"recipes.{name}") for name in ("training", "data"))


def recipe_of(name):
    return importlib.import_module(f"recipes.{name}.train").RECIPE


@pytest.fixture
def recipe():
    """One that only notes in what folder it was to generate data, and of what scale."""

    def generate(folder, scale):
        folder.mkdir()
        (folder / "values").write_text(scale)

    return dataclasses.replace(recipe_of("leak"), generate=generate)


@pytest.mark.parametrize("option", ["--seeds", "--epochs", "--batch-size", "--batches", "--points", "--accumulate", "--max-seconds", "--checkpoint-every"])
@pytest.mark.parametrize("value", ["0", "-1", "few"])
def test_counts_are_positive(option, value, recipe, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        training.prepare(recipe, ["--data", str(tmp_path / "data"), option, value])
    assert ended.value.code == 2 and not (tmp_path / "data").exists()
    assert f"argument {option}: {value!r} is not a number from 1 on" in capsys.readouterr().err


@pytest.mark.parametrize("both", [("--today", "--both"), ("--both", "--loaders", "today"), ("--today", "--loaders", "forebay")])
def test_loaders_are_said_in_one_way(both, recipe, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        training.prepare(recipe, ["--data", str(tmp_path / "data"), *both])
    assert ended.value.code == 2 and "not allowed with argument" in capsys.readouterr().err


def test_data_of_another_scale_are_refused(recipe, tmp_path):
    folder = tmp_path / "data"
    asked = ["--data", str(folder), "--scale"]
    training.prepare(recipe, [*asked, "medium"])
    assert (folder / "values").read_text() == "medium"
    training.prepare(recipe, [*asked, "medium"])  # they are what was asked for
    training.prepare(recipe, ["--data", str(folder)])  # nothing was asked for
    with pytest.raises(SystemExit, match=rf"{re.escape(str(folder))} has data of scale 'medium', not 'small': .*--data"):
        training.prepare(recipe, [*asked, "small"])
    (tmp_path / "foreign").mkdir()
    with pytest.raises(SystemExit, match=r"foreign has data of a scale that is not known, not 'bench'"):
        training.prepare(recipe, ["--data", str(tmp_path / "foreign"), "--scale", "bench"])


def test_every_scale_has_a_folder_of_its_own(recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "RECIPES", tmp_path)
    (tmp_path / recipe.name).mkdir()
    made = [training.prepare(recipe, arguments)[1] for arguments in ([], ["--scale", "small"], ["--scale", "medium"])]
    assert [folder.relative_to(tmp_path / recipe.name) for folder in made] == [pathlib.Path(name) for name in ("data", "data", "data-medium")]
    assert [(folder / "values").read_text() for folder in made] == ["small", "small", "medium"]


def test_data_that_were_not_written_to_their_end_are_not_there(recipe, tmp_path):
    def stopped(folder, scale):
        folder.mkdir()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        training.prepare(dataclasses.replace(recipe, generate=stopped), ["--data", str(tmp_path / "data")])
    assert not (tmp_path / "data").exists()
    with pytest.MonkeyPatch.context() as patched, pytest.raises(KeyboardInterrupt):  # it was written, and renamed: of what scale is said with it
        rename = pathlib.Path.rename

        def renamed(path, target):
            rename(path, target)
            raise KeyboardInterrupt

        patched.setattr(pathlib.Path, "rename", renamed)
        training.prepare(recipe, ["--data", str(tmp_path / "whole"), "--scale", "medium"])
    training.prepare(recipe, ["--data", str(tmp_path / "whole"), "--scale", "medium"])
    assert training.prepare(recipe, ["--data", str(tmp_path / "data")])[1] == tmp_path / "data"  # what was left is no obstacle
    assert (tmp_path / "data/values").read_text() == "small"


@pytest.mark.parametrize("name", NAMES)
def test_every_recipe_has_every_scale(name):
    assert list(importlib.import_module(f"recipes.{name}.generate").SCALES) == list(training.SCALES)


SIZES = {
    "hydrology": "--basins 3 --years 7.5 8 --forcings 4 --attributes 4",
    "neutrino": "--files 4 --events 60 --longest 200",
    "linkage": "--rows 200",
    "jets": "--files 3 --events 60 --particles 8",
    "leak": "--files 24 --long 3 --short 2",
    "nanoaod": "--files 4 --events 120",
    "weather": "--years 4 --steps 80 --lat 8 --lon 12",
}


@pytest.mark.parametrize("name", NAMES)
def test_what_the_generator_writes_is_all_that_training_needs(name, tmp_path):
    program, folder = ROOT / "recipes" / name / "generate.py", tmp_path / "data"
    subprocess.run([sys.executable, str(program), str(folder), *SIZES[name].split()], check=True, stdout=subprocess.DEVNULL)
    recipe = recipe_of(name)
    args, _, _ = training.prepare(recipe, ["--data", str(folder), "--batch-size", "8"])
    for split in ("train", "val", "test"):
        with recipe.data(split, folder, args, shuffle=False) as batches:
            assert training.size_of(next(iter(batches))) > 0


@pytest.mark.parametrize("name", NAMES)
def test_a_budget_goes_with_the_scale(name, tmp_path):
    recipe = recipe_of(name)
    budgets = {}
    for scale in (None, *data.SCALES):
        folder = tmp_path / str(scale)
        folder.mkdir()
        if scale:
            (folder / data.NOTE).write_text(f"{name} {scale}")
        budgets[scale] = training.budget(recipe, folder)
        if scale == "bench":
            assert training.prepare(recipe, ["--data", str(folder)])[0].memory == recipe.large
            assert training.prepare(recipe, ["--data", str(folder), "--memory", "3MiB"])[0].memory == "3MiB"
    assert budgets[None] == budgets["small"] == budgets["medium"] == training.BUDGET and budgets["bench"] == budgets["full"] == recipe.large
    (tmp_path / "bench" / data.NOTE).write_text("another bench")
    with pytest.raises(SystemExit, match="data of the recipe 'another'"):
        training.prepare(recipe, ["--data", str(tmp_path / "bench")])


def test_a_generator_writes_all_or_nothing_and_over_nothing(tmp_path):
    program = [sys.executable, str(ROOT / "recipes/leak/generate.py")]
    done = subprocess.run([*program, str(tmp_path / "new" / "data")], capture_output=True, text=True)
    assert done.returncode == 0 and data.scale_of(tmp_path / "new" / "data", "leak") == "small", done.stderr
    again = subprocess.run([*program, str(tmp_path / "new" / "data")], capture_output=True, text=True)
    assert again.returncode == 2 and "is there already: delete it, or name another folder" in again.stderr
    (tmp_path / "empty").mkdir()
    assert subprocess.run([*program, str(tmp_path / "empty"), "--files", "20"], capture_output=True).returncode == 0
    assert data.scale_of(tmp_path / "empty", "leak") is None  # of a size of its own
    (tmp_path / "a file").write_text("")
    assert subprocess.run([*program, str(tmp_path / "a file")], capture_output=True).returncode == 2

    def interrupted(folder):
        folder.mkdir()
        (folder / "train.h5").write_text("a part")
        raise KeyboardInterrupt

    (tmp_path / f".data-partial-{2**22 + 1}").mkdir()  # of a process that there is none of
    with pytest.raises(KeyboardInterrupt):
        data.generated(tmp_path / "data", interrupted)
    assert not list(tmp_path.glob(".*"))
    before = sorted(tmp_path.iterdir())
    with pytest.raises(KeyboardInterrupt):
        data.generated(tmp_path / "data", interrupted)
    assert sorted(tmp_path.iterdir()) == before


def test_what_cannot_be_gone_on_from_is_said_before_anything_runs(recipe, tmp_path):
    def asked(*arguments):
        with pytest.raises(SystemExit) as said:
            training.prepare(recipe, ["--data", str(tmp_path / "data"), *arguments])
        assert not (tmp_path / "data").exists()
        return str(said.value)

    kept = tmp_path / "end.ckpt"
    for path in (kept, tmp_path):
        assert "is no file: train.py --checkpoints" in asked("--resume", str(path))
    for foreign in (b"", b"h is no checkpoint", b"s", b"a text", bytes(1000)):
        kept.write_bytes(foreign)
        assert "is no checkpoint" in asked("--resume", str(kept))
    torch.save({"recipe": {"name": "another"}, "state_dict": {}}, kept)
    assert "is of the recipe 'another'" in asked("--resume", str(kept))
    torch.save({"recipe": {"name": recipe.name}, "state_dict": {}}, kept)
    assert "any other would begin its epoch anew" in asked("--resume", str(kept), "--today")
    for instead in ("--diagnose", "--no-network"):
        assert "of a single run that trains" in asked("--resume", str(kept), instead)
    for option in ("--json", "--picture"):
        assert "there is no folder" in asked(option, str(tmp_path / "missing" / "file"))
    for loader in ("forebay", "forebay-in-order"):
        assert training.prepare(recipe, ["--data", str(tmp_path / "data"), "--resume", str(kept), "--loaders", loader])[0].resume == str(kept)


def test_what_forebay_refuses_is_a_message(tmp_path):
    importlib.import_module("recipes.leak.generate").generate(tmp_path / "data", files=24, long=3, short=2)
    for arguments, said in {
        ("--memory", "1KiB"): "train.py: BudgetError: .*Raise memory",
        ("--memory", "much"): "train.py: memory='much' is not a size",
        ("--set", "thread=1"): "train.py: .*thread",
    }.items():
        with pytest.raises(SystemExit, match=said):
            training.main(recipe_of("leak"), ["--data", str(tmp_path / "data"), "--device", "cpu", *arguments])
    (tmp_path / "empty").mkdir()
    for name in NAMES:
        with pytest.raises(SystemExit, match="train.py: |at least three are needed"):
            training.main(recipe_of(name), ["--data", str(tmp_path / "empty"), "--device", "cpu"])


def test_what_no_trainer_takes_is_said_before_data_are_generated(recipe, tmp_path, capsys):
    folder = tmp_path / "data"
    for arguments, said in {("--device", "no-such"): "train.py: .*no-such", ("--precision", "fp16"): "train.py: .*fp16"}.items():
        with pytest.raises(SystemExit, match=said):
            training.prepare(recipe, ["--data", str(folder), *arguments])
    for arguments in (("--seed", "-1"), ("--workers", "-1"), ("--learning-rate", "-1"), ("--learning-rate", "nan"), ("--torch-threads", "0")):
        with pytest.raises(SystemExit):
            training.prepare(recipe, ["--data", str(folder), *arguments])
        assert re.search(rf"argument {arguments[0]}: '{arguments[1]}' is not a number (from|above) ", capsys.readouterr().err)
    assert not folder.exists()


def test_scores_of_few_recordings_and_of_dry_basins_are_numbers(tmp_path):
    leak, hydrology = (importlib.import_module(f"recipes.{name}.evaluate") for name in ("leak", "hydrology"))
    importlib.import_module("recipes.leak.generate").generate(tmp_path, files=6, long=3, short=2)
    scores = leak.Scores(tmp_path)
    scores.table.update(recording=[0, 1], label=["normal", "normal"], found=["normal", leak.generate.LABELS[leak.LEAK]])
    assert scores.result().scores["balanced accuracy"] == 0.5  # of the one class that is there
    moments = SimpleNamespace(inverse=lambda values, name: values)
    basins = hydrology.Scores(moments, "streamflow", ["dry", "wet", "other"])
    y = torch.tensor([[3.0, 3.0], [1.0, 2.0], [2.0, 5.0]])
    basins.add(lambda batch: batch["y"] + 0.1, {"y": y, "gauge": torch.tensor([0, 1, 2])})
    assert all(map(math.isfinite, basins.result().scores.values()))


def commands(name):
    """The arguments of every train.py that the pages of recipes/ name for a recipe."""
    for path in sorted((ROOT / "recipes").rglob("*.md")):
        for line in re.findall(rf"python recipes/{name}/train\.py([^`\n#|]*)", path.read_text()):
            yield path.relative_to(ROOT), shlex.split(line.replace("…", ""))


@pytest.mark.parametrize("name", NAMES)
def test_commands_of_the_pages_are_taken(name, capsys):
    found = list(commands(name))
    assert found
    for page, arguments in found:
        try:
            args = training.arguments(recipe_of(name)).parse_args(arguments)
        except SystemExit:
            pytest.fail(f"{page}: {' '.join(arguments)}\n{capsys.readouterr().err}")
        assert page.name != "results.md" or args.scale, f"{page}: {' '.join(arguments)}: does not say which data"


@pytest.fixture(scope="module")
def bench():
    return importlib.import_module("recipes.bench")


@pytest.mark.parametrize("name", NAMES[:5])
def test_a_benchmark_has_an_experts_loader_beside_the_owners_and_an_end(name, bench):
    for scale in bench.SIZES:
        for more in ([], ["--max-seconds", "7", "--seeds", "5"]):
            recipe, arguments = bench.recipe_of(name), bench.arguments_of(name, scale, more)
            args = training.arguments(recipe).parse_args(arguments)
            todays = {"today"} if (name, scale) != ("linkage", "bench") else set()  # whose lists of a million records fit into few machines
            assert {*todays, "expert", "forebay"} <= set(args.loaders) and args.max_seconds and args.seeds > 1 and args.scale == scale
            runs = len(args.loaders) * args.seeds + 16 * (name == "neutrino")  # pairs, of what shuffling costs
            assert runs * args.max_seconds < bench.at_most(recipe, arguments) < runs * (args.max_seconds + 60)


@pytest.mark.parametrize("name", NAMES[5:])
def test_formats_from_outside_are_measured_beside_a_loader_by_hand(name, bench, capsys, monkeypatch):
    recipe = bench.recipe_of(name)
    for more in ([], ["--no-network"]):
        args = training.arguments(recipe).parse_args(bench.arguments_of(name, "medium", more))
        assert args.loaders == ["today", "forebay"] and args.seeds > 1 and args.max_seconds
    monkeypatch.setattr(sys, "argv", ["bench.py", name, "--scale", "bench"])
    with pytest.raises(SystemExit):
        bench.main()
    assert f"{name}: not measured at the scale bench" in capsys.readouterr().err


@pytest.mark.parametrize("scale", ["medium", "bench"])
def test_without_names_all_are_measured_that_a_scale_has(scale, bench, monkeypatch):
    run = []
    monkeypatch.setattr(bench, "section", lambda name, at, more: run.append((name, at)) or ())
    monkeypatch.setattr(sys, "argv", ["bench.py", "--scale", scale])
    bench.main()
    assert run == [(name, scale) for name in bench.SIZES[scale]] and len(run) == (5 if scale == "bench" else 7)


def test_names_of_recipes_come_before_arguments_of_train(bench, monkeypatch, capsys):
    run = []
    monkeypatch.setattr(bench, "section", lambda name, at, more: run.append((name, more)) or ())
    monkeypatch.setattr(sys, "argv", ["bench.py", "--max-seconds", "20"])
    bench.main()
    assert run == [(name, ["--max-seconds", "20"]) for name in bench.SIZES["medium"]]
    run.clear()
    monkeypatch.setattr(sys, "argv", ["bench.py", "jets", "leak", "--scale", "bench", "--seeds", "2"])
    bench.main()
    assert run == [("jets", ["--seeds", "2"]), ("leak", ["--seeds", "2"])]
    monkeypatch.setattr(sys, "argv", ["bench.py", "jet"])
    with pytest.raises(SystemExit):
        bench.main()
    assert "jet: no recipe" in capsys.readouterr().err


@pytest.mark.parametrize("name", NAMES[:5])
def test_loaders_alone_are_measured_over_runs(name, bench):
    for scale in bench.SIZES:
        recipe, arguments = bench.recipe_of(name), bench.arguments_of(name, scale, ["--no-network", "--seeds", "4"])
        args = training.arguments(recipe).parse_args(arguments)
        assert arguments.count("--no-network") == 1 and args.no_network and {"expert", "forebay"} <= set(args.loaders) and args.max_seconds and args.seeds == 4
        assert bench.at_most(recipe, arguments) > 2 * len(args.loaders) * args.seeds * args.max_seconds


def test_forebay_runs_with_a_tenth_of_another_loaders_memory(bench, monkeypatch):
    asked, run = [], training.Loading("today-lru", 0, 1.0, 10, 1.0, 10, [0.1], 1.0, 2.0, 500 << 20)

    def main(recipe, arguments):
        asked.append(training.arguments(recipe).parse_args(arguments))
        return [dataclasses.replace(run, loader="forebay", seed=seed, first_samples=30, samples=20) for seed in range(2)]

    monkeypatch.setattr(training, "main", main)
    arguments, theirs = bench.arguments_of("jets", "medium", ["--no-network"]), [run, dataclasses.replace(run, memory_bytes=700 << 20)]
    found, words = bench.of_a_tenth(bench.recipe_of("jets"), arguments, bench.OF_A_TENTH["jets"][1], theirs)
    assert [of.loader for of in found] == ["forebay, 60MiB"] * 2 and "; 3.0 times its samples/s in the first epoch, 2.0 times after it." in words
    assert asked[0].loaders == ["forebay"] and asked[0].memory == "60MiB" and asked[0].no_network
    assert asked[0].set == [("threads", 1), ("streams", 1), ("superbatch", 2000)]


def test_a_tenth_that_is_refused_is_said(bench, monkeypatch):
    def main(recipe, arguments):
        raise SystemExit(f"run 1 of 3\ntrain.py: {error}")

    error = "BudgetError: needs 70 MiB"
    monkeypatch.setattr(training, "main", main)
    theirs = [training.Loading("today-lru", 0, 1.0, 10, 1.0, 10, [0.1], 1.0, 2.0, 600 << 20)]
    found, words = bench.of_a_tenth(bench.recipe_of("jets"), [], "", theirs)
    assert found == [] and words == "With a budget of 60MiB, a tenth of what today-lru takes, Forebay did not run: train.py: BudgetError: needs 70 MiB"
    error = "OSError: No space left on device"
    with pytest.raises(SystemExit, match="No space"):
        bench.of_a_tenth(bench.recipe_of("jets"), [], "", theirs)


def test_a_recipe_that_fails_does_not_end_the_benchmark(bench, monkeypatch, capsys):
    def section(name, scale, more):
        if name in failures:
            raise failures[name]
        return [name]

    failures = {"jets": SystemExit("jets with the loader 'today' ended with status 1"), "neutrino": OSError("no space left")}
    kept = []
    monkeypatch.setattr(bench, "section", section)
    monkeypatch.setattr(bench, "keep", lambda sections: kept.extend(sections))
    monkeypatch.setattr(sys, "argv", ["bench.py", "linkage", "jets", "neutrino", "leak"])
    with pytest.raises(SystemExit, match="not measured to the end: jets, neutrino"):
        bench.main()
    said = capsys.readouterr().err
    assert kept == ["linkage", "leak"] and "ended with status 1" in said and "no space left" in said
    monkeypatch.setattr(sys, "argv", ["bench.py", "leak", "--diagnose"])
    with pytest.raises(SystemExit):
        bench.main()
    assert "--diagnose: this command has that of its own" in capsys.readouterr().err


def test_options_of_forebays_loader_are_set(recipe, tmp_path, capsys):
    asked = {}
    noted = dataclasses.replace(recipe, data=lambda part, folder, args, **options: asked.update(options), loaders={"today": lambda folder, args: "theirs"})
    args = training.arguments(noted).parse_args(["--device", "cpu", "--seed", "3", "--set", "streams=2", "io=mmap", "x=true", "y=0.5"])
    training.make(noted, tmp_path, args, "forebay")
    assert asked == {"seed": 3, "streams": 2, "io": "mmap", "x": True, "y": 0.5}
    assert training.make(noted, tmp_path, args, "today") == "theirs"
    with pytest.raises(SystemExit):
        training.arguments(noted).parse_args(["--set", "streams"])
    for setting, where in {"memory=1GiB": "memory is said by --memory", "framework=numpy": "framework is said by the recipe"}.items():
        with pytest.raises(SystemExit):
            training.arguments(noted).parse_args(["--set", setting])
        assert where in capsys.readouterr().err


def test_results_of_loaders_alone_stand_beside_those_of_training(bench, tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    (tmp_path / "recipes").mkdir()
    bench.keep({"leak": "## leak\n\nof training\n"})
    bench.keep({"jets, loaders alone": "## jets, loaders alone\n\nalone\n", "leak, loaders alone": "## leak, loaders alone\n\nold\n"})
    bench.keep({"leak, loaders alone": "## leak, loaders alone\n\nnew\n"})
    said = (tmp_path / "recipes/results.md").read_text()
    assert re.findall(r"^## .*", said, re.M) == ["## All of them, side by side", "## leak", "## jets, loaders alone", "## leak, loaders alone"]
    assert "of training" in said and "new" in said and "old" not in said


def test_a_caption_says_the_target_the_limits_and_how_scores_are_compared(bench):
    run = training.Result("today", 0, [], [], {"auc": 0.8}, {}, 1.0, 2.0, 0.0, 1.0, 10, [], [], 1.0, 1.0, 1, None)
    runs = [run, dataclasses.replace(run, seed=1), dataclasses.replace(run, loader="forebay")]
    found = {"today": SimpleNamespace(limit="loader"), "forebay": SimpleNamespace(limit="model")}
    said = bench.caption(dataclasses.replace(bench.recipe_of("jets"), target=0.6), runs, found)
    for words in ("Medians of 2 seeds", "Target: auc 0.6 (0.5 by guessing)", "Welch's t", "today by `loader`, forebay by `model`"):
        assert words in said
    assert "not measured" in bench.caption(bench.recipe_of("jets"), runs, {}) and "of the validation data" in said
    assert "of 7 batches of validation data" in bench.caption(bench.recipe_of("jets"), runs, found, 7)


def test_samples_of_a_batch_are_not_its_values():
    batch = {"values": range(100), "offsets": range(11), "y": range(10)}
    assert training.size_of(batch) == training.size_of(tuple(batch.values())) == 10


def test_one_table_has_all_systems_and_loaders(bench):
    trained = "| loader | samples/s | set up | waiting | CPU | memory | to target |\n| --- |\n"
    trained += "| today | 90 ±1 | 1 s | 92.6% ±0.6% | 2 cores | 3 MiB | 42 ±6 s |\n"
    limits = "| loader | loader alone, samples/s | limit |\n| --- |\n| today | 97 | loader |\n| forebay | 1,000 | model |\n"
    alone = "| loader | samples/s, first epoch | Forebay gives | samples/s, then |\n| --- |\n| today | 88 ±4 | 9 × | 94 ±2 |\n| forebay, 80MiB | 1 | | 2 |\n"
    said = bench.summary({"jets": f"## jets\n\n{trained}\n{limits}", "jets, loaders alone": alone})
    assert [line for line in said.splitlines() if line.startswith("| jets")] == ["| jets | today | 88 | 94 | 90 | 92.6% | 2 cores | 3 MiB | 42 s | loader |"]
    assert bench.summary({}).count("\n|") == 2


def test_the_pages_of_the_recipes_have_the_figures_of_the_results(bench, tmp_path, monkeypatch):
    results = (bench.ROOT / "recipes/results.md").read_text()
    of = {path.parent.name: path for path in (bench.ROOT / "recipes").glob("*/README.md")}
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes/results.md").write_text(results)
    for name, page in of.items():
        (tmp_path / "recipes" / name).mkdir()
        (tmp_path / "recipes" / name / "README.md").write_text(page.read_text())
    speed = (bench.ROOT / "docs/speed.md").read_text()
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/speed.md").write_text(speed)
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    bench.keep({})
    assert speed.count("| forebay |") == 5 and (tmp_path / "docs/speed.md").read_text() == speed
    assert sorted(of) == sorted(NAMES) and (tmp_path / "recipes/results.md").read_text() == results
    (tmp_path / "recipes/jets/README.md").write_text("a page without a place")
    with pytest.raises(SystemExit, match="no place for results in .*jets/README.md"):
        bench.keep({"jets": "new"})
    assert (tmp_path / "recipes/results.md").read_text() == results
    (tmp_path / "recipes/jets/README.md").write_text(of["jets"].read_text())
    for name, page in of.items():
        assert "| forebay |" in page.read_text() and (tmp_path / "recipes" / name / "README.md").read_text() == page.read_text()


def test_a_picture_shows_what_limits_training_with_each_loader(bench, tmp_path):
    pytest.importorskip("matplotlib")
    slow = SimpleNamespace(loader=100.0, ceiling=1000.0, together=95.0, limit="loader")
    for found in ({"forebay": slow}, {name: slow for name in ("today", "today-random", "today-by-file", "expert", "forebay", "forebay-in-order")}):
        bench.contest.limits_picture("jets", found, tmp_path / "limits.png")
        assert (tmp_path / "limits.png").read_bytes().startswith(b"\x89PNG")
