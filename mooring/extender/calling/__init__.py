"""Calling HTTP extenders, as kube-scheduler does.

`make_extenders` makes those of a configuration; a Scheduler is given them.
"""
