"""What generate.py plants in the recipes' data is learnt: the loss on held-out data falls below that of the best constant prediction, today's loader and
Forebay's end at the same score by Welch's t over seeds, and an order that is not mixed across files trains worse where it should."""

import dataclasses
import importlib
import math
import re

import pytest

import training_cases  # noqa: F401

SEEDS = 3


@dataclasses.dataclass(frozen=True)
class Case:
    """sizes: of the data. share: of the best constant's loss, which every run is below. score: the first one, which every run reaches."""

    sizes: dict
    arguments: tuple
    share: float
    score: float


CASES = {
    "hydrology": Case(dict(basins=5, years=(7.0, 7.5), forcings=2, attributes=4), ("--epochs", "2", "--batch-size", "64", "--batches", "16"), 0.9, 0.1),
    "neutrino": Case(dict(files=4, events=180, longest=150, row_group=20_000, drift=0.9), ("--epochs", "3", "--batch-size", "16"), 0.5, 0.8),
    "linkage": Case(dict(rows=1_500, bits=1024), ("--epochs", "6", "--batch-size", "32"), 0.6, 0.5),
    "jets": Case(dict(files=4, events=384, particles=16, features=9, chunk=128), ("--epochs", "4", "--batch-size", "24"), 0.97, 0.65),
    "leak": Case(dict(files=96, long=5, short=3), ("--epochs", "3", "--batch-size", "64"), 0.9, 0.75),
}


pytestmark = pytest.mark.usefixtures("one_torch_thread")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """runs("jets", "today"): results over seeds, all in this process."""
    folders, done = {}, {}

    def train(name, loader):
        module, training = (importlib.import_module(of) for of in (f"recipes.{name}.train", "recipes.training"))
        generate, case = importlib.import_module(f"recipes.{name}.generate").generate, CASES[name]
        if name not in folders:
            folders[name] = tmp_path_factory.mktemp(name)
            generate(folders[name], **case.sizes)
            if name == "linkage":
                for seed, part in enumerate(("val", "test"), 1):
                    generate(folders[name] / module.FOLDERS[part], **{**case.sizes, "rows": 200}, seed=seed)
        if (name, loader) not in done:
            args, folder, _ = training.prepare(module.RECIPE, ["--data", str(folders[name]), "--device", "cpu", "--points", "1", *case.arguments])
            done[name, loader] = [training.run(module.RECIPE, folder, args, loader, seed) for seed in range(SEEDS)]
        return done[name, loader]

    return train


def scores_of(results):
    return [next(iter(result.scores.values())) for result in results]


@pytest.mark.parametrize("name", CASES)
def test_what_is_planted_is_learnt_the_same_with_either_loader(runs, name):
    recipe, case = importlib.import_module(f"recipes.{name}.train").RECIPE, CASES[name]
    found = [runs(name, loader) for loader in ("forebay", recipe.equal_to[0])]
    for result in [*found[0], *found[1]]:
        share, (score,) = result.loss / result.constant, scores_of([result])
        assert share < case.share, f"{result.loader}, seed {result.seed}: {share:.1%} of the loss of the best constant"
        better = score - case.score if recipe.target > recipe.chance else case.score - score
        assert better > 0, f"{result.loader}, seed {result.seed}: a score of {score}"
    same, words, _ = importlib.import_module("recipes.contest").compared(*map(scores_of, found))
    assert same == "same", words


def test_events_that_are_not_mixed_across_files_are_learnt_worse(runs):
    found = [runs("neutrino", loader) for loader in ("forebay", "forebay-in-order")]
    said, words, _ = importlib.import_module("recipes.contest").compared(*map(scores_of, found))
    assert said == "less", words


