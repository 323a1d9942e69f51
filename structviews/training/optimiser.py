"""Adam that updates only the rows of a word table used in a step, and matching gradient clipping."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam


class LazyAdam(torch.optim.Adam):
    """Adam (Kingma and Ba 2015), lazy where a gradient is sparse.

    For a sparse gradient, only the rows in it are read and written; the others keep their values and moments, which do
    not decay, as in ``torch.optim.SparseAdam``. The bias correction counts the steps of the whole parameter, not the
    updates of a row. So a row that occurs in every step learns as with Adam; a rarer row moves only when it occurs,
    while Adam's old moments would keep moving it.

    The state has the names and shapes of ``torch.optim.Adam``. No step synchronises with the device. Make it with
    ``fused=True``: then ``load_state_dict`` puts the step counts on the device that the fused kernel expects.
    """

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]  # takes no closure
        """Update the parameters that have a gradient."""
        for group in self.param_groups:
            gradients, steps, moving, copies = [], [], [], []
            for parameter in group["params"]:
                if (gradient := parameter.grad) is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["step"] = torch.zeros((), dtype=torch.float32, device=parameter.device)
                    state["exp_avg"] = torch.zeros_like(parameter)
                    state["exp_avg_sq"] = torch.zeros_like(parameter)
                whole = (parameter, state["exp_avg"], state["exp_avg_sq"])
                if gradient.is_sparse:  # a copy of its rows is updated
                    gradient = gradient.coalesce()
                    rows = gradient.indices()[0]
                    copied = tuple(tensor.index_select(0, rows) for tensor in whole)
                    copies.append((whole, rows, copied))
                    moving.append(copied)
                    gradients.append(gradient.values())
                else:
                    moving.append(whole)
                    gradients.append(gradient)
                steps.append(state["step"])
            parameters, averages, squares = ([tensors[i] for tensors in moving] for i in range(3))
            (beta1, beta2), lr, eps = group["betas"], group["lr"], group["eps"]
            fixed: dict[str, Any] = {"fused": True, "amsgrad": False, "weight_decay": 0.0, "maximize": False}
            adam(parameters, gradients, averages, squares, [], steps, beta1=beta1, beta2=beta2, lr=lr, eps=eps, **fixed)
            for whole, rows, copied in copies:
                for tensor, moved in zip(whole, copied, strict=True):
                    tensor.index_copy_(0, rows, moved)


def merge_rows(gradient: Tensor, rows: Tensor) -> Tensor:
    """Coalesce a sparse gradient ``(n, dim)`` to ``rows (U,)``, ascending, which contain all of its own.

    Unlike ``coalesce``, which has to find the rows, this does not synchronise with the device.
    """
    values = gradient._values()
    positions = torch.searchsorted(rows, gradient._indices()[0])
    merged = values.new_zeros(len(rows), values.shape[1]).index_add_(0, positions, values)
    return torch.sparse_coo_tensor(rows[None], merged, gradient.shape, check_invariants=False, is_coalesced=True)


def clip_gradients(parameters: Iterable[Tensor], largest: float) -> None:
    """Scale gradients so that their total norm is at most ``largest``.

    Like ``torch.nn.utils.clip_grad_norm_``, but works on the rows of sparse gradients, without a dense copy, and does
    not synchronise with the device.
    """
    values = []
    for parameter in parameters:
        if parameter.grad is not None and parameter.grad.is_sparse:
            parameter.grad = parameter.grad.coalesce()
            values.append(parameter.grad.values())
        elif parameter.grad is not None:
            values.append(parameter.grad)
    if values:
        norm = torch.nn.utils.get_total_norm(values, foreach=True)
        torch._foreach_mul_(values, (largest / (norm + 1e-6)).clamp(max=1.0))
