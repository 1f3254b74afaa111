"""The recipes' train.py: all loaders train the same network, and a run that was stopped in the middle of an epoch goes on as if it had not been;
evaluate.py gives the scores of its checkpoint again, and what they come from. That something is learnt: test_recipes_learn.py."""

import copy
import csv
import dataclasses
import importlib
import json
import math
import os
import subprocess
import sys
import time
import types

import numpy as np
import pytest

import training_cases  # noqa: F401
import h5py
import torch

import forebay as fb

SMALL = {
    "hydrology": dict(basins=3, years=(7.5, 8.0), forcings=4, attributes=4),
    "neutrino": dict(files=2, events=60, longest=200, row_group=2_000),
    "linkage": dict(rows=400, bits=1024),
    "jets": dict(files=3, events=120, particles=8, features=9, chunk=40),
    "leak": dict(files=24, long=3, short=2),
    "nanoaod": dict(files=3, events=120, row_group=50),
    "weather": dict(years=3, steps=80, lat=8, lon=12, chunk=8),
}


pytestmark = pytest.mark.usefixtures("one_torch_thread")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """trained("jets", "--both"): what its command returns, on a small set of data."""
    folders = {}

    def train(name, *arguments):
        module = importlib.import_module(f"recipes.{name}.train")
        if name not in folders:
            folders[name] = tmp_path_factory.mktemp(name)
            generate = importlib.import_module(f"recipes.{name}.generate")
            getattr(generate, "generate_parts", generate.generate)(folders[name], **SMALL[name])
        sys.modules["recipes.training"].main(module.RECIPE, ["--data", str(folders[name]), "--batch-size", "16", "--device", "cpu", *arguments])
        return folders[name]

    return train


def test_the_neutrino_owners_question_is_answered_in_one_call(tmp_path, monkeypatch):
    module, generate = (importlib.import_module(f"recipes.neutrino.{name}") for name in ("diagnose", "generate"))
    generate.generate(tmp_path / "data", **{**module.LARGE, "events": 2_500})
    arguments = ["--data", str(tmp_path / "data"), "--seconds", "2"]
    found = module.main([*arguments, "--batch-sizes", "16", "64"])["the loader"]
    assert [tried.batch_size for tried in found.batch_sizes] == [16, 64]
    assert found.limit == "model" and found.cures == () and found.headroom > 1
    assert found.ceiling > 0 and found.forward > 0 and found.backward > 0 and found.optimizer > 0 and found.flops > 0

    class Quick(torch.nn.Module):  # a step that costs nothing: what the loader gives is then the limit on any machine
        def __init__(self):
            super().__init__()
            self.head = torch.nn.Linear(3, 3)

        def forward(self, doms, mask):
            return self.head(doms[:, 0, :3])

    monkeypatch.setattr(module.train, "Network", Quick)
    found = module.main(arguments)["the first loader's habits"]
    assert found.limit in ("decode", "decompress", "storage", "assemble") and found.share < 1
    assert any(cure.change.startswith("memory=") and cure.factor > 1 for cure in found.cures)


def losses_of(path):
    return [loss for _, _, loss in json.loads(path.read_text())[0]["curve"]]


LOADERS = [(name, loader) for name in SMALL for loader in ("forebay", "forebay-in-order", "today")]
LOADERS += [(name, "expert") for name in ("hydrology", "neutrino", "linkage", "jets", "leak")]
LOADERS += [("jets", "today-lru"), ("jets", "today-ram"), ("leak", "today-ram"), ("neutrino", "today-by-file"), ("neutrino", "today-random")]
LOADERS += [("linkage", "today-tuned")]


@pytest.mark.parametrize(("name", "loader"), LOADERS)
def test_every_loader_trains_the_network(trained, name, loader, tmp_path, capsys):
    out = tmp_path / "results.json"
    which = ["--today"] if loader == "today" else ["--loaders", loader]
    trained(name, *which, "--epochs", "2", "--batches", "2", "--points", "2", "--json", str(out))
    (result,) = json.loads(out.read_text())
    assert result["loader"] == loader and result["samples"] == 4 * 16 and len(result["curve"]) == 4
    assert all(math.isfinite(loss) for _, _, loss in result["curve"])
    assert result["scores"].keys() == result["test_scores"].keys() and result["constant"] > 0
    assert [point["samples"] for point in result["points"]] == [32, 64] and result["points"][1]["loss"] == result["loss"]
    assert result["points"][0]["seconds"] > result["setup_seconds"] and result["cpu_seconds"] > 0 and result["memory_bytes"] >= 0
    assert len(result["next_seconds"]) >= 4 and len(result["iter_seconds"]) == 2
    assert sum(result["iter_seconds"]) + sum(result["next_seconds"]) <= result["seconds"]
    said = capsys.readouterr().out
    assert "samples/s" in said and loader in said and "constant prediction" in said and "test " in said


