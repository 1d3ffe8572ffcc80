"""YAML files that people write: what is wrong with one is said in one line; a key that is there twice is refused."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml

from hardware.names import nearest_path

TAG = "tag:yaml.org,2002:"
KINDS = ("map", "seq", "str", "null", "bool", "int", "float")  # the core schema: https://yaml.org/spec/1.2.2/
DEEPEST = 100  # of what stands in each other: libyaml ends the process where there are too many
SHOWN = 60  # characters of a wrong value
_SCIENTIFIC = re.compile(r"([-+]?\d+)(\.(\d*))?[eE]([-+]?)(\d+)")
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the first is C, where libyaml is there


def read_yaml(file: Path) -> Any:
    """What a YAML file holds; ValueError, which names the file, where it cannot be read or has a key twice.

    YAML takes the last value of such a key without a word.
    """
    try:
        text = file.read_text(encoding="utf-8")
        _check_events(file, text)
        if twice := next(_twice(yaml.compose(text, _Loader), set()), None):
            raise ValueError(f"{file}: line {twice.start_mark.line + 1}: {twice.value!r} is there twice")
    except FileNotFoundError as error:
        raise ValueError(f"{file}: no such file{nearest_path(file)}") from error
    except OSError as error:
        raise ValueError(f"{file}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise _no_yaml(file, error) from error
    try:
        return msgspec.yaml.decode(text)
    except Exception as error:  # Python's own types raise whatever they like for a date or a number that cannot be
        raise _no_yaml(file, error) from error


def read_as_text(value: Any) -> str:
    """How to write a number so that YAML reads one, where `value` is the text that it took it for; empty for others.

    YAML 1.1, which Python's parser follows, wants a point and the sign of the exponent.
    """
    found = _SCIENTIFIC.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return ""
    sign = found[4] or "+"
    return f": YAML takes it for text, write {found[1]}.{found[3] or '0'}e{sign}{found[5]}"


def _no_yaml(file: Path, error: Exception) -> ValueError:
    return ValueError(f"{file}: is not YAML: {' '.join(str(error).split())}")


def _check_events(file: Path, text: str) -> None:
    """ValueError for what reads as YAML and is in no file of ours: too much depth, NUL, tags beyond the core schema."""
    depth = 0
    for event in yaml.parse(text, _Loader):
        where = f"{file}: line {event.start_mark.line + 1}:"
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise ValueError(f"{where} more than {DEEPEST} lists or mappings inside each other")
        tag = getattr(event, "tag", None)
        if tag is not None and tag.removeprefix(TAG) not in KINDS:
            raise ValueError(f"{where} tag {tag.replace(TAG, '!!')}: choose from !!{', !!'.join(KINDS)}, or give none")
        if "\0" in (value := getattr(event, "value", "")):
            raise ValueError(f"{where} {value[:SHOWN]!r}: every character but NUL is allowed")


def _twice(node: yaml.Node | None, seen: set[int]) -> Iterator[yaml.ScalarNode]:
    """Keys that their mapping has already; `seen`: nodes that were looked at, for an alias may lead back to one."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for each in node.value:
            yield from _twice(each, seen)
    elif isinstance(node, yaml.MappingNode):
        known = set[tuple[str, str]]()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (name := (key.tag, key.value)) in known:
                    yield key
                known.add(name)
            yield from _twice(value, seen)
