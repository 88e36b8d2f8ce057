"""Documents that would exhaust memory or the stack are errors, and the ones after them are read."""

from __future__ import annotations

import pytest

from mooring.api.documents import DocumentError, read_documents
from mooring.api.printable import printable

BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
HOSTILE = {
    "an alias bomb": (BOMB, "excessive aliasing"),
    "a cycle": ("a: &a [*a]\n", "excessive aliasing"),
    "deep flow YAML": ("a: " + "[" * 5000 + "]" * 5000, "nested too deeply"),
    "deep block YAML": ("".join(" " * level + "a:\n" for level in range(5000)), "nested too deeply"),
    "deep compact YAML": ("- " * 5000 + "a", "nested too deeply"),
    "deep JSON": ('{"a":' * 20000 + "1" + "}" * 20000, "nested too deeply"),
    "JSON that decodes, but is deep": ('{"a":[' * 101 + "1" + "]}" * 101, "nested too deeply"),
}


@pytest.mark.parametrize(("text", "problem"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_documents_are_errors(text: str, problem: str) -> None:
    (error,) = read_documents(text)
    assert isinstance(error, DocumentError)
    assert problem in str(error)
    assert "line " in str(error)


def test_documents_after_a_hostile_one_are_read() -> None:
    first, second = read_documents(f"{BOMB}---\nkind: Pod\n")
    assert isinstance(first, DocumentError)
    assert second == {"kind": "Pod"}


def test_ordinary_aliases_and_many_brackets_are_fine() -> None:
    (tree,) = read_documents("a: &a {b: 1}\nc: *a\nd: " + "[" + "[1]," * 1000 + "]\n")
    assert not isinstance(tree, DocumentError)
    assert tree["c"] == {"b": 1}
    assert len(tree["d"]) == 1000


def test_control_characters_become_escapes() -> None:
    assert printable("a\x1b[31m\tb\nc\x9b\u202e\ud83d") == "a\\x1b[31m\tb\nc\\x9b\\u202e\\ud83d"


MERGED = ["a0: &a0 {x: 1}"] + [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 20)]
LARGE = ["a: &a", *(f"  k{n}: v" for n in range(3_000)), *(f"b{n}: {{<<: *a}}" for n in range(1_000))]


@pytest.mark.parametrize("lines", [MERGED, LARGE], ids=["exponential", "large"])
def test_mappings_that_multiply_by_merging(lines: list[str]) -> None:
    (error,) = read_documents("\n".join(lines))
    assert isinstance(error, DocumentError)
    assert "excessive aliasing" in str(error)


def test_merged_mappings() -> None:
    text = "a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\nc: {<<: [*a, *b], z: 3}\nd: {<<: *a}\n"
    (tree,) = read_documents(text)
    assert isinstance(tree, dict)
    assert tree["c"] == {"x": 1, "y": 1, "z": 3}
    assert tree["d"] == {"x": 1, "y": 1}
