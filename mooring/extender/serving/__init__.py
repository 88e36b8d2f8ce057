"""An extender of one's own: Python functions and plugins behind HTTP, for any scheduler to call."""
