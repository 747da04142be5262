"""Low-rank additions to the decoder's products, instead of new weights for all of it.

Source: Hu et al. 2021. They are added into the weights when the model is saved.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


class Addition(nn.Module):
    """A weight [out, in] -> the same with a product of two thin matrices added."""

    def __init__(self, weight: Tensor, rank: int) -> None:
        super().__init__()
        self.down = nn.Parameter(torch.randn(rank, weight.shape[1]) / rank)
        self.up = nn.Parameter(torch.zeros(weight.shape[0], rank))

    def forward(self, weight: Tensor) -> Tensor:
        """See the class."""
        return weight + self.up @ self.down


def add(model: Any, rank: int) -> list[nn.Parameter]:
    """Give the decoder additions of that rank -> their parameters. All else of it is frozen."""
    for parameter in model.model.language_model.parameters():
        parameter.requires_grad_(False)
    added: list[nn.Parameter] = []
    for module in _targets(model):
        addition = Addition(module.weight, rank)
        parametrize.register_parametrization(module, "weight", addition)
        added += addition.parameters()
    return added


def merge(model: Any) -> None:
    """Make the additions part of the weights."""
    for module in _targets(model):
        if parametrize.is_parametrized(module, "weight"):
            parametrize.remove_parametrizations(module, "weight", leave_parametrized=True)


def _targets(model: Any) -> Iterator[nn.Linear]:
    for name, module in list(model.model.language_model.named_modules()):
        if isinstance(module, nn.Linear) and name.rpartition(".")[2] in TARGETS:
            yield module