@pytest.mark.parametrize("name", SMALL)
def test_activations_that_are_computed_again_give_the_same_losses(trained, name, tmp_path, monkeypatch):
    calls, losses = [0], {}
    for of in ("linear", "conv2d"):

        def counted(*args, plain=getattr(torch.nn.functional, of), **options):
            calls[0] += 1
            return plain(*args, **options)

        monkeypatch.setattr(torch.nn.functional, of, counted)
    for way in ((), ("--gradient-checkpointing",)):
        calls[0], out = 0, tmp_path / "results.json"
        trained(name, "--epochs", "1", "--batches", "3", "--points", "1", "--json", str(out), *way)
        losses[calls[0]] = losses_of(out)
    (fewer, kept), (more, again) = losses.items()
    assert more > fewer
    np.testing.assert_allclose(again, kept, rtol=1e-5)


def test_activations_that_are_computed_again_are_not_kept():
    from recipes import training

    def kept(network, x):
        sizes = []
        with torch.autograd.graph.saved_tensors_hooks(lambda value: sizes.append(value.nbytes * (len(value) == len(x))) or value, lambda value: value):
            loss = network(x).square().sum()
        loss.backward()
        return sum(sizes), [weight.grad.clone() for weight in network.parameters()]

    torch.manual_seed(0)
    network = torch.nn.Sequential(*[layer for _ in range(32) for layer in (torch.nn.Linear(64, 64), torch.nn.GELU())])
    x = torch.randn(256, 64)
    all_of_them, gradients = kept(network, x)
    training.checkpointed(network)
    network.zero_grad()
    fewer, same = kept(network, x)
    assert fewer < all_of_them / 2
    assert all(torch.equal(a, b) for a, b in zip(gradients, same, strict=True))
    with torch.no_grad():
        assert torch.equal(network.eval()(x), copy.deepcopy(network)(x))


@pytest.fixture(scope="module")
def compiles():
    try:
        torch.compile(torch.nn.Linear(2, 2))(torch.zeros(1, 2))
    except Exception as error:
        pytest.skip(f"torch.compile does not work here: {str(error).splitlines()[0]}")


@pytest.mark.parametrize("name", ["hydrology", "neutrino", "jets", "leak"])
def test_a_compiled_network_learns_what_a_plain_one_does(name, trained, tmp_path, compiles):
    losses = []
    for ways in ((), ("--compile", "--gradient-checkpointing")):
        trained(name, "--epochs", "1", "--batches", "2", "--points", "1", "--json", str(tmp_path / "results.json"), *ways)
        losses.append(losses_of(tmp_path / "results.json"))
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-3)


def test_a_compiled_network_in_mixed_precision_learns_what_a_plain_one_does(trained, tmp_path, monkeypatch, compiles):
    training, functional = importlib.import_module("recipes.training"), torch.nn.functional
    made, cross_entropy = training.Task.__init__, functional.binary_cross_entropy_with_logits
    networks, dtypes, losses = [], [], []

    def noted(logits, labels):
        dtypes[-1].add(logits.dtype)
        return cross_entropy(logits, labels)

    monkeypatch.setattr(training.Task, "__init__", lambda self, recipe, network, *rest: networks.append(network) or made(self, recipe, network, *rest))
    monkeypatch.setattr(functional, "binary_cross_entropy_with_logits", noted)
    for ways in ((), ("--compile", "--precision", "bf16-mixed")):
        dtypes.append(set())
        out = tmp_path / "results.json"
        trained("linkage", "--batch-size", "20", "--epochs", "2", "--points", "1", "--json", str(out), *ways)
        losses.append(losses_of(out))
    assert [isinstance(network, torch._dynamo.OptimizedModule) for network in networks] == [False, True]
    assert dtypes == [{torch.float32}, {torch.bfloat16}]
    np.testing.assert_allclose(losses[1], losses[0], rtol=0.02)
    assert losses[1] != losses[0] and losses[1][-1] < 0.9 * losses[1][0]


