"""The steps of Tree-GRUs between the matrix products of a level, forward and backward, in plain PyTorch on any device.

With ``tanh(x) = 1 - 2 sigmoid(-2x)`` one pass over memory computes all gates, as in ``steps``: the weights of the
candidate ``n`` are scaled by -2 before the products.

    h = z b + (1 - z) n         where b is the sum of the children's states, or zero for a leaf

Gates are in the order n, z, r. Inputs and outputs of matrix products may be stored in half precision; states and all
arithmetic have at least single precision.

Shapes: M nodes of a level, or all leaves; R rows of a batch; H hidden size.
"""

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from structviews.kernels.steps import FOLD, blocks, room_for

_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
_tanh_backward = torch.ops.aten.tanh_backward.grad_input


def advance(n: Tensor, z: Tensor, before: Tensor | None, h: Tensor) -> None:
    """States ``(M, H)`` from sigmoids.

    Args:
        n: of the candidate's pre-activation, which is scaled by -2; overwritten with the candidate.
        z: of the update gate's.
        before: sums of the children's states; None for leaves.
        h: receives the states.
    """
    torch.add(n.new_ones(()), n, alpha=-2, out=n)
    if before is None:
        torch.addcmul(n, n, z, value=-1, out=h)
    else:
        torch.lerp(n, before, z, out=h)


def open_gates(gates: Tensor, before: Tensor | None, h: Tensor) -> None:
    """States from pre-activations.

    Args:
        gates: ``(M, 2H)`` pre-activations of n and z; overwritten with n and z.
        before, h: as in ``advance``.
    """
    for rows in blocks(*h.shape):
        stored = gates[rows]
        active = stored.to(h.dtype).sigmoid_()
        n, z = active.chunk(2, dim=1)
        advance(n, z, None if before is None else before[rows], h[rows])
        stored.copy_(active)  # no-op if `active` is `stored` itself


def close_gates(gates: Tensor, before: Tensor | None, d_h: Tensor, d_gates: Tensor) -> None:
    """The backward pass of ``open_gates``.

    Args:
        gates: ``(M, 2H)`` n and z.
        before: as in ``advance``.
        d_h: ``(M, H)`` gradient of the states; overwritten with that of ``before``.
        d_gates: ``(M, 2H)`` receives the gradient of the pre-activations.
    """
    for rows in blocks(*d_h.shape):
        stored, d = d_gates[rows], d_h[rows]
        d_active = room_for(stored, d.dtype)
        n, z = gates[rows].to(d.dtype).chunk(2, dim=1)
        d_n, d_z = d_active.chunk(2, dim=1)
        # h = n + z (b - n), and the pre-activation of n is scaled by FOLD.
        if before is None:
            torch.neg(n, out=d_z)
        else:
            torch.sub(before[rows], n, out=d_z)
        _sigmoid_backward(d_z.mul_(d), z, grad_input=d_z)
        _tanh_backward(torch.addcmul(d, d, z, value=-1, out=d_n), n, grad_input=d_n).div_(FOLD)
        d.mul_(z)
        stored.copy_(d_active)


def reset_pairs(children: Tensor, sent: Tensor, states: Tensor, gates: Tensor, reset: Tensor, total: Tensor) -> None:
    """Gates z and r of the parents of pairs, and what they let through.

    Args:
        children: ``(M, 2)`` rows of the left and the right children.
        sent: ``(R, 2H)`` what nodes send; the sum over both children is the pre-activation of z and r.
        states: ``(R, H)`` states.
        gates: ``(M, 2H)`` receives the pre-activation of z and the activation of r.
        reset: ``(M, 2H)`` receives the children's states, left and right, times r.
        total: ``(M, H)`` receives the sums of the children's states.
    """
    size = states.shape[1]
    for rows in blocks(*total.shape):
        left, right = (states.index_select(0, side) for side in children[rows].unbind(1))
        # The fastest way to gather and add rows.
        stored, active = gates[rows], embedding_bag(children[rows], sent, mode="sum").to(states.dtype)
        r = active[:, size:].sigmoid_()
        torch.add(left, right, out=total[rows])
        reset[rows, :size] = left.mul_(r)
        reset[rows, size:] = right.mul_(r)
        stored.copy_(active)


def reset_pairs_backward(
    children: Tensor, states: Tensor, r: Tensor, d_reset: Tensor, d_total: Tensor, d_r: Tensor, below: Tensor
) -> None:
    """The backward pass of ``reset_pairs``, without that of the products that nodes send.

    Args:
        children, states: as in ``reset_pairs``.
        r: ``(M, H)`` activations of r.
        d_reset: ``(M, 2H)`` gradient of ``reset``.
        d_total: ``(M, H)`` gradient of ``total``.
        d_r: ``(M, H)`` receives the gradient of the pre-activation of r.
        below: ``(M, 2, H)`` receives the gradient of the children's states.
    """
    for rows in blocks(*d_total.shape):
        opened, d_sides = r[rows].to(states.dtype), d_reset[rows].to(states.dtype).chunk(2, dim=1)
        d_opened = torch.zeros_like(opened)
        for side, d_side in enumerate(d_sides):
            d_opened.addcmul_(d_side, states.index_select(0, children[rows, side]))
            torch.addcmul(d_total[rows], d_side, opened, out=below[rows, side])
        d_r[rows] = _sigmoid_backward(d_opened, opened, grad_input=d_opened)


def add_product(total: Tensor, rows: Tensor, weight: Tensor) -> None:
    """Add ``rows @ weight`` to ``total``, which may have more precision."""
    if total.dtype == rows.dtype:
        total.addmm_(rows, weight)
    else:
        total.add_(torch.mm(rows, weight))
