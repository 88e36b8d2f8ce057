"""Strategic merge patches: merge patches that know which lists are merged, and by which key.

In addition to values, a patch may hold directives: `$patch` (replace, delete), `$retainKeys`,
`$deleteFromPrimitiveList/<list>` and `$setElementOrder/<list>`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from mooring.sandbox.apiserver.fields.go_text import go_type, go_value
from mooring.sandbox.apiserver.kinds.merge_keys import REPLACED, Merging, merging_of
from mooring.sandbox.apiserver.kinds.types import ListOf, ObjectType, Type
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.patches.patch_errors import malformed

DIRECTIVE: Final = "$patch"
RETAIN_KEYS: Final = "$retainKeys"
DELETE_PRIMITIVES: Final = "$deleteFromPrimitiveList"
ELEMENT_ORDER: Final = "$setElementOrder"


def apply_strategic_patch(type: ObjectType, patch: Tree, tree: Tree) -> Tree:
    """Apply the patch to a copy of the tree. Raises ApiError."""
    return _merge_object(type, tree, patch)


def _merge_object(type: ObjectType | None, original: Tree, patch: Tree) -> Tree:
    if DIRECTIVE in patch:
        return _directed(patch)
    merged = _retained(original, patch)
    rest = {name: value for name, value in patch.items() if name != RETAIN_KEYS}
    for name in [name for name in rest if name.startswith(ELEMENT_ORDER)]:
        order, field = rest.pop(name), _field_of(name, ELEMENT_ORDER)
        _merge_in_order(type, field, order, merged, rest)
    for name, value in rest.items():
        if name.startswith(DELETE_PRIMITIVES):
            _delete_primitives(_field_of(name, DELETE_PRIMITIVES), value, merged)
        elif value is None:
            merged.pop(name, None)
        else:
            _merge_member(type, name, value, merged)
    return merged


def _directed(patch: Tree) -> Tree:
    """Apply the `$patch` directive of an object."""
    directive = patch[DIRECTIVE]
    if directive == "replace":
        return {name: value for name, value in patch.items() if name != DIRECTIVE}
    if directive == "delete":
        return {}
    raise malformed(f"unknown patch type: {go_value(directive)} in map: {go_value(patch)}")


def _retained(original: Tree, patch: Tree) -> Tree:
    """Keep only the members of the original that `$retainKeys` lists, if it is present."""
    if RETAIN_KEYS not in patch:
        return dict(original)
    kept = patch[RETAIN_KEYS]
    directives = (RETAIN_KEYS, DELETE_PRIMITIVES, ELEMENT_ORDER)
    members = [name for name, value in patch.items() if value is not None and not name.startswith(directives)]
    names = {name for name in kept if isinstance(name, str)} if isinstance(kept, list) else set[str]()
    if not isinstance(kept, list) or any(name not in names for name in members):
        raise malformed("invalid patch format of retainKeys")
    return {name: value for name, value in original.items() if name in names}


def _field_of(name: str, directive: str) -> str:
    """Return the list that a directive such as `$setElementOrder/containers` is about."""
    prefix, slash, field = name.partition("/")
    if prefix != directive or not slash:
        which = "primitive list" if directive == DELETE_PRIMITIVES else "setElementOrder list"
        raise malformed(f"invalid patch format of {which}")
    return field


def _merge_member(type: ObjectType | None, name: str, value: Any, merged: Tree) -> None:
    """Merge one member of a patch into an object."""
    present = merged.get(name)
    field = None if type is None else type.fields.get(name)
    merging = REPLACED if type is None else merging_of(type, name)
    if isinstance(present, dict) and isinstance(value, dict) and "replace" not in merging.patch_strategy:
        held = field.type if field is not None else None
        merged[name] = _merge_object(held if isinstance(held, ObjectType) else None, present, value)
    elif isinstance(present, list) and isinstance(value, list):
        if "merge" in merging.patch_strategy:
            merged[name] = _merge_list(_item_type(field.type if field else None), merging, present, value)
        else:
            merged[name] = value
    elif isinstance(present, dict) and isinstance(value, dict):
        merged[name] = value
    else:
        _set_clean(merged, name, value)


def _set_clean(merged: Tree, name: str, value: Any) -> None:
    """Set a value where there was none of its type to merge with."""
    if isinstance(value, dict) and DIRECTIVE in value:
        merged.pop(name, None)
    else:
        merged[name] = _clean(value)


def _clean(value: Any) -> Any:
    """Return a value without nulls and without whatever carries a `$patch` directive."""
    if isinstance(value, dict):
        return {
            name: _clean(held)
            for name, held in value.items()
            if held is not None and not (isinstance(held, dict) and DIRECTIVE in held)
        }
    if isinstance(value, list):
        return [_clean(item) for item in value if not (isinstance(item, dict) and DIRECTIVE in item)]
    return value


def _item_type(type: Type | None) -> ObjectType | None:
    return type.item if isinstance(type, ListOf) and isinstance(type.item, ObjectType) else None


def _delete_primitives(field: str, values: Any, merged: Tree) -> None:
    present = merged.get(field)
    if isinstance(present, list) and isinstance(values, list):
        _check_same_type(present, values)
        gone = {item for item in values if not isinstance(item, dict)}
        merged[field] = [item for item in present if isinstance(item, dict) or item not in gone]
    elif values is None:
        merged.pop(field, None)


# ---- lists ----------------------------------------------------------------------------------------

Key = Callable[[Any], Any]
"""Return what identifies the items of a list: a member of objects, else the value itself."""


def _key_of(merge_key: str) -> Key:
    def key(item: Any) -> Any:
        value = item
        if merge_key:
            if not isinstance(item, dict):
                raise malformed(f"expected a map[string]interface {{}}, but received a {go_type(item)}")
            if merge_key not in item:
                raise malformed(f"map: {go_value(item)} does not contain declared merge key: {merge_key}")
            value = item[merge_key]
        if isinstance(value, dict | list):
            raise malformed(f"merge key {merge_key}: expected a scalar, but received a {go_type(value)}")
        return value

    return key


def _check_same_type(*lists: list[Any]) -> None:
    """Check that the items of a merged list are of one type, and not lists themselves."""
    types = {go_type(item) for items in lists for item in items}
    if "[]interface {}" in types:
        raise malformed("lists of lists are not supported")
    if len(types) > 1:
        shown = " ".join(go_value(items) for items in lists)
        raise malformed(f"list element types are not identical: [{shown}]")


def _merge_list(
    type: ObjectType | None, merging: Merging, original: list[Any], patch: list[Any]
) -> list[Any]:
    """Merge two lists: items of the patch in its order, others at their place among them."""
    _check_same_type(original, patch)
    if not any(isinstance(item, dict) for item in (original or patch)[:1]):
        return _in_order(list(dict.fromkeys(original + patch)), patch, original, _key_of(""))
    key = _key_of(merging.merge_key)
    original, patch = _without_special(original, patch, key)
    return _in_order(_merge_items(type, original, patch, key), patch, original, key)


def _without_special(original: list[Any], patch: list[Any], key: Key) -> tuple[list[Any], list[Any]]:
    """Apply the directives among the items of a patch; return what is left of the list, and of the patch."""
    plain, gone, replace = [], set(), False
    for item in patch:
        directive = item.get(DIRECTIVE)
        if DIRECTIVE not in item:
            plain.append(item)
        elif directive == "delete":
            gone.add(key(item))
        elif directive == "replace":
            replace = True
        elif directive == "merge":
            raise malformed("merging lists cannot yet be specified in the patch")
        else:
            raise malformed(f"unknown patch type: {go_value(directive)} in map: {go_value(item)}")
    if replace:
        return plain, []
    return [item for item in original if key(item) not in gone] if gone else original, plain


def _merge_items(type: ObjectType | None, original: list[Any], patch: list[Any], key: Key) -> list[Any]:
    """Return the items of both lists, merged where their keys are equal."""
    merged = list(original)
    places = {key(item): place for place, item in reversed(list(enumerate(original)))}
    for item in patch:
        place = places.get(key(item))
        if place is None:
            places[key(item)] = len(merged)
            merged.append(item)
        else:
            merged[place] = _merge_object(type, merged[place], item)
    return merged


def _in_order(items: list[Any], ordering: Sequence[Any], original: Sequence[Any], key: Key) -> list[Any]:
    """Order items like `wanted`; those that it does not name keep their place in the original."""
    order, places = _places(ordering, key), _places(original, key)
    named = sorted((item for item in items if key(item) in order), key=lambda item: order[key(item)])
    others = [item for item in items if key(item) not in order]
    waiting = deque(sorted(others, key=lambda item: places.get(key(item), len(places))))
    result: list[Any] = []
    for item in named:
        place = places.get(key(item))
        while place is not None and waiting and places.get(key(waiting[0]), place) < place:
            result.append(waiting.popleft())
        result.append(item)
    return [*result, *waiting]


def _places(items: Sequence[Any], key: Key) -> dict[Any, int]:
    return {key(item): place for place, item in reversed(list(enumerate(items)))}


def _merge_in_order(type: ObjectType | None, field: str, order: Any, merged: Tree, patch: Tree) -> None:
    """Merge a list of a patch, which may be absent, and order it by `$setElementOrder`; removed from the
    patch."""
    original, patched = merged.get(field), patch.get(field)
    for items in (order, *(found for found in (original, patched) if found is not None)):
        if not isinstance(items, list):
            raise malformed(f"expected a []interface {{}}, but received a {go_type(items)}")
    if type is None or field not in type.fields:
        name = "map" if type is None else type.name
        raise malformed(f'unable to find api field in struct {name} for the json field "{field}"')
    merging = merging_of(type, field)
    key = _key_of(merging.merge_key)
    _check_order(patched or [], order, key)
    if original is None and patched is None:
        return
    if original is None or patched is None:
        items = original if patched is None else _clean(patched)
    elif "merge" in merging.patch_strategy:
        items = _merge_list(_item_type(type.fields[field].type), merging, original, patched)
    else:
        items = patched
    merged[field] = _in_order(items or [], order, original or [], key)
    patch.pop(field, None)


def _check_order(patch: list[Any], order: list[Any], key: Key) -> None:
    """Check that the items of a patch are in the order that it sets."""
    kept = deque(item for item in patch if not (isinstance(item, dict) and item.get(DIRECTIVE) == "delete"))
    ahead = deque(order)
    while kept and ahead:
        directed = isinstance(kept[0], dict) and DIRECTIVE in kept[0]
        if directed or key(kept[0]) == key(ahead.popleft()):
            kept.popleft()
    if kept and order:
        raise malformed(
            f"The order in patch list:\n{go_value(patch)}\n doesn't match {ELEMENT_ORDER} list:\n"
            f"{go_value(order)}\n"
        )
