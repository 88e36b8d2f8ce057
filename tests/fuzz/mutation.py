"""Inputs made from seeds: trees, texts and bytes with something changed in them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

LONGEST = 200_000
"""Bytes of an input. Longer ones measure the machine rather than the code."""

_NUMBERS: tuple[Any, ...] = (
    0, -1, 1, 255, 65536, 2**31 - 1, 2**31, -(2**31) - 1, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1,
    2**64, 10**30, 0.5, -0.0, 1e-320, 1e308,
)  # fmt: skip
_WORDS = (
    "", " ", "-", "..", "/", "a/b/c", "*", "%", "\x00", "\x1b[2J", "é", "😀", "\ufeff", "null", "true", "~",
    "1Ki", "1e999", "0x1F", "-0", "1n", "0.000000001", "9" * 30, "a" * 64, "a" * 254, "10%",
    "2020-13-45T99:99:99Z", "1h", "-1s", "In", "Gt", "Exists", "cpu", "hugepages-2Mi", "metadata.name",
    "a.b/c", "kubernetes.io/hostname", "::1", "1.2.3.4/33", "Always", "ClusterIP", "$patch", "delete",
)  # fmt: skip
_LONG = ("9" * 5000, "(" * 2000, "[" * 2000, "a." * 1500, "a,b," * 1000, "\\" * 3000, " " * 5000, "a{" * 900)
_ODD: tuple[Any, ...] = (None, True, False, [], {}, "", [None], [[]], [{}], {"": None}, {"a": {"a": "b"}})
_TOKEN = re.compile(rb"[A-Za-z0-9_]+|\s+|.", re.DOTALL)
_BYTES = (b"\x00", b"\xff", b"\x7f", b"\r\n", b"\xc3", b"\xed\xa0\x80", b"\xff\xff\xff\xff\x0f", b"\x80" * 10)

Mutate = Callable[[Random, bytes, Sequence[bytes]], bytes]
"""Makes an input from another one; the last argument has words that the target knows."""


def mutate_json(random: Random, data: bytes, words: Sequence[bytes]) -> bytes:
    """Change a few values of a JSON document; now and then its text as well."""
    try:
        tree = json.loads(data)
        for _ in range(random.choice((1, 1, 1, 2, 3))):
            tree = _change(random, tree, words)
        changed = json.dumps(tree).encode()
    except (ValueError, RecursionError):
        return mutate_text(random, data, words)
    return mutate_text(random, changed, words) if random.random() < 0.1 else changed


def mutate_text(random: Random, data: bytes, words: Sequence[bytes]) -> bytes:
    """Delete, repeat, move and insert words and signs."""
    tokens = _TOKEN.findall(data)
    for _ in range(random.choice((1, 1, 2, 3, 5))):
        start = random.randrange(len(tokens) + 1)
        stop = min(len(tokens), start + random.choice((1, 1, 1, 2, 3, 8)))
        choice = random.random()
        if choice < 0.2:
            del tokens[start:stop]
        elif choice < 0.35:
            tokens[stop:stop] = tokens[start:stop] * random.choice((1, 1, 2, 5, 40))
        elif choice < 0.5:
            at = random.randrange(len(tokens) + 1)
            tokens[at:at] = tokens[start:stop]
        elif choice < 0.6:
            tokens[start:stop] = [mutate_bytes(random, b"".join(tokens[start:stop]), words)]
        else:
            replaced = stop if choice < 0.8 else start
            tokens[start:replaced] = [_word(random, words)]
    return b"".join(tokens)[:LONGEST]


def mutate_bytes(random: Random, data: bytes, words: Sequence[bytes]) -> bytes:
    """Change, delete, repeat and insert bytes."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 4))):
        start = random.randrange(len(changed) + 1)
        stop = min(len(changed), start + random.choice((1, 1, 2, 4, 16)))
        choice = random.random()
        if choice < 0.3 and start < len(changed):
            changed[start] ^= 1 << random.randrange(8)
        elif choice < 0.45:
            del changed[start:stop]
        elif choice < 0.6:
            changed[stop:stop] = changed[start:stop] * random.choice((1, 1, 3, 50))
        elif choice < 0.7:
            del changed[start:]
        elif choice < 0.85:
            changed[start:start] = random.choice(_BYTES)
        else:
            changed[start:start] = _word(random, words)
    return bytes(changed[:LONGEST])


def _word(random: Random, words: Sequence[bytes]) -> bytes:
    choice = random.random()
    if words and choice < 0.6:
        return random.choice(words)
    if choice < 0.7:
        return str(random.choice(_NUMBERS)).encode()
    if choice > 0.997:
        return random.choice(_LONG).encode()
    return random.choice(_WORDS).encode()


# ---- trees ----------------------------------------------------------------------------------------


def _change(random: Random, tree: Any, words: Sequence[bytes]) -> Any:
    """Return the tree with one member changed, removed, added, repeated or moved."""
    places = list(_places(tree))
    if not places or random.random() < 0.01:
        return _value(random, tree, words)
    holder, key = random.choice(places)
    value = holder[key]
    choice = random.random()
    if choice < 0.12:
        del holder[key]
    elif choice < 0.2:
        _put(random, holder, _copy(value), words)
    elif choice < 0.27:
        other, there = random.choice(places)
        holder[key] = _copy(other[there])
    elif choice < 0.29:
        holder[key] = _nested(random, value)
    elif choice < 0.32 and isinstance(value, list):
        holder[key] = value * random.choice((2, 3, 50))
    elif choice < 0.38 and isinstance(holder, dict):
        _put(random, holder, holder.pop(key), words)
    else:
        holder[key] = _value(random, value, words)
    return tree


def _places(tree: Any) -> Any:
    """Yield holder and key of every member and item."""
    left = [tree] if isinstance(tree, dict | list) else []
    while left:
        holder = left.pop()
        for key, value in holder.items() if isinstance(holder, dict) else enumerate(holder):
            yield holder, key
            if isinstance(value, dict | list):
                left.append(value)
        if len(left) > 2000:
            return


def _put(random: Random, holder: Any, value: Any, words: Sequence[bytes]) -> None:
    if isinstance(holder, dict):
        holder[_word(random, words).decode(errors="replace")] = value
    else:
        holder.insert(random.randrange(len(holder) + 1), value)


def _value(random: Random, value: Any, words: Sequence[bytes]) -> Any:
    """Something else, mostly of the same type, so that more than types is checked."""
    if random.random() < 0.25:
        return _copy(random.choice(_ODD))
    if isinstance(value, str):
        if random.random() < 0.3:
            return mutate_text(random, value.encode(errors="replace"), words).decode(errors="replace")
        return _word(random, words).decode(errors="replace")
    if isinstance(value, bool) or value is None:
        return random.choice((True, False, None, *_NUMBERS[:3]))
    if isinstance(value, int | float):
        return random.choice(_NUMBERS)
    return _copy(random.choice((*_ODD, *_NUMBERS)))


def _nested(random: Random, value: Any) -> Any:
    for _ in range(random.choice((1, 3, 20, 300))):
        value = [value] if random.random() < 0.5 else {"a": value}
    return value


def _copy(value: Any) -> Any:
    """Copy a tree. Deep ones stay shared: copying would exhaust the stack."""
    try:
        return json.loads(json.dumps(value))
    except (RecursionError, ValueError):
        return None