def test_loaders_race_in_processes_of_their_own(trained, tmp_path, capsys):
    out = tmp_path / "results.json"
    arguments = ("--both", "--order", "--epochs", "1", "--batches", "4", "--workers", "1", "--json", str(out), "--picture", str(tmp_path / "loss.png"))
    trained("leak", *arguments)
    found = json.loads(out.read_text())
    assert [result["loader"] for result in found] == ["today", "forebay", "forebay-in-order"] and {result["samples"] for result in found} == {4 * 16}
    assert (tmp_path / "loss.png").stat().st_size > 5_000
    said, told = capsys.readouterr()
    assert "run 1 of 3: today, seed 0, " in told and "run 3 of 3: forebay-in-order, seed 0, " in told
    for word in ("next p99", "CPU", "memory", "to target", "speed", "accuracy", "one seed each", "order"):
        assert word in said
    with pytest.raises(SystemExit, match="of a single run"):
        trained("leak", "--both", "--resume", "end.ckpt")


def test_who_runs_first_changes_from_seed_to_seed(tmp_path):
    ran, contest = [], importlib.import_module("recipes.contest")
    fields = dict(loader="a", seed=0, first_seconds=1, first_samples=1, seconds=1, samples=1, next_seconds=[], cpu_seconds=1, metered_seconds=2, memory_bytes=1)
    code = f"import pathlib, sys; pathlib.Path(sys.argv[-1]).write_text({json.dumps([fields])!r})"
    contest.race(lambda loader, seed: ran.append((loader, seed)) or ["-c", code], ["a", "b"], range(3), tmp_path)
    assert ran == [("a", 0), ("b", 0), ("b", 1), ("a", 1), ("a", 2), ("b", 2)]
    with pytest.raises(SystemExit, match="with the loader 'a' and seed 0 ended with status 1:\nno data there"):
        contest.race(lambda loader, seed: ["-c", "raise SystemExit('no data there')"], ["a", "b"], range(3), tmp_path)


@pytest.mark.parametrize("name", SMALL)
def test_a_loader_is_measured_alone(trained, name, tmp_path, monkeypatch):
    monkeypatch.setattr("recipes.training.LOAD_SECONDS", 0.2)
    monkeypatch.setattr("recipes.training.run", None)
    out = tmp_path / "results.json"
    for loader in ("today", "forebay"):
        trained(name, "--no-network", "--loaders", loader, "--json", str(out))
        (result,) = json.loads(out.read_text())
        assert result["loader"] == loader and result["first_samples"] >= 16 and result["samples"] >= 16
        assert result["first_seconds"] > 0 and result["seconds"] >= 0.2 and result["cpu_seconds"] > 0 and result["memory_bytes"] >= 0


def test_a_first_epoch_has_set_up_in_it_and_what_follows_goes_on_epoch_after_epoch(monkeypatch):
    training, used, made, now = importlib.import_module("recipes.training"), [], [], [0.0]
    monkeypatch.setattr(training, "time", types.SimpleNamespace(perf_counter=lambda: now[0]))  # a machine that does nothing else

    def passes(seconds):
        now[0] += seconds

    class Batches:
        def __iter__(self):
            made.append(now[0])
            for size in (4, 4, 2):
                passes(0.01)
                yield {"x": range(size)}

    def make():
        passes(0.3)
        return Batches()

    result = training.paced("a", 0, make, 0.2, used.append)
    assert result.first_samples == 10 and result.first_seconds == pytest.approx(0.33) and result.seconds == pytest.approx(0.2, abs=0.011)
    assert result.samples == sum(len(batch["x"]) for batch in used) - 10 and len(result.next_seconds) == len(used) - 3 and len(made) == 8
    short = training.paced("a", 0, Batches, 0.005)  # the time is up before the first epoch is
    assert short.first_samples == short.samples == 4
    rounds = training.paced("a", 0, Batches, 0.005, together=2)  # of two workers, whose second batch comes with the first
    assert rounds.first_samples == 4 + 4 and rounds.samples == 2 + 4
    with pytest.raises(SystemExit, match="no batch"):
        training.paced("a", 0, list, 0.1)


