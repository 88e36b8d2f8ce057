"""Reports of runs: one HTML page without scripts, and exports for other tools."""
