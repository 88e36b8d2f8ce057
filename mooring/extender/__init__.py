"""HTTP scheduler extenders: called by this scheduler, and plugins served as one to another."""