def test_the_pace_of_evaluation_is_that_of_recordings(trained, tmp_path, monkeypatch):
    speed, generate = (importlib.import_module(f"recipes.leak.{name}") for name in ("evaluation_speed", "generate"))
    monkeypatch.setitem(generate.SCALES, "bench", SMALL["leak"])
    monkeypatch.setattr(speed, "RECORDINGS", 6)
    out, scored = tmp_path / "out.json", []
    monkeypatch.setattr(speed.evaluate.Scores, "add", lambda self, predict, batch, add=speed.evaluate.Scores.add: scored.append(add(self, predict, batch)))
    for way in speed.WAYS:
        for network in ([], ["--network"]):
            scored.clear()
            speed.main(["--data", str(tmp_path / "data"), "--seconds", "1", "--device", "cpu", "--alone", way, "--json", str(out), *network])
            (result,) = json.loads(out.read_text())
            assert result["first_samples"] == 6 and result["samples"] and bool(scored) == bool(network)
    with h5py.File(tmp_path / "data/val.h5") as file:
        assert file["segments_mel"].compression == "gzip" and len(file["labels"]) == 6


def test_what_limits_training_is_measured_with_any_loader(trained, tmp_path, capsys):
    folder = trained("leak", "--diagnose", "--loaders", "today", "forebay", "--seconds", "0.5")
    said = capsys.readouterr().out
    assert said.count("verdict") == 2 and "step alone" in said and str(folder / "diagnosis-today.html") in said
    for page, words in {"diagnosis-today.html": "step alone", "diagnosis-forebay.html": "step alone", "report-forebay.html": "budget"}.items():
        assert words in (text := (folder / page).read_text()) and text.lower().startswith("<!doctype html>")


def test_neither_side_of_hydrology_pays_for_the_other(trained, monkeypatch):
    folder = trained("hydrology", "--batches", "1", "--epochs", "1")
    module, training = sys.modules["recipes.hydrology.train"], sys.modules["recipes.training"]
    mean, std = module.splits(folder)[1].scales((module.TARGET, *module.columns(folder)[0]))
    args = training.arguments(module.RECIPE).parse_args(["--batch-size", "16"])

    def refuse(*_, **__):
        raise AssertionError("today's loader asked Forebay")

    module.splits.cache_clear()
    for name in ("open", "fit"):
        monkeypatch.setattr(module.fb, name, refuse)
    dataset = module.today(folder, args).dataset
    np.testing.assert_allclose(dataset.mean, mean, rtol=1e-5)
    np.testing.assert_allclose(dataset.std, std, rtol=1e-5)


def test_epochs_of_parts_of_basins_have_each_window_once(trained, tmp_path, monkeypatch):
    module, seen = importlib.import_module("recipes.hydrology.train"), []

    def noted(network, batch, predict=module.predict):
        if network.training:
            seen.append(list(zip(batch["gauge"].tolist(), batch["input_end_date"].tolist())))
        return predict(network, batch)

    monkeypatch.setattr(module, "predict", noted)
    common = ("--batch-size", "512", "--set", "part=1 file", "--points", "1")
    folder = trained("hydrology", *common, "--epochs", "1", "--batches", "1")
    seen.clear()
    n_basins = len(module.gauges(folder))
    trained("hydrology", *common, "--epochs", str(n_basins))
    outputs = {"gauge": fb.encode("gauge_id"), "end": fb.col("date").at(364)}
    with module.splits(folder)[0]["train"].loader(outputs, batch_size=512, framework="numpy") as loader:
        windows = [pair for batch in loader for pair in zip(batch["gauge"].tolist(), batch["end"].tolist())]
    assert sorted(pair for batch in seen for pair in batch) == sorted(windows) and len(set(windows)) == len(windows)
    basins = [{gauge for gauge, _ in batch} for batch in seen]
    assert n_basins > 1 and all(len(basin) == 1 for basin in basins)
    assert sum(a != b for a, b in zip(basins, basins[1:])) == n_basins - 1


def test_a_loader_that_begins_slowly_is_waited_for(trained, monkeypatch, tmp_path):
    class Slow(list):
        def __iter__(self):
            time.sleep(0.3)
            return super().__iter__()

    module, out = importlib.import_module("recipes.leak.train"), tmp_path / "results.json"
    today = module.RECIPE.loaders["today"]
    monkeypatch.setattr(module, "RECIPE", dataclasses.replace(module.RECIPE, loaders={"today": lambda folder, args: Slow(today(folder, args))}))
    trained("leak", "--today", "--epochs", "2", "--points", "1", "--json", str(out))
    result = importlib.import_module("recipes.contest").read(json.loads(out.read_text())[0])
    assert len(result.iter_seconds) == 2 and min(result.iter_seconds) >= 0.3
    assert 0.6 <= result.waited * result.seconds <= result.seconds


