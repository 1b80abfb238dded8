"""Reading what humans write (TOML) and what programs exchange (JSON), with errors for people; and
writing results so that a file is there whole or not at all."""

from __future__ import annotations

import errno
import json
import math
import re
import time
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from ebb_topologies.bounded import bytes_of
from ebb_topologies.errors import InputError as InputError
from ebb_topologies.nearest import hint, nearest

Model = TypeVar("Model", bound=BaseModel)
MAX_INTEGER = 2**64
"""No whole number in a file is as large."""
MAX_DOTS = 500
"""Most dots of a key in a TOML file, or of a text in it up to the next comma, brace or line."""
TIME_FORMAT = "%Y-%m-%dT%H-%M-%S"
"""Format of names of folders, in local time: they sort by it."""


def load(path: Path, *, finite: bool = True) -> dict[str, Any]:
    """The table in a TOML or JSON file, chosen by the file's extension. `finite`: no key of it may
    be infinite."""
    try:
        text = text_of(path)
    except OSError as error:
        near = named_alike(path) if isinstance(error, FileNotFoundError) else None
        meant = f"; did you mean '{near}'?" if near else ""
        raise InputError(f"{path}: cannot be read: {error.strerror}{meant}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text (byte {error.start})") from error
    except ValueError as error:  # the path has a NUL character
        raise InputError(f"{str(path)!r} cannot be a file: {error}") from error
    try:
        data = json.loads(text) if path.suffix == ".json" else _toml(text)
        values = list(_values(data))
    except ValueError as error:  # wrong syntax, or a number of thousands of digits
        raise InputError(f"{path}: {error}") from error
    except RecursionError as error:
        raise InputError(f"{path}: brackets or keys are nested too deeply") from error
    if not isinstance(data, dict):
        raise InputError(
            f"{path}: the top level must be a table of keys, not a {type(data).__name__}"
        )
    for key, value in values:
        if (fault := _fault(value, finite)) is not None:
            raise InputError(f"{path}: '{key}': {fault}")
    return data


def text_of(path: Path) -> str:
    """The text of a file that others wrote or named."""
    return bytes_of(path).decode("utf-8")


def named_alike(path: Path) -> Path | None:
    """The file beside one that does not exist, with its extension, that may be meant."""
    near = nearest(path.stem, (each.stem for each in path.parent.glob(f"*{path.suffix}")))
    return path.with_name(near + path.suffix) if near else None


def _toml(text: str) -> dict[str, Any]:
    """The table of a TOML document. tomllib takes time by the square of the parts of a key."""
    for part in re.split(r"[=,{}\n]", text):
        if part.count(".") > MAX_DOTS:
            raise ValueError(f"a key or text has more than {MAX_DOTS} dots: {part.strip()[:40]}..")
    return tomllib.loads(text)


