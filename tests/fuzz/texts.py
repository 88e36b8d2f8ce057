"""Targets: expressions and values in a small language of their own."""

from __future__ import annotations

from typing import Any

from mooring.api.quantity import QuantityError, parse, to_milli, to_value
from mooring.api.quantity_texts import canonical
from mooring.cel import CelCompileError, CelError, DefaultMap, Quantity, Semver, compile_expression
from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.printing.jsonpath import JSONPath, JSONPathError
from mooring.sandbox.apiserver.verbs.selectors import parse_fields, parse_labels
from tests.fuzz.mutation import mutate_text
from tests.fuzz.target import target

_ATTRIBUTES = {"model": "a100", "index": 3, "healthy": True, "version": Semver.parse("2.1.0")}
DEVICE: dict[str, Any] = {
    "driver": "gpu.example.com",
    "allowMultipleAllocations": False,
    "attributes": DefaultMap({"gpu.example.com": _ATTRIBUTES}),
    "capacity": DefaultMap({"gpu.example.com": {"memory": Quantity.parse("40Gi")}}),
}


@target(
    "quantities",
    mutate_text,
    ["1", "100m", "1.5Gi", "-3e2", "12E", "0.000000001", "9223372036854775807", "+.5k"],
    ["n", "u", "m", "k", "Ki", "M", "Mi", "G", "Gi", "T", "Ti", "P", "Pi", "E", "Ei", "e", ".", "-", "+"],
    (QuantityError,),
)
def read_quantity(data: bytes) -> object:
    text = data.decode(errors="replace")
    nano = parse(text)
    written = canonical(text)
    assert parse(written) == nano, f"{written} is not the same"
    return len(str(to_milli(text))), len(str(to_value(text)))


@target(
    "label-selectors",
    mutate_text,
    ["app=web,tier in (front,back),!canary", "a notin (b),c!=d,e", "size>3,size<9", "example.com/a == b"],
    ["in", "notin", "=", "==", "!=", "!", "(", ")", ",", "<", ">", " ", "a", "example.com/a", "1"],
    (ApiError,),
)
def read_label_selector(data: bytes) -> object:
    selector = parse_labels(data.decode(errors="replace"))
    selector.matches({"app": "web", "size": "5"})
    assert parse_labels(str(selector)) is selector, "its text does not give it back"
    return " ".join(each.operator for each in selector.requirements)


@target(
    "field-selectors",
    mutate_text,
    ["metadata.name=a,status.phase!=Failed", "spec.nodeName==", r"a=b\,c\=d\\", "a!b=c"],
    ["=", "==", "!=", "!", ",", "\\", "\\,", "\\=", "metadata.name", "spec.nodeName", "status.phase"],
    (ApiError,),
)
def read_field_selector(data: bytes) -> object:
    return len(parse_fields(data.decode(errors="replace")))


_TREE: dict[str, Any] = {
    "metadata": {"name": "a", "labels": {"a.b/c": "d"}},
    "items": [{"a": 1, "b": [1, 2, 3]}, {"a": "x", "c": {"a": {"a": None}}}, {"a": 2.5, "d": True}],
}


@target(
    "jsonpath",
    mutate_text,
    [
        ".metadata.name",
        "{.items[*].a}",
        '.items[?(@.a=="x")].c',
        ".items[-1:].b[0,1]",
        "..a",
        r".metadata.labels.a\.b/c",
        ".items[::2]",
        ".metadata['name']",
        "$.items[?(@.d)].a",
    ],
    [
        ".",
        "..",
        "[",
        "]",
        "[*]",
        "*",
        "?(",
        "@",
        ")",
        "==",
        "!=",
        "<",
        ">=",
        "'",
        '"',
        ":",
        ",",
        "\\",
        "items",
        "a",
    ],
    (JSONPathError,),
)
def read_json_path(data: bytes) -> object:
    return len(JSONPath(data.decode(errors="replace")).find(_TREE))


@target(
    "cel",
    mutate_text,
    [
        'device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].index >= 2',
        "device.attributes['gpu.example.com'].?model.orValue('none').matches('^a[0-9]+$')",
        "device.capacity['gpu.example.com'].memory.compareTo(quantity('40Gi')) >= 0",
        "[1, 2, 3].map(x, x * 2).filter(x, x > 2).exists(x, x == 4) ? 1u : 2u",
        "cel.bind(a, [3, 1], a.sortBy(x, -x)) == [3, 1] && lists.range(3).sum() == 3",
        "'a,b'.split(',').join('-').replace('-', '').upperAscii() + 'x'.repeat(3)",
        "duration('1h30m') + duration('1s') > duration('2h') || "
        "timestamp('2024-02-29T12:00:00Z').getDayOfYear() > 1",
        "semver('1.2.3').isLessThan(semver('v2', true)) && has(device.attributes.unknown)",
        "{'a': 1, 'b': [1.5, null, true]}.transformMap(k, v, k == 'a', v) == {'a': 1}",
        "ip('1.2.3.4').family() == 4 && cidr('10.0.0.0/8').containsIP('10.1.1.1')",
        "url('https://a:80/b?c=d').getQuery() == {'c': ['d']} && '%s %d'.format(['a', 2]) == 'a 2'",
        "-9223372036854775808 % 3 == 1 || 0x7fffffffffffffff * 2 > 1 || int('5') / 0 == 1",
        "b'ab\\x00' + bytes('é') == b'x' && string(b'a') == 'a' && \"\"\"q\"\"\" != r'\\n'",
        "math.greatest([1, 2.5]) > math.least(1, 2) && sets.contains([1], [1.0]) && type(1) == int",
        "'h100'.find('[0-9]+') == '100' && 'a1b2'.findAll('[0-9]', 1) == ['1'] && [[1]].flatten() == [1]",
    ],
    [
        "device", ".", "?.", "[", "]", "[?", "(", ")", "{", "}", ",", ":", "?", "==", "!=", "<", "in", "&&",
        "||", "!",
        "-", "+", "*", "/", "%", "1", "1u", "0x", "1.5", "1e400", "'a'", "\"", "r'", "b'", "'''", "\\u12",
        "\\777",
        "true", "null", "x", "map", "filter", "all", "exists", "exists_one", "transformList", "cel.bind",
        "has",
        "size", "matches", "repeat", "format", "quantity", "semver", "duration", "timestamp", "int", "uint",
        "double", "string", "bytes", "dyn", "type", "optional.of", "optMap", "optFlatMap", "sum", "indexOf",
        "lastIndexOf", "substring", "slice", "reverse", "split", "join", "lists.range", "ip", "cidr", "url",
        "getFullYear", "'Europe/Berlin'", "99999999999999999999", "9223372036854775807",
        "-9223372036854775808",
    ],
    (CelError, CelCompileError),
)  # fmt: skip
def evaluate_cel(data: bytes) -> object:
    program = compile_expression(data.decode(errors="replace"), ["device"])
    return type(program.evaluate({"device": DEVICE})).__name__
