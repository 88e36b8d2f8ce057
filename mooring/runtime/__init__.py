"""Running a profile: the engine behind the plugin contract."""
