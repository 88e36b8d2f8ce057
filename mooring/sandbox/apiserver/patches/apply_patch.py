"""Applying a patch to an object. Server-side apply is in `apply.py`."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

import msgspec

from mooring.api.patches import merge_patch
from mooring.client.api_errors import ApiError
from mooring.client.port import PatchType
from mooring.sandbox.apiserver.errors import bad_request
from mooring.sandbox.apiserver.fields.go_text import go_value, json_name
from mooring.sandbox.apiserver.kinds.codec import Codec, Decoded, FieldValidation
from mooring.sandbox.apiserver.kinds.decode_errors import duplicate_fields, too_large
from mooring.sandbox.apiserver.objects import Tree, encode_json
from mooring.sandbox.apiserver.patches.json_patch import apply_json_patch, read_json_patch
from mooring.sandbox.apiserver.patches.patch_errors import bad_result, malformed, wrong_type
from mooring.sandbox.apiserver.patches.strategic import apply_strategic_patch

_STRICT: Final = "strict decoding error: "
_MISMATCH: Final = re.compile(r"json: cannot unmarshal (\w+)(?: \S+)? into .* of type (.*)")
_KINDS: Final = {"array": "slice", "object": "map", "number": "int64"}
_deterministic = msgspec.json.Encoder(order="deterministic").encode


class Patch(NamedTuple):
    """A parsed patch. `problems` cause warnings or an error, depending on the field validation."""

    kind: PatchType
    content: Any
    validation: FieldValidation
    problems: list[str]


def read_patch(kind: PatchType, data: bytes, validation: FieldValidation) -> Patch:
    """Parse the patch in the body of a request. Raises ApiError."""
    prefix = "" if kind is PatchType.STRATEGIC else "error decoding patch: "
    try:
        content = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        place = "struct field jsonPatchOp.value" if kind is PatchType.JSON else "value"
        raise bad_request(prefix + _json_problem(data, str(error), place)) from None
    problems: list[str] = []
    if kind is PatchType.JSON:
        content, problems = read_json_patch([] if content is None else content, validation)
    elif not isinstance(content, dict | None):
        raise wrong_type(json_name(content), "map[string]interface {}", prefix)
    elif content is None and kind is PatchType.MERGE:
        raise bad_request("Invalid JSON Patch")
    if validation is not FieldValidation.IGNORE and len(data) != len(encode_json(content)):
        words = "json patch duplicate field" if kind is PatchType.JSON else "duplicate field"
        problems += [f'{words} "{path}"' for path in duplicate_fields(data)]
    return Patch(kind, content, validation, problems)


def _json_problem(data: bytes, problem: str, place_of_numbers: str) -> str:
    """Return what is wrong with JSON in Go's words."""
    if problem.startswith("Number out of range"):
        return f"json: cannot unmarshal number {too_large(data)} into Go {place_of_numbers} of type float64"
    place = re.search(r"\(byte (\d+)\)", problem)
    if place is None:
        return "unexpected end of JSON input"
    if "trailing characters" in problem:  # Go counts from one
        return f"invalid character '{chr(data[int(place[1]) - 1])}' after top-level value"
    return f"invalid character '{chr(data[int(place[1])])}' looking for beginning of value"


def apply_patch(patch: Patch, codec: Codec, tree: Tree) -> Decoded:
    """Apply a patch to `tree`, which is changed; return the result and warnings. Raises ApiError."""
    try:
        result = _result(patch, codec, tree)
        if not isinstance(result, dict):
            raise bad_result(_shown(patch, result), "json: cannot unmarshal array into Go value")
        return _decoded(patch, codec, result)
    except RecursionError:
        raise malformed("the patch nests too deeply") from None


def _result(patch: Patch, codec: Codec, tree: Tree) -> Any:
    if patch.kind is PatchType.JSON:
        return apply_json_patch(patch.content, tree)
    if patch.kind is PatchType.MERGE:
        return merge_patch(tree, patch.content)
    assert codec.type is not None, "strategic merge patches are not offered for custom resources"
    result = apply_strategic_patch(codec.type, patch.content or {}, tree)
    return {
        **result,
        "kind": tree["kind"],
        "apiVersion": tree["apiVersion"],
    }  # problems of the patch itself are not reported


def _decoded(patch: Patch, codec: Codec, result: Tree) -> Decoded:
    """Decode the result as an object of its kind. Errors are attributed to the patch."""
    try:
        decoded = codec.sift(result, patch.validation)
    except ApiError as error:
        raise no_object(patch, result, error) from None
    if patch.problems and patch.validation is FieldValidation.STRICT:
        raise bad_result(_shown(patch, result), _STRICT + ", ".join(patch.problems + decoded.warnings))
    return Decoded(decoded.tree, patch.problems + decoded.warnings)


def no_object(patch: Patch, result: Tree, error: ApiError) -> ApiError:
    """Return the error about a patch, from the error about its result."""
    problem = problem_of(error)
    if patch.kind is PatchType.STRATEGIC and not problem.startswith(_STRICT):
        problem = conversion_problem(problem)
    return bad_result(_shown(patch, result), problem)


def problem_of(error: ApiError) -> str:
    """Return the problem in a codec's error, without the text around it."""
    return error.message.partition(" cannot be handled as a ")[2].partition(": ")[2] or error.message


def _shown(patch: Patch, result: Any) -> str:
    if patch.kind is PatchType.STRATEGIC:
        return go_value(patch.content)
    return _deterministic(result).decode()


def conversion_problem(problem: str) -> str:
    """Describe a value of a wrong type as the conversion of trees does, not the JSON decoder."""
    match = _MISMATCH.search(problem)
    if match is None:
        return problem
    value, expected = _KINDS.get(match[1], match[1]), match[2]
    if expected == "intstr.IntOrString":
        return f"json: cannot unmarshal {match[1]} into Go value of type int32"
    if match[1] == "number" and expected.startswith("int"):
        return f"cannot convert float64 to {expected}"
    if match[1] == "number" and expected == "string":  # Go converts integers to text; nearly all are
        return "cannot convert int64 to string"
    if expected.startswith("[]"):
        return f"cannot restore slice from {value}"
    if expected.startswith("map["):
        return f"cannot restore map from {value}"
    return f"cannot restore struct from: {value}" if "." in expected else f"unrecognized type: {expected}"
