"""Definitions with x-kubernetes-validations, objects that pass or violate them, and definitions whose rules
are invalid: asked of a real API server (data/rules.json) and of the embedded one."""

from tests.sandbox.apiserver.custom.rule_scenes.evaluation import rules
from tests.sandbox.apiserver.custom.rule_scenes.ratcheting import ratcheting
from tests.sandbox.apiserver.custom.rule_scenes.refusal import refused

RULE_SCENES = {"rules": rules, "refused rules": refused, "ratcheting": ratcheting}