def test_cpu_and_memory_of_processes_below_are_counted():
    module = importlib.import_module("recipes.meter")
    script = "import time; kept = bytearray(64 << 20); end = time.process_time() + 0.5\nwhile time.process_time() < end: pass\ntime.sleep(60)"
    with module.Meter() as meter:
        child = subprocess.Popen([sys.executable, "-c", script])
        try:
            end = time.monotonic() + 30
            while module.cpu_seconds() - meter._cpu < 0.5 and time.monotonic() < end:
                time.sleep(0.05)
            assert child.pid in module.below()
        finally:
            child.kill()
            child.wait()
    assert 0.5 <= meter.cpu_seconds <= os.cpu_count() * meter.seconds + 0.1 and meter.memory_bytes >= 64 << 20


FIVE = list(SMALL)[:5]


@pytest.mark.parametrize("name", FIVE)
def test_gradients_of_two_batches_are_those_of_one_twice_as_large(name, trained, tmp_path):
    found = []
    for batch_size, batches, more in ((16, 4, ()), (8, 8, ("--accumulate", "2"))):
        out, size = tmp_path / "results.json", ("--batch-size", str(batch_size), "--batches", str(batches), "--epochs", "1")
        trained(name, *size, *more, "--set", "streams=1", "--points", "1", "--json", str(out))
        found.append(losses_of(out))
    whole, halves = found
    assert len(halves) == 2 * len(whole) == 8
    np.testing.assert_allclose(np.reshape(halves, (-1, 2)).mean(1), whole, rtol=1e-4)
    trained(name, "--batches", "4", "--epochs", "1", "--set", "streams=1", "--points", "1", "--learning-rate", "1e-12", "--json", str(out))
    assert not np.allclose(losses_of(out)[1:], whole[1:], rtol=1e-4)  # which come of what was learnt


@pytest.mark.parametrize("name", FIVE)
def test_mixed_precision_learns_what_single_does(name, trained, tmp_path):
    found = []
    for more in ((), ("--precision", "bf16-mixed")):
        trained(name, *more, "--epochs", "1", "--batches", "4", "--points", "1", "--json", str(tmp_path / "results.json"))
        found.append(losses_of(tmp_path / "results.json"))
    np.testing.assert_allclose(found[1], found[0], rtol=0.05)
    assert found[1] != found[0]


@pytest.mark.parametrize(("name", "accumulate"), [*[(name, 1) for name in SMALL], ("jets", 2), ("leak", 2)])
def test_a_run_goes_on_in_the_middle_of_an_epoch(trained, name, accumulate, tmp_path):
    whole, rest, kept = tmp_path / "whole.json", tmp_path / "rest.json", tmp_path / "checkpoints"
    common, steps = ("--epochs", "2", "--batches", "5", "--points", "1", "--accumulate", str(accumulate)), 4 // accumulate - 1
    trained(name, *common, "--json", str(whole), "--checkpoints", str(kept), "--checkpoint-every", str(steps))
    checkpoint = next(path for path in sorted(kept.iterdir()) if path.stem.endswith(f"step={steps}"))
    trained(name, *common, "--json", str(rest), "--resume", str(checkpoint))
    losses, done = [losses_of(path) for path in (whole, rest)], steps * accumulate
    assert len(losses[0]) == 10 and len(losses[1]) == 10 - done
    np.testing.assert_allclose(losses[1], losses[0][done:], rtol=1e-5)


