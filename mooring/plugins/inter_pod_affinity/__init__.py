"""Inter-pod affinity: the terms that concern a pod, filtering by required ones, scoring by preferred ones."""
