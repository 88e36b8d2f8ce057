"""Whether a node has enough free resources, and scores by its utilization."""
