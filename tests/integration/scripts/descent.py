"""Gradient descent without the import of torch's compiler, which torch's own optimizers need and which takes 1.4 s."""

from collections.abc import Callable, Iterable

import torch

for _name, _function in list(vars(torch.optim.Optimizer).items()):
    if (_plain := getattr(_function, "__wrapped__", None)) is not None:
        # Where torch finds this, it does not ask its compiler for it.
        setattr(_plain, "__dynamo_disable", _plain)


class SGD(torch.optim.Optimizer):
    """As torch's own, whose name it has in traces."""

    def __init__(self, params: Iterable[torch.Tensor], lr: float) -> None:
        super().__init__(params, {"lr": lr})

    def step(self, closure: Callable[[], float] | None = None) -> None:
        with torch.no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        parameter.add_(parameter.grad, alpha=-group["lr"])