def _values(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Everything in a table that is neither a table nor a list, with its key path."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from _values(item, f"{path}.{key}" if path else str(key))
    else:
        yield path, value


def _fault(value: Any, finite: bool) -> str | None:
    """Why no key of any file of ours has this value, which TOML or Python's JSON can write; none:
    some may."""
    if isinstance(value, str):
        return "text with a NUL character is no value of any key" if "\0" in value else None
    if isinstance(value, int):
        return None if abs(value) < MAX_INTEGER else "must be a whole number of at most 64 bits"
    if isinstance(value, float):
        fits = math.isfinite(value) if finite else not math.isnan(value)
        return None if fits else f"must be a finite number, not {value}"
    if value is None:
        return None
    return f"must be text, a number, true or false, a list or a table, not the date or time {value}"


def validate(model: type[Model], data: dict[str, Any], where: str) -> Model:
    """`data` as a `model`; every finding is named by its key path."""
    try:
        found = model.model_validate(data)
    except ValidationError as error:
        raise InputError(f"{where}: {describe(error, model, data)}") from error
    for path, value in _read_as_numbers(data, found):
        raise InputError(f"{where}: '{path}': must be a number, not {str(value).lower()}")
    return found


def _read_as_numbers(given: Any, found: Any, path: str = "") -> Iterator[tuple[str, bool]]:
    """Each true or false that pydantic has taken for 1 or 0, with its key path."""
    inside: Iterable[tuple[Any, Any, Any]] = ()
    if isinstance(given, bool):
        if isinstance(found, int | float) and not isinstance(found, bool):
            yield path, given
    elif isinstance(given, dict):
        get = found.get if isinstance(found, dict) else partial(getattr, found)
        inside = ((key, item, get(key, None)) for key, item in given.items())
    elif isinstance(given, list) and isinstance(found, list | tuple):
        inside = ((i, *both) for i, both in enumerate(zip(given, found, strict=False)))
    for key, item, read in inside:
        yield from _read_as_numbers(item, read, f"{path}.{key}" if path else str(key))


EXPECTED = "Input should be"
"""How pydantic begins what it expects."""
KINDS = {
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "a table"),
    **dict.fromkeys(("float_type", "float_parsing", "finite_number"), "a number"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number"),
    **dict.fromkeys(("list_type", "tuple_type"), "a list"),
    "string_type": "text",
}
"""Expected type of a value, by pydantic's name of the error."""


FORMS = ("[key]", "constrained-", "literal[", "list[", "nullable[", "tuple[")
"""How pydantic calls one of several forms that a value may have, in the place of a key."""


def describe(error: ValidationError, model: type[BaseModel], data: Any) -> str:
    """Pydantic's findings about data as one line: key path, what was wrong, what would be right."""
    findings = []
    for item in error.errors(include_url=False):
        path = ".".join(_keys(item["loc"], data))
        if item["type"] == "extra_forbidden":
            known = _keys_at(model, item["loc"][:-1])
            near = nearest(str(item["loc"][-1]), known)
            advice = f"; did you mean '{near}'?" if near else ""
            advice += f" (valid keys: {', '.join(known)})" if known else ""
            findings.append(f"unknown key '{path}'{advice}")
        elif item["type"] == "missing":
            findings.append(f"'{path}' is missing")
        elif item["type"] == "union_tag_not_found":
            findings.append(f"'{_below(path, item)}' is missing")
        else:
            message = _message(item)
            where = _below(path, item) if item["type"] == "union_tag_invalid" else path
            findings.append(f"'{where}': {message}" if where else message)
    return "; ".join(findings)


def _keys(location: tuple[int | str, ...], data: Any) -> Iterator[str]:
    """The keys of a location in data, without the forms and the choices that pydantic puts between
    them."""
    here = data
    for part in location:
        if isinstance(part, str) and part.startswith(FORMS):
            continue
        if isinstance(here, dict) and part not in here and part in here.values():
            continue  # the choice among tables that one of its values makes
        inside = isinstance(here, dict) and part in here
        inside |= isinstance(here, list) and isinstance(part, int) and part < len(here)
        here = here[part] if inside else None
        yield str(part)


def _below(path: str, item: ErrorDetails) -> str:
    """The key by which one of several tables is chosen."""
    key = item["ctx"]["discriminator"].strip("'")
    return f"{path}.{key}" if path else key


def _message(item: ErrorDetails) -> str:
    """Error of a value, in the words of TOML."""
    given, kind = item["input"], item["type"]
    instead_of = f", not {given!r}" if isinstance(given, str | int | float) else ""
    if kind in KINDS:
        return f"must be {KINDS[kind]}{instead_of}"
    if kind == "union_tag_invalid":
        tag, tags = item["ctx"]["tag"], item["ctx"]["expected_tags"].replace("'", "")
        return f"there is no '{tag}'; {hint(tag, tags.split(', '))}"
    message = item["msg"].removeprefix("Value error, ")
    if message.startswith(EXPECTED):
        return f"must be{message.removeprefix(EXPECTED)}{instead_of}"
    return message


def _keys_at(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """The keys that are valid at `location` inside `model`, if they are known."""
    current = [model]
    for part in location:
        if isinstance(part, int):
            continue
        chosen = [one for one in current if part in _tags(one)]
        fields = [field for one in current for key, field in _fields(one) if key == part]
        inside = [one for field in fields for one in _models_in(field.annotation)]
        # A part that names no field is the key of a dict.
        current = chosen or inside or (current if not fields else [])
    return sorted({key for one in current for key, _ in _fields(one)})


def _fields(model: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    """The fields of a model, by the keys that files have for them."""
    return ((field.alias or name, field) for name, field in model.model_fields.items())


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    """The model classes inside an annotation: `X`, `X | None`, `list[X | Y]`, `dict[str, X]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    arguments = getattr(annotation, "__args__", ())
    return [found for argument in arguments for found in _models_in(argument)]


def _tags(model: type[BaseModel]) -> set[str]:
    """Key that selects this model of a union: pydantic names the choice in the path."""
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


def link_to(path: Path, target: str) -> None:
    """A symbolic link, in place of an earlier one or of a folder that an older Ebb has written."""
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    part.symlink_to(target)
    if path.is_dir() and not path.is_symlink():
        path.rename(path.with_name(f"{path.name}-{time.strftime(TIME_FORMAT)}"))
    part.replace(path)
