"""Parts of objects with paths of their own. Status needs nothing here: it is the object, written in part."""
