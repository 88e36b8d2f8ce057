"""IP addresses: one for every node and one for every pod."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

NODE_NETWORK = IPv4Network("10.0.0.0/10")
POD_NETWORK = IPv4Network("10.64.0.0/10")


class Addresses:
    """The addresses of a network, one after the other; those in use are passed over."""

    def __init__(self, network: IPv4Network) -> None:
        self._first = int(network.network_address) + 1
        self._size = network.num_addresses - 2
        self._next = 0
        self._used: set[str] = set()

    def take(self) -> str:
        """Return a free address."""
        for _ in range(self._size):
            number = self._first + self._next
            self._next = (self._next + 1) % self._size
            address = f"{number >> 24}.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
            if address not in self._used:
                self._used.add(address)
                return address
        raise OverflowError(f"all {self._size} addresses after {IPv4Address(self._first - 1)} are in use")

    def keep(self, address: str) -> None:
        """Mark an address as used."""
        self._used.add(address)

    def give_back(self, address: str) -> None:
        self._used.discard(address)
