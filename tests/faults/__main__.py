"""Run many seeds: `python -m tests.faults --seeds 1000 --steps 1000`; replay one: `--seed 42`."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from functools import partial

from tests.faults.runs import Result, run_seed
from tests.faults.shrink import shrink
from tests.faults.story import story


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="Number of seeds (default 100)")
    parser.add_argument("--first", type=int, default=0, help="First seed (default 0)")
    parser.add_argument(
        "--steps", type=int, default=1000, help="Requests per seed until faults stop (default 1000)"
    )
    parser.add_argument("--seed", type=int, help="Replay one seed and print its story")
    parser.add_argument("--lines", type=int, default=60, help="Lines of the log in a story (default 60)")
    parser.add_argument("--no-shrink", action="store_true", help="Keep all faults in stories")
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count(), help="Processes (default: one per core)"
    )
    parser.add_argument("--gangs", action="store_true", help="Let users create gangs, too")
    parser.add_argument(
        "--threads", action="store_true", help="Run on real time, with the core in its thread"
    )
    parser.add_argument("--mutations", action="store_true", help="Check that planted bugs are found")
    parser.add_argument("--real", action="store_true", help="Run rounds on etcd and kube-apiserver")
    parser.add_argument("--churn", action="store_true", help="Check that memory does not grow with pods")
    parser.add_argument("--rounds", type=int, default=5, help="Rounds with --real (default 5)")
    parser.add_argument("--pods", type=int, default=1000, help="Pods with --churn, or per round with --real")
    args = parser.parse_args()
    if args.real:
        from tests.faults.real import main as run_real

        return run_real(args.rounds, args.pods, args.first)
    if args.churn:
        from tests.faults.churn import main as churn

        return churn(args.pods)
    if args.mutations:
        from tests.faults.mutations import check_mutations

        return check_mutations(args.steps, args.seeds, args.workers)
    if args.seed is not None:
        return replay(args.seed, args.steps, args.lines, not args.no_shrink, args.gangs)
    seeds = range(args.first, args.first + args.seeds)
    return run_seeds(seeds, args.steps, args.workers, args.lines, args.gangs, args.threads)


def run_seeds(seeds: range, steps: int, workers: int, lines: int, gangs: bool, threads: bool) -> int:
    """Run seeds in parallel; return the exit code."""
    began, requests, bound, quiet, failing = time.monotonic(), 0, 0, 0, []
    for count, result in enumerate(results(seeds, steps, workers, gangs, threads), 1):
        requests += result.requests
        bound += result.bound
        quiet += result.quiet_points
        if result.violations:
            failing.append(result.seed)
            print(f"\rseed {result.seed}: {result.violations[0]}")
            if threads:
                print_story(result, steps, lines)
        seconds = time.monotonic() - began
        progress = f"{count}/{len(seeds)} seeds, {requests} steps, {bound} bindings, {len(failing)} failing"
        print(f"\r{progress}, {requests / seconds:.0f} steps/s ", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    seconds = time.monotonic() - began
    if gangs:
        print(f"gangs were checked at {quiet} quiet points")
    print(
        f"{len(seeds)} seeds, {requests} steps, {bound} bindings in {seconds:.0f} s "
        f"({requests / seconds:.0f} steps/s): {len(failing)} failing seeds"
    )
    if failing and not threads:
        more = " --gangs" if gangs else ""
        print(f"the story of the first, also with --seed {failing[0]} --steps {steps}{more}:")
        replay(failing[0], steps, lines, True, gangs)
    return 1 if failing else 0


def results(
    seeds: range, steps: int, workers: int, gangs: bool = False, threads: bool = False
) -> Iterator[Result]:
    """Yield the result of each seed as it is there."""
    with multiprocessing.get_context("spawn").Pool(workers, maxtasksperchild=50) as pool:
        run = partial(run_seed, steps=steps, gangs=gangs, threads=threads, story=threads)
        yield from pool.imap_unordered(run, seeds)


def replay(seed: int, steps: int, lines: int, shrinking: bool, gangs: bool) -> int:
    """Run one seed and print its story; return the exit code."""
    result = run_seed(seed, steps, story=True, gangs=gangs)
    if result.violations and shrinking:
        invariant = result.violations[0].invariant

        def fails(faults: list[int]) -> bool:
            return any(
                v.invariant == invariant for v in run_seed(seed, steps, faults, gangs=gangs).violations
            )

        kept = shrink(result.faults, fails)
        smaller = run_seed(seed, steps, kept, story=True, gangs=gangs)
        result = smaller if smaller.violations else result
    print_story(result, steps, lines)
    return 1 if result.violations else 0


def print_story(result: Result, steps: int, lines: int) -> None:
    for line in story(result, steps, lines):
        print(line)


if __name__ == "__main__":
    sys.exit(main())