@pytest.mark.parametrize("accumulate", [1, 2, 3])
def test_a_plain_loop_trains_as_lightning_does_and_goes_on_too(accumulate, trained, tmp_path):
    plain, out, kept = importlib.import_module("recipes.leak.plain").main, tmp_path / "out.json", tmp_path / "kept.pt"
    folder = trained("leak", "--epochs", "2", "--points", "1", "--accumulate", str(accumulate), "--json", str(out))
    common = ["--data", str(folder), "--device", "cpu", "--batch-size", "16", "--accumulate", str(accumulate)]
    whole = plain([*common, "--epochs", "2"])
    np.testing.assert_allclose(whole, losses_of(out), rtol=1e-4)
    epoch = len(whole) // 2
    assert len(whole) == 2 * epoch and epoch % 2 and epoch > 4
    plain([*common, "--epochs", "1", "--checkpoint", str(kept)])
    np.testing.assert_allclose(plain([*common, "--epochs", "2", "--checkpoint", str(kept)]), whole[epoch:], rtol=1e-4)
    assert plain([*common, "--epochs", "2", "--checkpoint", str(kept)]) == []  # it was over


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_plain_loop_that_was_stopped_goes_on_in_the_middle_of_an_epoch(accumulate, trained, tmp_path, monkeypatch):
    module, kept, seen = importlib.import_module("recipes.leak.plain"), tmp_path / "kept" / "state.pt", []
    common = ["--data", str(trained("leak", "--epochs", "1", "--points", "1")), "--device", "cpu", "--batch-size", "16", "--accumulate", str(accumulate)]
    whole, loss = module.main([*common, "--epochs", "3"]), module.train.loss
    epoch = len(whole) // 3

    def stopped(network, batch):
        seen.append(batch)
        if len(seen) == 2 * epoch - 1:
            raise KeyboardInterrupt
        return loss(network, batch)

    monkeypatch.setattr(module.train, "loss", stopped)
    with pytest.raises(KeyboardInterrupt):
        module.main([*common, "--epochs", "3", "--checkpoint", str(kept), "--checkpoint-every", "3"])
    monkeypatch.setattr(module.train, "loss", loss)
    rest = module.main([*common, "--epochs", "3", "--checkpoint", str(kept)])
    assert epoch % 2 and epoch < len(rest) < 2 * epoch
    np.testing.assert_allclose(rest, whole[-len(rest) :], rtol=1e-4)
    torch.save({"epoch": 1}, kept)
    with pytest.raises(SystemExit, match="plain.py: .* is not what --checkpoint kept"):
        module.main([*common, "--checkpoint", str(kept)])
    with pytest.raises(SystemExit, match="plain.py: BudgetError"):
        module.main([*common, "--memory", "1KiB"])
    half = module.main([*common, "--epochs", "1", "--half"])
    np.testing.assert_allclose(half, whole[:epoch], rtol=0.05)
    assert half != whole[:epoch]


def scored(*arguments):
    evaluation, samples = importlib.import_module("recipes.evaluation").scored(*arguments)
    assert samples
    return evaluation


@pytest.fixture(scope="module")
def evaluated(trained, tmp_path_factory):
    """evaluated("leak"): (the scores that training printed, the evaluation of its last checkpoint, the table that was written, run it again)."""
    done = {}

    def evaluate(name):
        if name not in done:
            kept = tmp_path_factory.mktemp("kept")
            folder = trained(name, "--epochs", "2", "--batches", "8", "--checkpoints", str(kept), "--json", str(kept / "out.json"))
            main = importlib.import_module("recipes.evaluation").main

            def again(*arguments, ways=None):
                return main(name, [str(kept / "end.ckpt"), "--data", str(folder), "--device", "cpu", "--batch-size", "16", *arguments], ways)

            again.checkpoint = kept / "end.ckpt"
            evaluation = again("--csv", str(kept / "table.csv"))
            with (kept / "table.csv").open() as file:
                done[name] = json.loads((kept / "out.json").read_text())[0]["scores"], evaluation, list(csv.DictReader(file)), again, folder
        return done[name]

    return evaluate


@pytest.mark.parametrize("name", SMALL)
def test_the_scores_of_a_checkpoint_are_those_of_training(evaluated, name):
    scores, evaluation, table, _, _ = evaluated(name)
    assert evaluation.scores == pytest.approx(scores, rel=1e-5)
    assert table and list(table[0]) == list(evaluation.table) and len(table) == len(next(iter(evaluation.table.values())))


def test_all_points_of_a_run_are_judged_on_the_same_drawn_batches(trained, tmp_path):
    out = tmp_path / "out.json"
    trained("leak", "--epochs", "1", "--points", "4", "--learning-rate", "1e-30", "--held-out-batches", "1", "--json", str(out))
    points = json.loads(out.read_text())[0]["points"]
    assert len(points) == 4 and len({point["loss"] for point in points}) == 1