def result(loader, seed, score, **values):
    training = importlib.import_module("recipes.training")
    of = dict(
        curve=[(1.0, 10, 2.0)], points=[], scores={"auc": score}, test_scores={"auc": score}, loss=1.0, constant=2.0, setup_seconds=0.5, seconds=10.0,
        samples=1_000, iter_seconds=[], next_seconds=[1.0, 0.002, 0.004], cpu_seconds=4.0, metered_seconds=8.0, memory_bytes=2**20, target_seconds=3.0,
    )  # fmt: skip
    return training.Result(loader=loader, seed=seed, **{**of, **values})


def said_of(*results):
    recipe = dataclasses.replace(importlib.import_module("recipes.jets.train").RECIPE, target=0.75)
    return "\n".join(importlib.import_module("recipes.contest").verdict(recipe, list(results)))


def test_the_cost_of_shuffling_is_that_of_pairs_of_runs():
    contest, training = (importlib.import_module(f"recipes.{name}") for name in ("contest", "training"))
    runs = [result("forebay", s, 0.8, seconds=10.0 + s) for s in range(4)] + [result("forebay-in-order", s, 0.8, seconds=0.9 * (10 + s)) for s in range(4)]
    words = "Samples/s when shuffled, beside the files' order: -10.0 % in training (95 % interval -10.0 to -10.0 %, 4 pairs of runs)."
    assert contest.cost_of_order(runs) == words
    alone = [training.Loading(r.loader, r.seed, 2 * r.seconds, r.samples, r.seconds, r.samples, [], 1.0, 2.0, 1) for r in runs]
    alone[0] = dataclasses.replace(alone[0], seconds=20.0)
    words = r".*: -10\.0 % in the first epoch \(.*\); -2\d\.\d % after it \(95 % interval -\d+\.\d to \+\d+\.\d %, 4 pairs of runs\)\."
    assert re.fullmatch(words, contest.cost_of_order(alone))


def test_the_verdict_says_what_the_table_does():
    same = [result("today", s, 0.80 + s / 100, target_seconds=12.0, seconds=40.0) for s in range(3)]
    same += [result("forebay", s, 0.805 + s / 100) for s in range(3)]
    said = said_of(*same)
    assert "auc 0.75 after 3.0 s, today after 12.0 s: 4.0 times as fast" in said and "4.00 times the samples/s" in said
    assert "no difference beyond the spread, 0.028 at most; the means differ" in said
    assert "not known; one seed each" in said_of(same[0], same[3])
    assert "DIFFERENT" in said_of(*same[:3], *[result("forebay", s, math.nan) for s in range(3)])
    assert "1.0000 with today, 1.0000 with forebay; 2.0000 of the best constant" in said
    many = [result(loader, s, 0.80 + s % 2 / 1000) for loader in ("today", "forebay") for s in range(9)]
    assert "no difference beyond the spread, 0.00053 at most; the means differ by +0.0000" in said_of(*many)
    worse = [dataclasses.replace(of, scores={"auc": of.scores["auc"] - 0.3}) if of.loader == "forebay" else of for of in same]
    assert "DIFFERENT" in said_of(*worse)
    never = [dataclasses.replace(of, target_seconds=None) if of.loader == "today" else of for of in same]
    assert "reached by Forebay alone" in said_of(*never)
    assert "NOTHING is learnt" in said_of(result("forebay", 0, 0.5, loss=2.1))
    assert "(not below it; the target is reached)" in said_of(result("forebay", 0, 0.8, loss=2.1))
    without, jets = importlib.import_module("recipes.contest").without_learning, importlib.import_module("recipes.jets.train").RECIPE
    assert without(jets, same) == [] and without(jets, [*same, result("expert", 0, 0.5, loss=2.1)]) == ["expert"]
    assert without(jets, [*same, result("expert", 0, 0.9, loss=math.nan)]) == ["expert"]
    experts = [result("expert", s, 0.81 + s / 100, seconds=20.0, cpu_seconds=8.0) for s in range(3)]
    said = said_of(*same, *experts)
    assert "beside expert 2.00 times the samples/s, 0.50 of the CPU time a sample" in said and "auc with Forebay and expert: no difference" in said
    fewer = [dataclasses.replace(of, samples=900) for of in experts]
    assert "not compared: expert had seen 90.0% of the samples" in said_of(*same, *fewer)
    ordered = [of for of in same if of.loader == "forebay"] + [result("forebay-in-order", s, 0.6 + s / 100) for s in range(3)]
    assert "shuffling is better" in said_of(*ordered)
    assert "shuffling is WORSE" in said_of(*[dataclasses.replace(of, scores={"auc": 1 - of.scores["auc"]}) for of in ordered])


