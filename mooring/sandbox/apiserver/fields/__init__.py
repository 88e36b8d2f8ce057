"""managedFields: who set which field."""
