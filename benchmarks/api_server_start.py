"""How long a test waits for the fixture `mooring_api`: wall-clock and CPU time of each start.

    python -m benchmarks.api_server_start [--rounds N]

The first start in a process loads the kinds and makes a certificate. Importing Mooring comes before and is
printed apart.
"""

from __future__ import annotations

import argparse
import time


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20, metavar="N", help="starts (default 20)")
    rounds = parser.parse_args().rounds
    began = time.perf_counter()
    from mooring.testing.api_server import ApiServer

    print(f"import    {time.perf_counter() - began:.2f} s")
    walls, costs = [], []
    for _ in range(rounds):
        wall, cost = time.perf_counter(), time.process_time()
        server = ApiServer()
        walls.append((time.perf_counter() - wall) * 1000)
        costs.append((time.process_time() - cost) * 1000)
        server.close()
    print(f"first     {walls[0]:.0f} ms, {costs[0]:.0f} ms of CPU")
    rest, spent = sorted(walls[1:]) or walls, sorted(costs[1:]) or costs
    middle = len(rest) // 2
    print(f"fastest   {rest[0]:.0f} ms, {spent[0]:.0f} ms of CPU")
    print(f"median    {rest[middle]:.0f} ms, {spent[middle]:.0f} ms of CPU")
    print(f"slowest   {rest[-1]:.0f} ms, {spent[-1]:.0f} ms of CPU")


if __name__ == "__main__":
    main()
