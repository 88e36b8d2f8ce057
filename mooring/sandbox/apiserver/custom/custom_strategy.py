"""The strategy of custom resources, by the definition of their version."""

from __future__ import annotations

from functools import cached_property
from typing import Final

from mooring.sandbox.apiserver.context.calls import TooLongError
from mooring.sandbox.apiserver.context.strategy import Strategy
from mooring.sandbox.apiserver.context.traits import Traits
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.custom.converted_fields import ConvertedFields
from mooring.sandbox.apiserver.custom.custom_metadata import check_embedded, finalizer_warnings
from mooring.sandbox.apiserver.custom.lists import check_lists
from mooring.sandbox.apiserver.custom.rule_evaluation import Verdict, evaluate_rules
from mooring.sandbox.apiserver.custom.rule_values import TooCostlyError
from mooring.sandbox.apiserver.custom.rules import LONG_RULES, RuleNode, rule_tree, rules_length
from mooring.sandbox.apiserver.custom.schema import Schema
from mooring.sandbox.apiserver.custom.schema_check import NEW, check, json_type
from mooring.sandbox.apiserver.errors import Cause, forbidden, invalid_value
from mooring.sandbox.apiserver.objects import Tree, dig

_MOST_REPLICAS: Final = 2**31 - 1
_AT_ONCE: Final = 5_000
"""What rules may cost on the event loop: some milliseconds."""
_BLOCKING: Final = frozenset(
    f"FieldValue{reason}" for reason in ("NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid")
)
_NOT_CHECKED: Final = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to "
    "complete validation"
)
_NOT_CONTENT: Final = ("apiVersion", "kind", "metadata")


class CustomStrategy(Strategy):
    """Status and scale subresources if the definition has them; values validated by its schema."""

    def __init__(
        self,
        traits: Traits,
        tree: Tree,
        schema: Schema,
        *,
        terminating: bool,
        fields: ConvertedFields | None = None,
    ) -> None:
        super().__init__(traits)
        self._fields = fields
        self._tree = tree
        self._schema = schema
        self._status_schema = schema.member("status")
        self._terminating = terminating

    def select(self, obj: Tree) -> tuple[str, ...]:
        return super().select(obj) if self._fields is None else self._fields.select(obj)

    def prepare_create(self, write: Write, obj: Tree) -> None:
        if self._terminating:
            resource = write.resource
            why = "create not allowed while custom resource definition is terminating"
            raise forbidden(resource.group, resource.plural, write.name, why)
        super().prepare_create(write, obj)

    def prepare_status(self, write: Write, obj: Tree, old: Tree) -> None:
        """Keep everything but the status, including the metadata except for managedFields."""
        super().prepare_status(write, obj, old)
        managed = obj["metadata"].get("managedFields")
        obj["metadata"] = {name: value for name, value in old["metadata"].items() if name != "managedFields"}
        if managed:
            obj["metadata"]["managedFields"] = managed

    def spec_of(self, obj: Tree) -> object:
        """Count every change; a status with its own subresource does not change here."""
        return {name: value for name, value in obj.items() if name not in _NOT_CONTENT}

    def validate_create(self, obj: Tree) -> list[Cause]:
        return super().validate_create(obj) + self._validate(obj, None)

    def validate_update(self, obj: Tree, old: Tree) -> list[Cause]:
        return self._validate(obj, old)

    def _validate(self, obj: Tree, old: Tree | None) -> list[Cause]:
        causes = check(self._schema, obj, "", NEW if old is None else old)
        causes += self._check_replicas(obj, "spec") + self._check_replicas(obj, "status")
        causes += check_embedded(obj, self._schema)
        if old is None or not any(check_lists(old, self._schema)):
            causes += check_lists(obj, self._schema)
        return causes

    def validate_status(self, obj: Tree, old: Tree) -> list[Cause]:
        """Kubernetes reports fields of the status as if it were the whole object."""
        causes: list[Cause] = []
        if self._status_schema is not None and "status" in obj:
            for cause in check(self._status_schema, obj["status"], "", old.get("status", NEW)):
                field = f"status.{cause.field}" if cause.field else "status"
                causes.append(cause if cause.field == "<nil>" else cause._replace(field=field))
            causes += check_embedded(obj["status"], self._status_schema, "status")
            causes += check_lists(obj["status"], self._status_schema, "status")
        return causes + self._check_replicas(obj, "status")

    @cached_property
    def _rule_tree(self) -> RuleNode | None:
        return rule_tree(self._tree)

    @cached_property
    def _is_compiled(self) -> bool:
        """Whether the rules are compiled, or that takes so little time that it does not matter."""
        return rules_length(self._tree) <= LONG_RULES

    def finish_validation(
        self, write: Write, obj: Tree, old: Tree | None, causes: list[Cause]
    ) -> list[Cause]:
        """Evaluate the rules of the definition, unless other errors keep them from being meaningful."""
        found = self._evaluate(write, obj, old, causes)
        if not causes and not found and write.subresource != "status":
            write.warnings += finalizer_warnings(obj["metadata"], None if old is None else old["metadata"])
        return found

    def _evaluate(self, write: Write, obj: Tree, old: Tree | None, causes: list[Cause]) -> list[Cause]:
        rules = self._rule_tree
        if rules is None:
            return []
        if any(cause.reason in _BLOCKING for cause in causes):
            return [invalid_value("<nil>", None, _NOT_CHECKED)]
        verdict = self._judge(write, rules, obj, old)
        write.warnings += verdict.warnings
        return verdict.causes

    def _judge(self, write: Write, rules: RuleNode, obj: Tree, old: Tree | None) -> Verdict:
        if not write.api.may_take_long:
            if not self._is_compiled:
                raise TooLongError
            try:
                return evaluate_rules(rules, obj, old, _AT_ONCE)
            except TooCostlyError:
                raise TooLongError from None
        verdict = evaluate_rules(rules, obj, old)
        self._is_compiled = True
        return verdict

    def _check_replicas(self, obj: Tree, part: str) -> list[Cause]:
        scale = self.traits.scale
        path = scale.replicas if part == "spec" else scale.status_replicas
        if not scale.custom:
            return []
        field, replicas = "." + ".".join(path), dig(obj, *path)
        if replicas is None:
            return []
        if json_type(replicas) != "integer":
            why = f"{field} accessor error: {replicas} is of the type {json_type(replicas)}, expected int64"
            return [invalid_value(field, 0, why)]
        if replicas < 0:
            return [invalid_value(field, replicas, "should be a non-negative integer")]
        if replicas > _MOST_REPLICAS:
            return [invalid_value(field, replicas, f"should be less than or equal to {_MOST_REPLICAS}")]
        return []
