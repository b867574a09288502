"""Models as ONNX files, which run without Python: `export_onnx`."""

try:
    import onnx as _onnx  # noqa: F401
except ImportError as error:
    raise ImportError("ONNX files need the extra: pip install 'aleator[onnx]'.") from error

from aleator.onnx.export import export_onnx

__all__ = ["export_onnx"]
