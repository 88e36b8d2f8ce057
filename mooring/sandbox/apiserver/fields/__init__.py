"""managedFields: which manager set which field."""
