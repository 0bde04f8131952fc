# SPDX-License-Identifier: Apache-2.0
"""What the ranks of a group tell each other through the store of the group.

A rank never blocks in the store: it asks again and again, so that it notices its time limit and the death of a peer.
"""

from typing import Any, Callable, Dict, List, Union

from ._errors import StoreError
from ._library import library
from ._pauses import Pauses


class Exchange:
    """Values by name and rank. The names are those of one generation of a group."""

    def __init__(self, store: Any, prefix: str, rank: int) -> None:
        self._store = store
        self._prefix = prefix
        self._rank = rank

    def post(self, name: str, value: str) -> None:
        """Set this rank's value of a name."""
        key = self._key(name, self._rank)
        self._ask(self._store.set, key, value)
        self._ask(self._store.add, f"{key}/posted", 1)

    def posted(self, name: str, rank: int) -> bool:
        """Return whether a rank has set its value. Every kind of store of every torch can add without blocking."""
        return bool(self._ask(self._store.add, f"{self._key(name, rank)}/posted", 0) > 0)

    def get(self, name: str, rank: int) -> str:
        """Return the value that a rank has set."""
        return bytes(self._ask(self._store.get, self._key(name, rank))).decode()

    def is_first(self, name: str) -> bool:
        """Return whether no rank has asked this before for the name."""
        return bool(self._ask(self._store.add, self._key(name, "first"), 1) == 1)

    def remove(self, name: str) -> None:
        """Remove this rank's value."""
        key = self._key(name, self._rank)
        self._ask(self._store.delete_key, key)
        self._ask(self._store.delete_key, f"{key}/posted")

    def collect(self, name: str, ranks: List[int], poll: Callable[[List[int]], None]) -> Dict[int, str]:
        """Return the values of the ranks. While some are missing, poll is called with these; it may raise."""
        values: Dict[int, str] = {}
        pauses = Pauses(library())
        missing = list(ranks)
        while True:
            for rank in list(missing):
                if self.posted(name, rank):
                    values[rank] = self.get(name, rank)
                    missing.remove(rank)
            if not missing:
                return values
            poll(missing)
            pauses.wait()

    def _ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function of the store."""
        try:
            return function(*arguments)
        except RuntimeError as error:
            raise StoreError(f"torch's store does not answer ({str(error).splitlines()[0]}): the process that hosts it, "
                             "usually rank 0, may have ended") from None

    def _key(self, name: str, rank: Union[int, str]) -> str:
        return f"ddlemu/{self._prefix}/{name}/{rank}"
