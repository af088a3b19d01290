"""The links to this service's questions: where they lead, and the secrets that sign them."""

from typing import Final

from purgatory_async.durable.links.link import Link, random_signer
from purgatory_async.durable.links.secrets_file import read_secrets
from purgatory_async.service.settings.settings import Settings, SettingsError

PATH: Final = "/a/"
"""Below the public URL; a token follows."""


class Links:
    """Makes links, and opens them.

    Without a public URL none can be made, so there is none to open.

    Args:
        settings: The public URL, and the file of secrets.

    Raises:
        SettingsError: The file is unusable.
    """

    def __init__(self, settings: Settings) -> None:
        self._base: Final = None if settings.public_url is None else f"{settings.public_url}{PATH}"
        self._path: Final = settings.link_secret
        self._signer = random_signer()
        self.reload()

    def __repr__(self) -> str:
        return f"<Links base={self._base} signer={self._signer!r}>"

    @property
    def on(self) -> bool:
        """Whether links can be made."""
        return self._base is not None

    @property
    def of_this_run(self) -> bool:
        """Whether links end with the process, as does the secret that signs them."""
        return self.on and self._path is None

    def reload(self) -> None:
        """Read the file of secrets again.

        Raises:
            SettingsError: The file is unusable; the old secrets stay valid.
        """
        if self._path is not None:
            try:
                self._signer = read_secrets(self._path)
            except ValueError as error:
                raise SettingsError(f"link_secret: {error}") from None

    def url_of(self, link: Link) -> str:
        """Return the URL of a link, which must be on. O(its names)."""
        return f"{self._base}{self._signer.sign(link)}"

    def open(self, token: bytes) -> Link | None:
        """Return what a token says; None if it is none of ours, see `Signer.open`."""
        return self._signer.open(token)
