"""Pod topology spread: the constraints, counting by domain, filtering and scoring."""
