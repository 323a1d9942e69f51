"""The published means of several tasks, over our scores."""

from structviews.recipes.outcome import _means


def test_a_published_mean_is_over_the_main_score_of_every_task_or_is_left_out():
    ours = {"STS12 mean": 60.0, "SICK14 pearson": 70.0, "MRPC f1": 84.0, "MRPC accuracy": 76.0, "MR accuracy": 81.0}
    several = "STS12, SICK14 mean"
    assert _means([several, "MR, MRPC mean", "STS12 mean", "MR, CR mean", "dim"], ours) == {
        several: ["STS12 mean", "SICK14 pearson"],
        "MR, MRPC mean": ["MR accuracy", "MRPC accuracy"],
    }