def test_a_checkpoint_knows_its_data_and_its_recipe(evaluated, trained, tmp_path, capsys):
    _, evaluation, _, again, folder = evaluated("leak")
    main, checkpoint = importlib.import_module("recipes.evaluation").main, str(tmp_path / "end.ckpt")
    state = torch.load(again.checkpoint, weights_only=True)
    torch.save(state, checkpoint)
    assert state["recipe"] == {"name": "leak", "data": str(folder)}
    assert main("leak", [checkpoint, "--device", "cpu"]).scores == pytest.approx(evaluation.scores)
    with pytest.raises(SystemExit, match="is of the recipe 'leak', not 'jets': run the commands of recipes/leak"):
        main("jets", [checkpoint])
    torch.save({**state, "recipe": {"name": "leak", "data": str(tmp_path / "moved")}}, checkpoint)
    with pytest.raises(SystemExit):
        main("leak", [checkpoint, "--csv", str(tmp_path / "missing" / "table.csv")])
    with pytest.raises(SystemExit):
        main("leak", [checkpoint, "--batch-size", "0"])
    said = capsys.readouterr().err
    assert "there is no folder" in said and "argument --batch-size: '0' is not a number from 1 on" in said
    with pytest.raises(SystemExit, match="evaluate.py: memory='much' is not a size"):
        main("leak", [checkpoint, "--device", "cpu", "--data", str(folder), "--memory", "much"])
    for device, word in {"no-such": "'no-such' is no device", "gpu": "'gpu': PyTorch finds no GPU here"}.items():
        if device != "gpu" or not torch.cuda.is_available():
            with pytest.raises(SystemExit):
                main("leak", [checkpoint, "--device", device])
            assert word in capsys.readouterr().err
    torch.save({**state, "state_dict": {name: value[:1] for name, value in state["state_dict"].items()}}, checkpoint)
    with pytest.raises(SystemExit, match="the network that was kept is of other data than those of"):
        main("leak", [checkpoint])
    before = again.checkpoint.read_bytes()
    for epochs, said in {"2": "no batch was trained with", "1": "train.py: MisconfigurationException: .*max_epochs=1"}.items():
        with pytest.raises(SystemExit, match=said):
            trained("leak", "--epochs", epochs, "--batches", "8", "--resume", str(again.checkpoint), "--checkpoints", str(again.checkpoint.parent))
    assert again.checkpoint.read_bytes() == before  # what was not trained is not kept
    with pytest.raises(SystemExit, match="is of another network: --compile, or other data"):
        trained("leak", "--epochs", "3", "--batches", "8", "--resume", str(again.checkpoint), "--compile")
    torch.save({**state, "state_dict": {name: value[:1] for name, value in state["state_dict"].items()}}, checkpoint)
    with pytest.raises(SystemExit, match="is of another network: --compile, or other data"):
        trained("leak", "--epochs", "3", "--batches", "8", "--resume", checkpoint)
    torch.save({**state, "recipe": {"name": "leak", "data": str(tmp_path / "moved")}}, checkpoint)
    with pytest.raises(SystemExit, match="the data of .*moved are not there: name them with --data"):
        main("leak", [checkpoint])
    torch.save({"state_dict": state["state_dict"]}, checkpoint)
    with pytest.raises(SystemExit, match="does not say which data it was trained with: name them with --data"):
        main("leak", [checkpoint])
    assert main("leak", [checkpoint, "--device", "cpu", "--data", str(folder)]).scores == pytest.approx(evaluation.scores)


def test_recordings_are_judged_the_same_however_they_are_batched(evaluated, capsys, monkeypatch):
    _, evaluation, table, again, folder = evaluated("leak")
    module = importlib.import_module("recipes.leak.evaluate")
    with h5py.File(folder / "val.h5") as file:
        labels = file["labels"][()]
    assert [row["recording"] for row in table] == [str(i) for i in range(len(labels))]
    assert [row["label"] for row in table] == [importlib.import_module("recipes.leak.generate").LABELS[k] for k in labels]
    for way in ("packed", "today"):
        other = again("--way", way, "--torch-threads", "1", ways={"packed": module.packed, "today": module.today})
        assert f"\n{len(labels)} samples in " in capsys.readouterr().out
        assert other.table["recording"] == evaluation.table["recording"] and other.table["found"] == evaluation.table["found"]
        np.testing.assert_allclose(other.table["probability_of_leak"], evaluation.table["probability_of_leak"], rtol=1e-4)
    sizes, add = [], module.Scores.add
    monkeypatch.setattr(module.Scores, "add", lambda self, predict, batch: (sizes.append(len(batch["label"])), add(self, predict, batch)))
    importlib.import_module("recipes.evaluation").main("leak", [str(again.checkpoint), "--device", "cpu", "--batch-size", "4"], batch_size=16)
    assert len(labels) > 4 and sizes == [min(4, len(labels) - at) for at in range(0, len(labels), 4)]


