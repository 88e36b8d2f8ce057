"""Scheduling of pod groups: members are planned together and started together. See docs/groups.md."""
