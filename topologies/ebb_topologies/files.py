"""Reading what humans write (TOML) and what programs exchange (JSON), with errors for people; and
writing results so that a file is there whole or not at all."""

from __future__ import annotations

import errno
import json
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError

from ebb_topologies.errors import InputError as InputError

Model = TypeVar("Model", bound=BaseModel)


def load(path: Path) -> dict[str, Any]:
    """The table in a TOML or JSON file, chosen by the file's extension."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text (byte {error.start})") from error
    except ValueError as error:  # the path has a NUL character
        raise InputError(f"{str(path)!r} cannot be a file: {error}") from error
    try:
        data = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except ValueError as error:  # wrong syntax, or a number of thousands of digits
        raise InputError(f"{path}: {error}") from error
    except RecursionError as error:
        raise InputError(f"{path}: brackets are nested too deeply") from error
    if not isinstance(data, dict):
        raise InputError(
            f"{path}: the top level must be a table of keys, not a {type(data).__name__}"
        )
    return data


def validate(model: type[Model], data: dict[str, Any], where: str) -> Model:
    """`data` as a `model`; every finding is named by its key path."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise InputError(f"{where}: {describe(error, model)}") from error


EXPECTED = "Input should be"
"""How pydantic begins what it expects."""


def describe(error: ValidationError, model: type[BaseModel]) -> str:
    """Pydantic's findings as one line: key path, what was wrong, what would be right."""
    findings = []
    for item in error.errors(include_url=False):
        path = ".".join(str(part) for part in item["loc"])
        if item["type"] == "extra_forbidden":
            known = _keys_at(model, item["loc"][:-1])
            hint = f"; valid keys: {', '.join(known)}" if known else ""
            findings.append(f"unknown key '{path}'{hint}")
        elif item["type"] == "missing":
            findings.append(f"'{path}' is missing")
        else:
            message = item["msg"].removeprefix("Value error, ")
            if message.startswith(EXPECTED):
                given = item["input"]
                told = f", not {given!r}" if isinstance(given, str | int | float) else ""
                message = f"must be{message.removeprefix(EXPECTED)}{told}"
            findings.append(f"'{path}': {message}" if path else message)
    return "; ".join(findings)


def _keys_at(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """The keys that are valid at `location` inside `model`, if that can be told."""
    current = [model]
    for part in location:
        if isinstance(part, int):
            continue
        chosen = [one for one in current if part in _tags(one)]
        fields = [one.model_fields[part] for one in current if part in one.model_fields]
        inside = [one for field in fields for one in _models_in(field.annotation)]
        # A part that names no field is the key of a dict.
        current = chosen or inside or (current if not fields else [])
    return sorted({key for one in current for key in one.model_fields})


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    """The model classes inside an annotation: `X`, `X | None`, `list[X | Y]`, `dict[str, X]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    arguments = getattr(annotation, "__args__", ())
    return [found for argument in arguments for found in _models_in(argument)]


def _tags(model: type[BaseModel]) -> set[str]:
    """What tells this model from the others of a union: pydantic names the choice in the path."""
    annotations = (field.annotation for field in model.model_fields.values())
    return {tag for a in annotations if get_origin(a) is Literal for tag in get_args(a)}


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file beside `path` to write to, which takes its place when the block ends well and is gone
    when it does not: what others find under `path` is whole. An `OSError` names `path`."""
    part = path.with_name(f".{path.name}.part")
    try:
        with naming(path):
            yield part
            part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Makes an `OSError` in the block name `path`; that of a write to a full disk names no file."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno or errno.EIO, error.strerror or str(error), str(path)) from error


def write(path: Path, content: str | bytes) -> None:
    """Writes a file that is there whole or not at all."""
    with replacing(path) as part:
        part.write_bytes(content.encode() if isinstance(content, str) else content)
