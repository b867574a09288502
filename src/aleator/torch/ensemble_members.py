"""What is trained: one pair or several at once, with the same interface.

A forward gives (K, n, ...) outputs for K members, and the members' weights can be kept and put back one by one.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from aleator.torch.criterion import JointLoss
from aleator.torch.modules import evaluating
from aleator.torch.pair import Pair

State = dict[str, Tensor]


class Alone(nn.Module):
    """One pair as it is."""

    size = 1

    def __init__(self, pair: Pair) -> None:
        super().__init__()
        self.pair = pair

    def forward(self, *x: Tensor) -> tuple[Tensor, Tensor]:
        y_pred, xi = self.pair(*x)
        return y_pred[None], xi[None]

    def template(self) -> Pair:
        """A pair that shows what the members are made of."""
        return self.pair

    def described(self) -> str:
        """What must be the same for weights to fit."""
        return described(self.pair)

    def clip(self, limit: float) -> None:
        """Scale the gradient down to Euclidean norm `limit` if it is longer."""
        nn.utils.clip_grad_norm_(self.parameters(), limit)

    def remember(self, kept: State, which: Tensor) -> None:
        """Copy the state of the members `which` (K,) into `kept`."""
        if which.item():
            kept.update({name: values.detach().clone() for name, values in self.state_dict().items()})


class Stacked(nn.Module):
    """Pairs of one architecture: their weights stacked, all of them in one vectorised call (`torch.func`).

    Where a module does not allow that (it draws random numbers, as dropout does, or branches on values), they are
    called one after the other, with the same numbers.
    """

    def __init__(self, pairs: Sequence[Pair]) -> None:
        super().__init__()
        self.size = len(pairs)
        states = [pair.state_dict() for pair in pairs]
        if len({id(pair) for pair in pairs}) < len(pairs):
            raise ValueError("make_pair must make a new pair each time, and gave one twice.")
        _check_alike(pairs, states)
        self._template = (pairs[0],)  # in a tuple it is not registered as a submodule, so its weights are not trained
        trained = {name for name, p in pairs[0].named_parameters() if p.requires_grad}
        own = {id(p): name for name, p in pairs[0].named_parameters()}
        everywhere = pairs[0].named_parameters(remove_duplicate=False)
        self.tied = {name: own[id(p)] for name, p in everywhere if own[id(p)] != name}  # other names of a weight
        # a weight of one layer under two names is replaced once, one of two layers twice
        self.replaced = {
            name: first for name, first in self.tied.items() if _layer(pairs[0], name) is not _layer(pairs[0], first)
        }
        self.names: dict[str, str] = {}
        for k, name in enumerate(name for name in states[0] if name not in self.tied):
            values = torch.stack([state[name].detach() for state in states])
            self.names[f"state_{k}"] = name
            if name in trained:
                self.register_parameter(f"state_{k}", nn.Parameter(values))
            else:
                self.register_buffer(f"state_{k}", values)
        self.vectorised: dict[
            bool, bool
        ] = {}  # whether it can be vectorised, in training mode and not; found by trying

    def template(self) -> Pair:
        """A pair that shows what the members are made of."""
        return self._template[0]

    def described(self) -> str:
        """What must be the same for weights to fit."""
        return f"{self.size} of {described(self.template())}"

    def _state(self) -> State:
        state = {name: getattr(self, place) for place, name in self.names.items()}
        return state | {name: state[first] for name, first in self.replaced.items()}

    def forward(self, *x: Tensor) -> tuple[Tensor, Tensor]:
        with nullcontext() if self.training else evaluating(self.template()):
            return self._outputs(x)

    def _outputs(self, x: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        if self.training not in self.vectorised:
            self.vectorised[self.training] = self._can_be_vectorised(x)
        if self.vectorised[self.training]:
            return self._at_once(x)
        outputs = [
            torch.func.functional_call(self.template(), self._member(k), x, tie_weights=False) for k in range(self.size)
        ]
        return torch.stack([y_pred for y_pred, _ in outputs]), torch.stack([xi for _, xi in outputs])

    def _at_once(self, x: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        def one(state: State) -> Any:
            return torch.func.functional_call(self.template(), state, x, tie_weights=False)

        made: tuple[Tensor, Tensor] = torch.vmap(one, randomness="error")(self._state())
        return made

    def _can_be_vectorised(self, x: tuple[Tensor, ...]) -> bool:
        kept = {place: getattr(self, place).detach().clone() for place in self.names}
        try:
            with torch.no_grad():
                self._at_once(x)
        except (RuntimeError, NotImplementedError, ValueError):
            return False  # other errors of the module are raised by the loop
        finally:
            with torch.no_grad():
                for place, values in kept.items():  # batch statistics
                    getattr(self, place).copy_(values)
        return True

    def _member(self, k: int) -> State:
        return {name: values[k] for name, values in self._state().items()}

    def clip(self, limit: float) -> None:
        """Scale the gradient of each member down to Euclidean norm `limit` if it is longer."""
        slopes = [p.grad for p in self.parameters() if p.grad is not None]
        norms = torch.stack([slope.flatten(1).square().sum(1) for slope in slopes]).sum(0).sqrt()  # (K,)
        factor = (limit / (norms + 1e-6)).clamp(max=1.0)  # as torch does
        for slope in slopes:
            slope.mul_(factor.reshape(-1, *[1] * (slope.ndim - 1)))

    def remember(self, kept: State, which: Tensor) -> None:
        """Copy the state of the members `which` (K,) into `kept`."""
        for name, values in self.state_dict().items():
            if name in kept:
                kept[name][which] = values.detach()[which]
            else:
                kept[name] = values.detach().clone()

    def into(self, pairs: Sequence[Pair]) -> None:
        """Give the pairs the weights that were trained."""
        for k, pair in enumerate(pairs):
            state = {name: values.detach() for name, values in self._member(k).items()}
            pair.load_state_dict(state | {name: state[first] for name, first in self.tied.items()})


def _layer(module: nn.Module, name: str) -> nn.Module:
    return module.get_submodule(name.rpartition(".")[0])


def _check_alike(pairs: Sequence[Pair], states: Sequence[State]) -> None:
    """All members are called like the first, so they may differ in numbers only."""
    for k, pair in enumerate(pairs[1:], start=1):
        shapes = [{name: tuple(values.shape) for name, values in state.items()} for state in (states[0], states[k])]
        if shapes[0] != shapes[1]:
            apart = next(name for name in {**shapes[0], **shapes[1]} if shapes[0].get(name) != shapes[1].get(name))
            raise ValueError(
                f"make_pair must make pairs of one architecture: {apart} is {shapes[0].get(apart)} in member 0 and "
                f"{shapes[1].get(apart)} in member {k}."
            )
        layers = [[(name, _described(part)) for name, part in one.named_modules()] for one in (pairs[0], pair)]
        for (name, here), (_, there) in zip(*layers, strict=False):
            if here != there:
                raise ValueError(
                    f"make_pair must make pairs of one architecture: {name or 'the pair'} is {here} in member 0 and "
                    f"{there} in member {k}."
                )


def described(pair: Pair) -> str:
    """Layers and shapes of a pair."""
    layers = [f"{name} {_described(part)}" for name, part in pair.named_modules()]
    return "; ".join([*layers, *(f"{name} {tuple(values.shape)}" for name, values in pair.state_dict().items())])


def _described(part: nn.Module) -> str:
    """A layer as it prints itself, and which of its weights are trained; a criterion may have a lam of its own."""
    if isinstance(part, JointLoss):
        return "JointLoss"
    frozen = [name for name, p in part.named_parameters(recurse=False) if not p.requires_grad]
    return f"{type(part).__name__}({part.extra_repr()})" + (f" with {', '.join(frozen)} frozen" if frozen else "")
