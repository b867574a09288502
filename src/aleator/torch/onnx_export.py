"""Models of torch as ONNX files: one graph from the inputs to the answers, in the user's units."""

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from os import PathLike
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from aleator import atomic_write
from aleator.losses import Cost, Loss
from aleator.torch.batches import tensor
from aleator.torch.modules import device_of, evaluating

OPSET = 18


class Exportable(Protocol):
    """A module that names its outputs: `Pair`, `Ensemble`, `Quantifier`."""

    @property
    def measure(self) -> Loss | Cost:
        """The loss that the expected loss refers to."""
        ...

    def onnx_outputs(self, *x: Tensor) -> dict[str, Tensor]:
        """Outputs of the ONNX graph by name."""
        ...


class Outputs(nn.Module):
    """inputs -> the outputs of a model, in the order of their names."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, *x: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.model.onnx_outputs(*x).values())


def export(model: Any, path: str | PathLike[str], example: Any) -> None:
    """Write an `Exportable` to one ONNX file; `example` shows the shapes of its inputs, the number of rows is free."""
    x = _example(model, example)
    answers = Outputs(model)
    inputs = ["X"] if len(x) == 1 else [f"X{k}" for k in range(len(x))]
    rows = torch.export.Dim("rows")
    with evaluating(model), torch.no_grad(), _quiet():
        try:
            names = list(model.onnx_outputs(*x))
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            shapes = ", ".join(str(tuple(part.shape)) for part in x)
            raise ValueError(f"the model cannot read the example, of shape {shapes}: {error}") from error
        try:
            program = torch.onnx.export(
                answers, x, dynamo=True, verbose=False, opset_version=OPSET, input_names=inputs, output_names=names,
                dynamic_shapes=(tuple({0: rows} for _ in x),),
            )  # fmt: skip
        except torch.onnx.OnnxExporterError as error:
            reason = str(error.__cause__ or error).strip().split("\n")[0]
            raise ValueError(f"torch cannot export this model: {reason}") from error
    assert program is not None
    proto = program.model_proto
    facts = {"aleator": version("aleator"), "model": type(model).__name__, "loss": model.measure.name}
    for name, value in facts.items():
        entry = proto.metadata_props.add()
        entry.key, entry.value = name, json.dumps(value)
    with atomic_write.whole(path, "ONNX file") as beside:
        beside.write_bytes(proto.SerializeToString())


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence torch's warnings about its versions and about optional packages."""
    talkers = [logging.getLogger(name) for name in ("torch.onnx._internal.exporter._registration", "onnxscript")]
    levels = [talker.level for talker in talkers]
    try:
        for talker in talkers:
            talker.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for talker, level in zip(talkers, levels, strict=True):
            talker.setLevel(level)


def _example(model: nn.Module, example: Any) -> tuple[Tensor, ...]:
    if example is None:
        linear = next((m for m in model.modules() if isinstance(m, nn.Linear)), None)
        first = next((m for m in model.modules() if list(m.parameters(recurse=False))), None)
        if linear is None or first is not linear:
            raise ValueError("export_onnx needs example=, a few inputs that show the shape the module reads.")
        example = np.zeros((2, linear.in_features), np.float32)
    parts = tuple(map(tensor, example)) if isinstance(example, (tuple, list)) else (tensor(example),)
    if len(parts[0]) < 2:  # torch would take one row for a constant
        parts = tuple(torch.cat([part, part]) for part in parts)
    return tuple(part[:2].to(device_of(model)) for part in parts)
