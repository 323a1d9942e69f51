"""SimCSE beside its formula."""

import math

import pytest
import torch
from components import create_objective
from torch import nn

from structviews.objectives.objective import Context, Inputs

DIM = 4


def formula(first, second, temperature):
    """Gao et al. 2021, equation 4, in loops: the mean over sentences of -log of the softmax of cosines."""
    total = 0.0
    for i, vector in enumerate(first):
        cosines = [nn.functional.cosine_similarity(vector, other, dim=0) for other in second]
        scores = [math.exp(cosine.item() / temperature) for cosine in cosines]
        total -= math.log(scores[i] / sum(scores))
    return total / len(first)


@pytest.mark.parametrize("head", [False, True])
@pytest.mark.parametrize("temperature", [0.05, 1.0])
def test_the_loss_is_the_paper_s(head, temperature):
    inputs = Inputs(("transformer",), (DIM,))
    objective = create_objective("simcse", inputs, head=head, temperature=temperature).double()
    first, second = torch.randn(2, 5, DIM, dtype=torch.float64).unbind()
    loss, metrics = objective([first, second], Context(torch.full((5, 2), -1)))
    if head:
        layer = objective.head[0]
        assert not layer.bias.any()
        first, second = (torch.tanh(vectors @ layer.weight.T) for vectors in (first, second))
    assert loss.item() == pytest.approx(formula(first, second, temperature))
    units = [nn.functional.normalize(each.detach(), dim=1) for each in (first, second)]
    hits = [max(range(5), key=lambda j, i=i: float(units[0][i] @ units[1][j])) == i for i in range(5)]
    assert float(metrics["accuracy"]) == pytest.approx(sum(hits) / 5)
    assert float(metrics["chance_accuracy"]) == pytest.approx(1 / 5)
