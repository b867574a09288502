"""The content of a model file, without building the model."""

from os import PathLike
from pathlib import Path
from typing import Any

from aleator.model_files import file_format


def contents(path: str | PathLike[str], key: bytes | None = None) -> dict[str, Any]:
    """Format, kind, parameters, columns and card of a file; its checksum is verified, with a key its signature too."""
    facts, arrays = file_format.read(path, key=key)
    try:
        return _contents(path, facts, arrays)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is incomplete, or of another version: {error!r}.") from error


def _contents(path: str | PathLike[str], facts: dict[str, Any], arrays: file_format.Arrays) -> dict[str, Any]:
    table = facts.get("table", {})
    names = facts.get("feature_names", [])
    kinds = facts.get("encoder", {}).get("kinds") or ["number"] * len(names)
    plain = [{"name": name, "kind": kind, "date": ""} for name, kind in zip(names, kinds, strict=False)]
    columns = table.get("schema", {}).get("columns", plain)
    return {
        "file": str(path),
        "bytes": Path(path).stat().st_size,
        "format": file_format.FORMAT,
        "model": facts.get("kind"),
        "parameters": facts.get("params", {}),
        "regressor": facts.get("regressor"),
        "target": table.get("target"),
        "columns": columns,
        "weights": int(sum(a.size for name, a in arrays.items() if name.split("/")[-1] in ("params", "params_"))),
        "arrays": {name: f"{values.dtype} {list(values.shape)}" for name, values in sorted(arrays.items())},
        "written_by": facts.get("written_by", {}),
        "card": table.get("card", {}),
    }
