"""CEL as cel-go evaluates it in an API server: values, absorbed errors, error texts, bounds."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.cel import CelCompileError, CelError, DefaultMap, Quantity, Semver, compile_expression
from mooring.cel.values import native_bool

DEVICE = {
    "driver": "gpu.example.com",
    "allowMultipleAllocations": False,
    "attributes": DefaultMap(
        {"gpu.example.com": {"model": "a100", "index": 3, "healthy": True, "version": Semver.parse("2.1.0")}}
    ),
    "capacity": DefaultMap({"gpu.example.com": {"memory": Quantity.parse("40Gi")}}),
}
GPU = 'device.attributes["gpu.example.com"]'
MEMORY = 'device.capacity["gpu.example.com"].memory'


def evaluate(source: str) -> Any:
    return compile_expression(source, ["device"]).evaluate({"device": DEVICE})


@pytest.mark.parametrize(
    "source",
    [
        "1 + 2 * 3 == 7 && -7 / 2 == -3 && -7 % 2 == -1 && 7.0 / 2.0 == 3.5",
        "1 == 1.0 && 2u > 1 && 1 < 1.5 && !(1 == true)",
        f"{GPU}.index == 3.0 && {GPU}.index in [1, 3] && !({GPU}.index == '3')",
        f"has({GPU}.model) && !has({GPU}.nothing) && has(device.attributes.unknown)",
        '!("unknown" in device.attributes) && size(device.attributes["unknown"]) == 0',
        f'{GPU}.?model.orValue("none") == "a100" && {GPU}.?nothing.orValue(9) == 9',
        f"{GPU}[?'nothing'].hasValue() == false && optional.of(1).value() == 1",
        f"{GPU}.?model.optMap(m, m + 'x').orValue('') == 'a100x'",
        f"{MEMORY}.compareTo(quantity('40Gi')) == 0 && {MEMORY}.isGreaterThan(quantity('40G'))",
        f"{MEMORY}.add(quantity('1Gi')).isLessThan(quantity('42Gi')) && {MEMORY}.sub(5).asInteger() > 10",
        "quantity('0.5').isInteger() == false && isQuantity('5x') == false && sign(quantity('-1')) == -1",
        f"{GPU}.version == semver('2.1.0') && {GPU}.version.isLessThan(semver('v2.2', true))",
        "semver('1.0.0-alpha.2').isLessThan(semver('1.0.0-alpha.10')) && !isSemver('1.2') && "
        "isSemver('v01.2', true)",
        "semver('1.0.0-rc.1').isLessThan(semver('1.0.0')) && semver('1.0.0+b') == semver('1.0.0')",
        "[1, 2, 3].all(x, x > 0) && [1, 2, 3].exists_one(x, x == 2) && [1, 2].map(x, x * 2) == [2, 4]",
        f"{GPU}.all(k, v, k != 'no') && {{'a': 1}}.transformMap(k, v, v + 1) == {{'a': 2}}",
        "[3, 1, 2].sortBy(x, -x) == [3, 2, 1] && [[1], [2, 3]].flatten() == [1, 2, 3] && "
        "[1, 1].distinct() == [1]",
        "[1, 2, 3].sum() == 6 && ['b', 'a'].min() == 'a' && [1, 2].isSorted() && lists.range(2) == [0, 1]",
        "sets.contains([1, 2], [2.0]) && sets.intersects(['a'], ['a', 'b']) && !sets.equivalent([1], [2])",
        "'Ab'.lowerAscii() == 'ab' && 'a,b'.split(',') == ['a', 'b'] && ' x '.trim() == 'x' && "
        "'abc'.charAt(3) == ''",
        "'ab12'.find('[0-9]+') == '12' && 'a1b2'.findAll('[0-9]') == ['1', '2'] && "
        "'h100'.matches('^[ah]1?00$')",
        "'%s=%d (%.1f)'.format(['a', 2, 0.25]) == 'a=2 (0.2)' && ['a', 'b'].join('-') == 'a-b'",
        "duration('1h30m') > duration('89m') && timestamp('2024-02-29T12:00:00Z').getHours() == 12",
        "timestamp('2024-01-01T00:00:00Z') - timestamp('2023-12-31T23:00:00Z') == duration('1h')",
        "ip('10.0.0.1').family() == 4 && cidr('10.0.0.0/8').containsIP('10.1.2.3') && "
        "!isIP('::ffff:1.2.3.4')",
        "url('https://a.example:8443/p?q=1').getPort() == '8443' && isURL('nothing') == false",
        "format.dns1123Label().validate('Not_ok').hasValue() && "
        "!format.named('uuid').value().validate('x').hasValue() == false",
        f"cel.bind(gpu, {GPU}, gpu.index == 3 && gpu.healthy)",
        f"cel.bind(x, {GPU}.nothing, true || x == 1)",
        r"""r'a\d' == 'a\\d' && "\u00e9" == 'é' && b'\xff' == b'\377' && '''a'b''' == "a'b" """,
        "type(1) == int && string(1.5) == '1.5' && int('12') == 12 && bool('true')",
        "{'a': 1}.a == 1 && {1: 'x'}[1u] == 'x' && 'a' in {'a': 1}",
    ],
)
def test_true_expressions(source: str) -> None:
    assert evaluate(source) is True


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (f"false && {GPU}.nothing", False),
        (f"{GPU}.nothing == 1 && false", False),
        (f"true || {GPU}.nothing", True),
        (f"{GPU}.nothing || true", True),
        (f"[1, 0].exists(x, 1 / x == 1 && {GPU}.index == 3)", True),
        ("[0, 1].all(x, 1 / x == 2)", False),
        (f"{GPU}.healthy ? true : {GPU}.nothing", True),
    ],
)
def test_errors_that_do_not_decide_are_absorbed(source: str, expected: bool) -> None:
    assert evaluate(source) is expected


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (f"{GPU}.nothing == 1", "no such key: nothing"),
        (f"{GPU}.model.x", "no such key: x"),
        (f"{GPU}.model > 3", "no such overload"),
        (f"!{GPU}.model", "no such overload"),
        (f"{GPU}.model && true", "no such overload"),
        (f"{GPU}.model ? 1 : 2", "no such overload"),
        (f"{GPU}.index.startsWith('a')", "no such overload"),
        (f"{MEMORY} == 5", "no such overload"),
        (f"{MEMORY} == {MEMORY}.add(0)", "no such overload"),
        ("10 / (1 - 1) > 2", "division by zero"),
        ("10 % 0 == 1", "modulus by zero"),
        ("9223372036854775807 + 1 > 0", "integer overflow"),
        ("[1, 2][6] == 1", "index out of bounds: 6"),
        ("'abc'.substring(5) == ''", "index out of range: 5"),
        ("int('x') == 1", "type conversion error from 'string' to 'int'"),
        ("semver('word').major() == 1", "No Major.Minor.Patch elements found"),
        ("semver('1.02.3').major() == 1", 'Minor number must not contain leading zeroes "02"'),
        (
            "quantity('x') == quantity('1')",
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        ("quantity('0.5').asInteger() == 1", "cannot convert value to integer"),
        ("optional.none().value() == 1", "optional.none() dereference"),
        ("[].max() == 1", "max called on empty list"),
        (f"{GPU}.index.exists(x, true)", "got 'types.Int', expected iterable type"),
    ],
)
def test_error_texts(source: str, message: str) -> None:
    with pytest.raises(CelError) as failure:
        evaluate(source)
    assert str(failure.value) == message


def test_a_result_that_is_no_bool() -> None:
    with pytest.raises(CelError) as failure:
        native_bool(evaluate(f"{GPU}.model"))
    problem = "unsupported native conversion from string to 'bool'"
    assert str(failure.value) == f"CEL result of type string could not be converted to bool: {problem}"


@pytest.mark.parametrize(
    "source",
    [
        "",
        "1 +",
        "foo",
        "foo(1)",
        "'a'.foo()",
        "has(1)",
        "[1].all(1, true)",
        "'a\\q'",
        "99999999999999999999",
        "if",
        "((1)",
    ],
)
def test_what_does_not_compile(source: str) -> None:
    with pytest.raises(CelCompileError):
        compile_expression(source, ["device"])


@pytest.mark.parametrize(
    "source",
    [
        "lists.range(90000).all(x, lists.range(1000).all(y, true))",
        "lists.range(1000).map(x, lists.range(1000).map(y, lists.range(1000))).size() > 0",
        "lists.range(5000).exists(x, x < 0 || [x].exists(y, lists.range(1000).exists(z, false)))",
    ],
)
def test_work_is_bounded(source: str) -> None:
    with pytest.raises(CelError, match="actual cost limit exceeded"):
        evaluate(source)


def test_hostile_patterns_take_linear_time() -> None:
    assert evaluate("'" + "a" * 5000 + "!'.matches('^(a+)+$')") is False


def test_hostile_nesting_is_refused() -> None:
    for source in ("(" * 5000, "!" * 5000 + "true", "-" * 5000 + "1", "[" * 5000):
        with pytest.raises(CelCompileError):
            compile_expression(source, ["device"])


@given(st.text(max_size=60))
def test_any_text_compiles_or_is_refused(text: str) -> None:
    try:
        program = compile_expression(text, ["device"])
    except CelCompileError:
        return
    with contextlib.suppress(CelError):
        program.evaluate({"device": DEVICE})
