"""Training curves from logs."""

import numpy as np

from structviews.report.curves import POINTS, curves, draw_panel, panels, series_of
from structviews.runtime.pictures import COLOURS, NAMED, inline_svg


def line(kind, step, **values):
    return {"kind": kind, "step": step, "epoch": 0} | values


def test_a_log_becomes_curves_of_channels_and_of_the_run():
    lines = [
        line("train", 10, **{"fixed.loss": 5.0, "trained.loss": 4.0, "sentences_per_second": 100.0}),
        line("validation", 10, **{"fixed.loss": 5.5}),
        line("evaluation", 10, **{"STS14.pearson": 0.5}),
        line("train", 20, **{"fixed.loss": 3.0, "trained.loss": 2.0, "sentences_per_second": 300.0}),
    ]
    found = curves("a", lines)
    by_key = {(c.channel, c.kind, c.metric): (c.steps.tolist(), c.values.tolist()) for c in found}
    assert by_key == {
        ("fixed", "train", "loss"): ([10, 20], [5, 3]),
        ("trained", "train", "loss"): ([10, 20], [4, 2]),
        ("", "train", "sentences_per_second"): ([10, 20], [100, 300]),
        ("fixed", "validation", "loss"): ([10], [5.5]),
        ("", "evaluation", "STS14.pearson"): ([10], [0.5]),
    }
    assert [*panels(found).values()] == ["Loss", "Sentences per second", "STS14, pearson x 100"]
    series = series_of(found)
    assert [each.name for each in series] == ["a · fixed", "a · trained"]
    assert [[each.has(curve) for each in series] for curve in found[:3]] == [[True, False], [False, True], [True, True]]


def test_a_long_log_is_thinned_to_means():
    n = 2 * POINTS + 1
    (found,) = curves("a", [line("train", i, loss=i % 2) for i in range(n)])
    assert len(found.values) == 201
    np.testing.assert_allclose(found.steps[:2], [1, 4])
    np.testing.assert_allclose(found.values[:2], [1 / 3, 2 / 3])
    assert found.steps[-1] == n - 1


def test_a_panel_has_a_line_for_each_curve_in_the_colours_of_the_page():
    lines = [line("train", i, accuracy=0.1 * i, chance_accuracy=0.01, loss=1.0) for i in (1, 2)]
    found = curves("a", [*lines, line("validation", 2, accuracy=0.2)]) + curves("b", lines)
    series = series_of(found)
    svg = inline_svg(lambda: draw_panel(found, "accuracy", "Context accuracy", series), "accuracy <1>")
    assert svg.count('class="series s0"') == 3
    assert svg.count('class="series s1"') == 2
    assert 'aria-label="accuracy &lt;1&gt;"' in svg
    assert "stroke: var(--c0)" in svg
    assert "var(--ink)" in svg
    assert not any(colour in svg for colour in (*COLOURS, *NAMED))
    assert ">per cent</text>" in svg