def test_the_table_has_medians_over_seeds_with_their_spread():
    contest = importlib.import_module("recipes.contest")
    runs = [
        result("today", s, 0.8, seconds=seconds, metered_seconds=seconds + 0.5, target_seconds=reached)
        for s, (seconds, reached) in enumerate([(10.0, None), (20.0, 5.0), (50.0, None)])
    ]
    head, row = contest.cells(runs)
    cells = dict(zip(head, row))
    assert cells["samples/s"] == "50 ±40" and cells["to target"] == "not reached" and cells["next p50"] == "3.00 ±0.00 ms"
    assert cells["auc"] == "0.8000 ±0.0000" and cells["waiting"] == "5.0% ±4.0%" and cells["memory"] == "1 ±0 MiB"
    assert cells["CPU"] == "0.20 ±0.15 cores"  # 4 s of CPU in 10.5, 20.5 and 50.5 s
    reached = [dataclasses.replace(of, target_seconds=seconds) for of, seconds in zip(runs, (4.0, None, 5.0))]
    assert dict(zip(*contest.cells(reached)))["to target"] == "5.0 ±0.5 s (2 of 3)"
    assert dict(zip(*contest.cells(runs[:1])))["samples/s"] == "100"
    assert contest.markdown(runs).splitlines()[1].startswith("| --- | ---: |")
    assert contest.table(runs).splitlines()[2].startswith("today")


def test_the_table_of_loaders_alone_has_forebays_ratio_beside_each_rate():
    contest, training = (importlib.import_module(f"recipes.{name}") for name in ("contest", "training"))
    runs = [
        training.Loading(loader, seed, 2.0, samples, 1.0 + seed, 10 * samples, [0.1, 0.003, 0.003], 6.0, 3.0 + seed, 1 << 20)
        for seed in range(2)
        for loader, samples in (("today", 4), ("forebay", 40_000))
    ]
    head, today, forebay = contest.cells(runs)
    assert head == ["loader", "samples/s, first epoch", "Forebay gives", "samples/s, then", "Forebay gives", "next p50", "next p99", "CPU", "memory"]
    assert today == ["today", "2 ±0", "10,000.0 ×", "30 ±10", "10,000.0 ×", "3.00 ±0.00 ms", "3.0 ±0.0 ms", "1.75 ±0.25 cores", "1 ±0 MiB"]
    assert forebay[1:5] == ["20,000 ±0", "", "300,000 ±100,000", ""]
    assert "Forebay gives" not in contest.cells(runs[:1])[0]


@pytest.mark.parametrize(("freedom", "value"), [(1, 12.706), (4, 2.776), (10, 2.228), (1e4, 1.960)])
def test_quantiles_of_students_t(freedom, value):
    assert importlib.import_module("recipes.contest").quantile(0.975, freedom) == pytest.approx(value, abs=2e-3)


def test_seeds_with_unlike_spreads_are_compared_by_welch():
    contest = importlib.import_module("recipes.contest")
    by, half = contest.difference([1.0, 2.0, 3.0], [4.0, 4.5, 5.0])
    assert by == pytest.approx(-2.5) and half == pytest.approx(2.082, abs=0.01)  # t(0.975, 2.94) = 3.22, standard error 0.6455
    assert contest.compared([1.0], [2.0, 3.0])[0] == "unknown"
    assert contest.compared([1.0, 1.0], [1.0, 1.0])[0] == "same"
