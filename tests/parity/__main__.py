"""python -m tests.parity [DIR…]: do we decide as kube-scheduler does?

Replays every scenario of the given directories (the project's own copy by default), prints how many
decisions agree per category and the first differences of each, and exits 1 if there is any.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.parity.corpus import DATA, Category, files, replay_file


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.parity", description=__doc__)
    parser.add_argument("directories", nargs="*", type=Path, default=[DATA], metavar="DIR")
    parser.add_argument("--show", type=int, default=3, help="differences to print per category")
    parser.add_argument("--no-reuse", action="store_true", help="compute everything anew in each cycle")
    options = parser.parse_args()
    categories = []
    print(f"{'category':<14}{'scenarios':>10}{'agree':>8}{'total':>8}")
    for path in files(options.directories):
        category = replay_file(path, not options.no_reuse)
        categories.append(category)
        print(
            f"{category.name:<14}{category.scenarios:>10}{category.agree:>8}{category.total:>8}", flush=True
        )
        show(category, options.show)
    agree, total = sum(c.agree for c in categories), sum(c.total for c in categories)
    if not total:
        print(f"no scenarios (*.jsonl.gz) in {', '.join(map(str, options.directories))}")
        return 2
    count = sum(c.scenarios for c in categories)
    print(f"{'all':<14}{count:>10}{agree:>8}{total:>8}  {100 * agree / total:.2f} %")
    return 0 if agree == total else 1


def show(category: Category, most: int) -> None:
    for where, (what, expected, found) in category.differences[:most]:
        print(f"  {where}: {what}\n    expected {shorten(expected)}\n    found    {shorten(found)}")
    if len(category.differences) > most:
        print(f"  … and {len(category.differences) - most} more differences")


def shorten(value: object, limit: int = 600) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[:limit] + "…"


if __name__ == "__main__":
    raise SystemExit(main())
