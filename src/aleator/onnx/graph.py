"""ONNX graphs written as formulas: values with arithmetic, each operation a node.

graph = Graph()
x = graph.input("X", np.float64, ("rows", 3))
graph.output("y", exp(x @ weights + bias))
"""

import json
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import onnx
from numpy.typing import ArrayLike, DTypeLike
from onnx import helper, numpy_helper

from aleator import atomic_write

OPSET, OPSET_ML, IR_VERSION = 18, 3, 9
DOMAINS = {"": OPSET, "ai.onnx.ml": OPSET_ML}


class Graph:
    """Nodes and constants as they are added, with names of their own."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def input(self, name: str, dtype: DTypeLike, shape: tuple[Any, ...]) -> "Value":
        """A named input; a dimension may be a name."""
        self.inputs.append(helper.make_tensor_value_info(name, _type(dtype), shape))
        return Value(self, name, np.dtype(dtype))

    def texts(self, name: str, shape: tuple[Any, ...]) -> "Value":
        """A named input of strings."""
        self.inputs.append(helper.make_tensor_value_info(name, onnx.TensorProto.STRING, shape))
        return Value(self, name, np.dtype(object))

    def output(self, name: str, value: "Value", shape: tuple[Any, ...]) -> None:
        """Give a value to the outside."""
        self.nodes.append(helper.make_node("Identity", [value.name], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, _type(value.dtype), shape))

    def constant(self, values: ArrayLike, dtype: DTypeLike) -> "Value":
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return Value(self, name, np.dtype(dtype))

    def node(self, op: str, *inputs: "Value", dtype: DTypeLike | None = None, **attributes: Any) -> "Value":
        """A node of one operation, its value of the type of the first input unless `dtype` is given."""
        name = f"value_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, [value.name for value in inputs], [name], **attributes))
        return Value(self, name, np.dtype(inputs[0].dtype if dtype is None else dtype))

    def include(self, other: Any, given: dict[str, "Value"]) -> "Value":
        """The nodes of another model, its inputs replaced; its first output, as float64."""
        prefix = f"given_{len(self.nodes)}_"
        known = {name: value.name for name, value in given.items()}

        def renamed(name: str) -> str:
            return known.get(name, prefix + name) if name else name

        for constant in other.graph.initializer:
            copy = onnx.TensorProto()
            copy.CopyFrom(constant)
            copy.name = renamed(constant.name)
            self.constants.append(copy)
        for node in other.graph.node:
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            del copy.input[:], copy.output[:]
            copy.input.extend(map(renamed, node.input))
            copy.output.extend(map(renamed, node.output))
            copy.name = prefix + node.name
            self.nodes.append(copy)
        return cast(Value(self, renamed(other.graph.output[0].name), np.dtype(np.float64)), np.float64)

    def write(self, path: str | PathLike[str], facts: dict[str, Any]) -> None:
        """Check the model and write it to one file, whole or not at all; `facts` go into its metadata, as JSON."""
        graph = helper.make_graph(self.nodes, "aleator", self.inputs, self.outputs, self.constants)
        opsets = [helper.make_opsetid(domain, version) for domain, version in DOMAINS.items()]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="aleator")
        helper.set_model_props(model, {name: json.dumps(value) for name, value in facts.items()})
        onnx.checker.check_model(model, full_check=True)
        with atomic_write.whole(path, "ONNX file") as beside:
            beside.write_bytes(model.SerializeToString())


@dataclass(frozen=True)
class Value:
    """A value in a graph; numbers and arrays beside it become constants of its type."""

    graph: Graph
    name: str
    dtype: np.dtype[Any]

    __array_ufunc__ = None  # array * value is ours to compute

    def _with(self, op: str, other: Any, swapped: bool = False) -> "Value":
        other = self._constant(other)
        return self.graph.node(op, *((other, self) if swapped else (self, other)))

    def __add__(self, other: Any) -> "Value":
        return self._with("Add", other)

    def __radd__(self, other: Any) -> "Value":
        return self._with("Add", other, swapped=True)

    def __sub__(self, other: Any) -> "Value":
        return self._with("Sub", other)

    def __rsub__(self, other: Any) -> "Value":
        return self._with("Sub", other, swapped=True)

    def __mul__(self, other: Any) -> "Value":
        return self._with("Mul", other)

    def __rmul__(self, other: Any) -> "Value":
        return self._with("Mul", other, swapped=True)

    def __truediv__(self, other: Any) -> "Value":
        return self._with("Div", other)

    def __rtruediv__(self, other: Any) -> "Value":
        return self._with("Div", other, swapped=True)

    def __matmul__(self, other: Any) -> "Value":
        return self._with("MatMul", other)

    def __neg__(self) -> "Value":
        return self.graph.node("Neg", self)

    def __lt__(self, other: Any) -> "Value":
        return self.graph.node("Less", self, self._constant(other), dtype=np.bool_)

    def __gt__(self, other: Any) -> "Value":
        return self.graph.node("Greater", self, self._constant(other), dtype=np.bool_)

    def _constant(self, other: Any) -> "Value":
        return other if isinstance(other, Value) else self.graph.constant(other, self.dtype)


# ---------------------------------------------------------------- functions of values


def exp(x: Value) -> Value:
    return x.graph.node("Exp", x)


def log(x: Value) -> Value:
    return x.graph.node("Log", x)


def sqrt(x: Value) -> Value:
    return x.graph.node("Sqrt", x)


def absolute(x: Value) -> Value:
    return x.graph.node("Abs", x)


def activate(x: Value, kind: str) -> Value:
    return x.graph.node({"relu": "Relu", "tanh": "Tanh"}[kind], x)


def sine(x: Value) -> Value:
    return x.graph.node("Sin", x)


def cosine(x: Value) -> Value:
    return x.graph.node("Cos", x)


def rounded(x: Value, digits: int) -> Value:
    return x.graph.node("Round", x * 10.0**digits) / 10.0**digits


def maximum(x: Value, other: Any) -> Value:
    return x._with("Max", other)


def minimum(x: Value, other: Any) -> Value:
    return x._with("Min", other)


def clip(x: Value, low: Any, high: Any) -> Value:
    return minimum(maximum(x, low), high)


def where(condition: Value, x: Any, y: Any) -> Value:
    kind = x if isinstance(x, Value) else y
    return condition.graph.node("Where", condition, kind._constant(x), kind._constant(y), dtype=kind.dtype)


def isnan(x: Value) -> Value:
    return x.graph.node("IsNaN", x, dtype=np.bool_)


def cast(x: Value, dtype: DTypeLike) -> Value:
    return x.graph.node("Cast", x, dtype=dtype, to=_type(dtype))


def mean(x: Value, axis: int) -> Value:
    return x.graph.node("ReduceMean", x, x.graph.constant([axis], np.int64), keepdims=0)


def total(x: Value, axis: int, keep: bool = False) -> Value:
    return x.graph.node("ReduceSum", x, x.graph.constant([axis], np.int64), keepdims=int(keep))


def columns(x: Value, begin: int, end: int) -> Value:
    """Columns begin..end of the last dimension."""
    place = (x.graph.constant([number], np.int64) for number in (begin, end, -1))
    return x.graph.node("Slice", x, *place)


def equals(x: Value, other: Any) -> Value:
    return x.graph.node("Equal", x, x._constant(other), dtype=np.bool_)


def places(texts: Value, known: dict[str, int]) -> Value:
    """The number that belongs to each text, -1 to one that is not known."""
    keys, values = list(known), list(known.values())
    return texts.graph.node(
        "LabelEncoder",
        texts,
        dtype=np.int64,
        domain="ai.onnx.ml",
        keys_strings=keys,
        values_int64s=values,
        default_int64=-1,
    )


def chosen(values: ArrayLike, place: Value) -> Value:
    """The value at each place, the last at -1."""
    return place.graph.node("Gather", place.graph.constant(values, np.float64), place, dtype=np.float64, axis=0)


def take(x: Value, which: Any) -> Value:
    """Those columns of the last dimension, in that order."""
    return x.graph.node("Gather", x, x.graph.constant(which, np.int64), axis=-1)


def beside(*parts: Value) -> Value:
    """Columns side by side."""
    return parts[0].graph.node("Concat", *parts, axis=-1)


def flat(x: Value) -> Value:
    """(n, 1) as (n,)."""
    return x.graph.node("Squeeze", x, x.graph.constant([-1], np.int64))


def reshaped(x: Value, *shape: int) -> Value:
    return x.graph.node("Reshape", x, x.graph.constant(shape, np.int64))


def softplus(x: Value) -> Value:
    """ln(1 + e^x) without overflow, and exact to the last digits where it is small (ONNX knows no log1p)."""
    t = exp(-absolute(x))
    near = t * (1.0 - t * (0.5 - t * (1.0 / 3.0)))  # of ln(1 + t), for small t
    return maximum(x, 0.0) + where(t < 1e-5, near, log(1.0 + t))


def _type(dtype: DTypeLike) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
