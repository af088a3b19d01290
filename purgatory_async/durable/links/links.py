"""The links to the questions of a state: where they lead, and the secrets that sign them."""

from collections.abc import Callable
from typing import Final

from purgatory_async.durable.links.link import Link, Signer
from purgatory_async.durable.links.public_url import PublicUrl

PATH: Final = "/a/"
"""Below the public URL; a token follows."""


class Links:
    """Makes links, and opens them.

    Without a public URL none can be made, so there is none to open.

    Args:
        url: The public URL; None for no links.
        signers: Returns what signs and verifies them, from the secrets as they are now.

    Raises:
        ValueError: The secrets are unusable.
    """

    def __init__(self, url: PublicUrl | None, signers: Callable[[], Signer]) -> None:
        self._base: Final = None if url is None else f"{url}{PATH}"
        self._signers: Final = signers
        self._signer = signers()

    def __repr__(self) -> str:
        return f"<Links base={self._base} signer={self._signer!r}>"

    @property
    def on(self) -> bool:
        """Whether links can be made."""
        return self._base is not None

    def reload(self) -> None:
        """Read the secrets again.

        Raises:
            ValueError: They are unusable; the old ones stay valid.
        """
        self._signer = self._signers()

    def url_of(self, link: Link) -> str:
        """Return the URL of a link, which must be on. O(its names)."""
        return f"{self._base}{self._signer.sign(link)}"

    def open(self, token: bytes) -> Link | None:
        """Return what a token says; None if it is none of ours, see `Signer.open`."""
        return self._signer.open(token)