def test_long_segments_vote_after_short_ones_are_averaged(tmp_path):
    module = importlib.import_module("recipes.leak.evaluate")
    with h5py.File(tmp_path / "val.h5", "w") as file:
        file.create_dataset("segments_mel", (1, 3, 2, 4, 1), "float16")
    # Two long segments where one short one is sure of a leak and the other undecided; one where both are sure that there is none.
    logits = torch.tensor([[9.0, 0, 0, 0], [0, 0.1, 0, 0], [9.0, 0, 0, 0], [0, 0.1, 0, 0], [0, 20.0, 0, 0], [0, 20.0, 0, 0]])
    batch = {"mel": torch.zeros(1, 6, 1, 4, 1), "label": torch.tensor([0]), "file": torch.tensor([7])}
    found = scored(module.Scores(tmp_path), lambda batch: logits, [batch])
    assert found.table["found"] == ["leak"] and found.table["recording"] == [7]
    assert found.table["votes_for_leak"] == pytest.approx([2 / 3]) and found.scores["recall"] == found.scores["precision"] == 1


def test_efficiency_of_a_basin_is_that_of_its_discharge(evaluated):
    _, _, table, _, folder = evaluated("hydrology")
    assert {row["gauge_id"] for row in table} <= set((folder / "gauges.txt").read_text().split())
    module = importlib.import_module("recipes.hydrology.evaluate")
    rng = np.random.default_rng(0)
    true, error, gauge = rng.gamma(2, 3, (40, 7)), rng.normal(0, 1, (40, 7)), np.repeat([0, 1], 20)

    class Moments:
        def inverse(self, values, column):
            assert column == "flow"
            return 2 * values + 5

    batch = {"y": torch.tensor((true - 5) / 2), "gauge": torch.tensor(gauge)}
    got = scored(module.Scores(Moments(), "flow", ["a", "b"]), lambda batch: batch["y"] + torch.tensor(error / 2), [batch])
    for k in range(2):
        t, f = true[gauge == k].ravel(), (true + error)[gauge == k].ravel()
        nse = 1 - ((f - t) ** 2).sum() / ((t - t.mean()) ** 2).sum()
        kge = 1 - np.sqrt((np.corrcoef(f, t)[0, 1] - 1) ** 2 + (f.std() / t.std() - 1) ** 2 + (f.mean() / t.mean() - 1) ** 2)
        assert (got.table["NSE"][k], got.table["KGE"][k]) == pytest.approx((nse, kge), rel=1e-5) and got.table["windows"][k] == 20


def test_the_angle_between_directions_is_known():
    module = importlib.import_module("recipes.neutrino.evaluate")
    targets = torch.tensor([[0.0, math.pi / 2], [1.0, 0.0]])  # x, and z
    found = torch.tensor([[0.0, 3.0, 0.0], [0.0, 0.0, 2.0]])
    got = scored(module.Scores(), lambda batch: found, [{"targets": targets, "event_ids": torch.tensor([5, 6])}])
    assert got.table["event_id"] == [5, 6] and got.table["degrees"] == pytest.approx([90, 0], abs=0.05)


def test_precision_and_recall_of_grams_are_counted():
    module = importlib.import_module("recipes.linkage.evaluate")
    labels, guess = torch.zeros(2, 1296), torch.full((2, 1296), -1.0)
    labels[:, 0], labels[0, 1], guess[0, 0], guess[0, 2] = 1, 1, 1, 1
    got = scored(module.Scores(), lambda batch: guess, [(None, labels, labels)])
    assert got.scores == {"f1": 2 / 5, "precision": 1 / 2, "recall": 1 / 3}
    assert (got.table["gram"][:2], got.table["recall"][:3], got.table["precision"][:3]) == (["aa", "ab"], [0.5, 0, 0], [1, 0, 0])


def test_area_under_the_curve_of_a_perfect_class_is_one():
    module = importlib.import_module("recipes.jets.evaluate")
    labels = torch.arange(40) % 10
    logits = torch.nn.functional.one_hot(labels, 10).float()
    got = scored(module.Scores(), lambda batch: logits, [{"labels": labels}])
    assert got.scores == {"auc": 1, "accuracy": 1} and got.table["events"] == [4] * 10 and got.table["auc"] == [1] * 10
