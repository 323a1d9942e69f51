"""Prepared products against plain ones in double precision, and memory that is used again."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from structviews.runtime.products import ROWS, Product, keep, prepared, reused, scratch

COUNTS = (0, 1, 15, 17, ROWS, 2 * ROWS + 50)


@pytest.fixture
def operands():
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(40, 24, generator=generator) * torch.linspace(0.01, 1, 40)[:, None]
    rows = torch.rand(max(COUNTS), 24, generator=generator) * 2 - 1
    return rows, weight, torch.randn(40, generator=generator)


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-5), ("bf16", 5e-2)])
@pytest.mark.parametrize("with_bias", [True, False])
def test_products_of_any_number_of_rows(operands, precision, tolerance, with_bias):
    rows, weight, bias = operands
    product = Product(weight, bias if with_bias else None, precision)
    together = product(rows)
    assert together.dtype == (torch.bfloat16 if precision == "bf16" else torch.float32)
    exact = rows.double() @ weight.double().T + (bias.double() if with_bias else 0)
    torch.testing.assert_close(together.double(), exact, rtol=1e-2, atol=tolerance)
    for n in COUNTS:  # a row does not depend on the others
        assert torch.equal(product(rows[:n]), together[:n])


def test_double_precision_stays_double(operands):
    rows, weight, bias = (operand.double() for operand in operands)
    torch.testing.assert_close(Product(weight, bias)(rows), rows @ weight.T + bias, rtol=0, atol=1e-12)


def test_inputs_may_be_narrower_or_a_part_of_a_wider_tensor(operands):
    rows, weight, bias = operands
    wide = torch.cat([rows, rows], dim=1)
    assert torch.equal(Product(weight, bias)(wide[:, :24]), Product(weight, bias)(rows))
    halves = rows.bfloat16()
    product = Product(weight, bias)
    assert torch.equal(product(halves), product(halves.float()))


def test_any_change_of_a_weight_prepares_again():
    model = torch.nn.Sequential(torch.nn.Linear(30, 2), torch.nn.Sequential(torch.nn.Linear(2, 2, bias=False)))
    outer, inner = model[0], model[1][0]
    made = []

    def is_prepared(how="fp32"):
        before = len(made)
        prepared(model, how, lambda: made.append(0))
        return len(made) == before

    def replace_numbers():
        inner.weight.data = inner.weight.data.clone()

    def change_numbers():
        inner.weight.data.T[0, 1] += 1  # counted by nobody, as by a fused optimiser

    def change_one():
        with torch.no_grad():
            outer.weight[1, 1] += 1  # not one of the numbers that are compared

    def step():
        model(torch.ones(1, 30)).sum().backward()
        torch.optim.Adam(model.parameters(), lr=1e-4, fused=True).step()  # which counts no changes

    def transpose():
        inner.weight.data = inner.weight.data.T

    def replace_weight():
        inner.weight = torch.nn.Parameter(inner.weight.detach()[:1])

    def replace_part():
        model[1][0] = torch.nn.Linear(2, 2, bias=False)

    changes = (step, change_one, replace_numbers, change_numbers, transpose, change_numbers, replace_weight)
    for change in (*changes, model.double, replace_part):
        is_prepared()
        assert is_prepared()
        change()
        assert not is_prepared(), change
    is_prepared()
    assert not is_prepared("bf16")
    assert is_prepared("bf16")


LIKE = torch.empty(1)


def test_a_buffer_is_used_again_within_the_outer_block():
    with reused():
        first = scratch("a", 4, 5, LIKE)
        with reused():
            smaller = scratch("a", 3, 6, LIKE)
        assert smaller.shape == (3, 6)
        assert smaller.data_ptr() == scratch("a", 4, 5, LIKE).data_ptr() == first.data_ptr()
        assert scratch("a", 100, 5, LIKE).shape == (100, 5)
    one, two = scratch("a", 2, 2, LIKE), scratch("a", 2, 2, LIKE)
    assert one.data_ptr() != two.data_ptr()


def test_names_dtypes_and_threads_have_buffers_of_their_own():
    with reused():
        tensors = [scratch("a", 2, 2, LIKE), scratch("b", 2, 2, LIKE), scratch("a", 2, 2, LIKE.double())]

        def other():
            keep()
            first = scratch("a", 2, 2, LIKE)
            with reused():
                pass
            keep()  # once more changes nothing
            return first, scratch("a", 2, 2, LIKE)

        with ThreadPoolExecutor(1) as thread:
            tensors += thread.submit(other).result()
        assert tensors[2].dtype == torch.float64
    for number, tensor in enumerate(tensors):
        tensor.fill_(number)
    assert [tensor.unique().tolist() for tensor in tensors] == [[0], [1], [2], [4], [4]]
