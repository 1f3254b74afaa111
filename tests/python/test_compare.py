"""forebay.compare: speeds over seeds, and whether the losses are the same, by a test that is checked against tables."""

import json
import math
import random
import re
import time

import pytest

import forebay as fb
from forebay import _compare


@pytest.mark.parametrize(
    ("t", "degrees", "expected"),
    # Student's t: critical values as every table has them
    [(6.3138, 1, 0.95), (2.0150, 5, 0.95), (2.5706, 5, 0.975), (1.8125, 10, 0.95), (3.1693, 10, 0.995), (1.6449, 1e6, 0.95), (0, 3, 0.5)],
)
def test_students_t_is_that_of_the_tables(t, degrees, expected):
    assert _compare.t_cdf(t, degrees) == pytest.approx(expected, abs=2e-5)
    assert _compare.t_cdf(-t, degrees) == pytest.approx(1 - expected, abs=2e-5)
    assert _compare.t_cdf(math.inf, degrees) == 1 and _compare.t_cdf(-math.inf, degrees) == 0


def test_welch_is_that_of_a_worked_example():
    a = [27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4]
    b = [27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 30.5, 24.4]
    t, degrees = _compare.welch(a, b)
    va, vb = 2.6829**2, 2.5604**2
    assert degrees == pytest.approx((va / 15 + vb / 15) ** 2 / ((va / 15) ** 2 / 14 + (vb / 15) ** 2 / 14), rel=0.2) and t < -2
    scipy = pytest.importorskip("scipy.stats")
    expected = scipy.ttest_ind(a, b, equal_var=False)
    assert t == pytest.approx(expected.statistic) and 2 * (1 - _compare.t_cdf(abs(t), degrees)) == pytest.approx(expected.pvalue, rel=1e-6)


def run(way, seed):
    offset, spread, sleep = way
    noise = random.Random(seed * 7 + offset * 1000)
    for step in range(5):
        time.sleep(sleep)
        yield 1 / (step + 1) + offset + spread * noise.gauss(0, 1)


def test_the_same_and_faster():
    found = fb.compare(run, {"today": (0, 0.001, 0.02), "forebay": (0, 0.001, 0.001)}, seeds=5)
    assert found.same == {"forebay": True} and found.equivalent["forebay"] < 0.05
    assert found.speedup["today"] == 1 and found.speedup["forebay"] > 3
    assert len(found.runs["today"].losses) == 5 and len(found.curve("today")) == 5
    mean, deviation = found.curve("forebay")[-1]
    assert mean == pytest.approx(0.2, abs=0.01) and deviation >= 0
    assert "forebay learns the same" in str(found) and "two one-sided tests" in str(found) and "<pre>" in found._repr_html_()
    assert json.loads(found.to_json())["curves"]["today"][0][0] == pytest.approx(1, abs=0.01)


def test_a_way_that_learns_worse_is_found():
    found = fb.compare(run, {"today": (0, 0.001, 0), "worse": (0.1, 0.001, 0), "alike": (0, 0.001, 0)}, seeds=5)
    assert found.same == {"worse": False, "alike": True}
    assert found.different["worse"] < 0.001 and "worse does not learn the same" in str(found)


def test_a_spread_that_hides_everything_is_said():
    found = fb.compare(run, {"a": (0, 0.5, 0), "b": (0.05, 0.5, 0)}, seeds=3, margin=0.01)
    assert found.same == {"b": None} and "too few seeds" in str(found)


def test_how_many_seeds_would_tell_is_said():
    def alike(way, seed):
        return [1 + 0.1 * (-1) ** seed]  # a spread of 10 %, which is then the margin

    found = fb.compare(alike, {"a": 1, "b": 1}, seeds=5)
    (enough,) = re.findall(r"seeds=(\d+) would", str(found))
    assert found.same == {"b": None} and 5 < int(enough) < 10
    assert fb.compare(alike, {"a": 1, "b": 1}, seeds=int(enough)).same == {"b": True}
    hopeless = fb.compare(alike, {"a": 1, "b": 1}, seeds=5, margin=1e-6)
    assert hopeless.same == {"b": None} and "would" not in str(hopeless)


def test_losses_without_any_spread():
    constant = fb.compare(lambda way, seed: [way], {"a": 1.0, "b": 1.0, "c": 2.0}, seeds=2)
    assert constant.same == {"b": True, "c": False}
    nothing = fb.compare(lambda way, seed: [0.0], {"a": 1, "b": 2}, seeds=2)  # whose margin is nothing, either
    assert nothing.same == {"b": None} and "b" in str(nothing)


def test_what_cannot_be_compared_is_refused():
    for ways in ([1, 2], 3):
        with pytest.raises(TypeError, match="a function and a dict of what it is called with"):
            fb.compare(run, ways)
    for result in (None, 0.5):
        with pytest.raises(TypeError, match=rf"the run 'a' gave {result}: make_run returns or yields the losses of its steps"):
            fb.compare(lambda way, seed: result, {"a": 1, "b": 1})  # noqa: B023
    with pytest.raises(ValueError, match="two ways"):
        fb.compare(run, {"a": 1})
    with pytest.raises(ValueError, match="seeds"):
        fb.compare(run, {"a": 1, "b": 1}, seeds=1)
    with pytest.raises(ValueError, match="margin"):
        fb.compare(run, {"a": 1, "b": 1}, margin=0)
    with pytest.raises(ValueError, match="'b' with seed 0 gave no loss"):
        fb.compare(lambda way, seed: way, {"a": [1], "b": []})
    with pytest.raises(ValueError, match="nan as its last loss"):
        fb.compare(lambda way, seed: way, {"a": [1], "b": [1, math.nan]})
