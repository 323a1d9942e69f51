"""Compiles the kernels of ``fused`` for a Hopper GPU, which need not be there, and prints their names.

``test_fused`` runs it in a process of its own, in which Triton does not interpret.
"""

import torch
import triton
from test_cells import make
from torch import Tensor
from trees_for_tests import WORD, star
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from structviews.kernels import dispatch, fused, steps

TYPES = {torch.float64: "*fp64", torch.float32: "*fp32", torch.bfloat16: "*bf16", torch.int64: "*i64"}


class Compiled:
    """Stands in for a kernel: compiles it for the arguments of each launch, and launches nothing."""

    def __init__(self, kernel):
        self.kernel = kernel

    def __getitem__(self, grid):
        return self.launch

    def launch(self, *arguments, num_warps=4, **constants):
        given = dict(zip(self.kernel.arg_names, arguments, strict=False)) | constants
        fixed = {p.name: given[p.name] for p in self.kernel.params if p.is_constexpr or given[p.name] is None}
        signature = {name: "constexpr" if name in fixed else type_of(given[name]) for name in self.kernel.arg_names}
        source = ASTSource(self.kernel, signature, fixed)
        triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": num_warps})
        print(self.kernel.__name__)


def type_of(argument):
    return TYPES[argument.dtype] if isinstance(argument, Tensor) else "i32"


def main():
    for name, value in list(vars(fused).items()):
        if isinstance(value, triton.runtime.JITFunction):
            setattr(fused, name, Compiled(value) if "block" in value.arg_names else value)
    steps.on = lambda _: fused
    for name, dtype in (("dep", torch.bfloat16), ("dep-sum", torch.float64), ("const", torch.bfloat16)):
        cell, vectors, ids, batch = make(name, [star(3), WORD], hidden=48)
        dispatch.run(cell.to(dtype), vectors.to(dtype), ids, batch).roots.sum().backward()


if __name__ == "__main__":
    main()
