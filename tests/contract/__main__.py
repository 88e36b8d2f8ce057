"""Write the text of the public API: `python -m tests.contract`."""

from tests.contract import MODULES, render, text_file

for module in MODULES:
    text_file(module).write_text(render(module))
