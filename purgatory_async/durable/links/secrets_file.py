"""The file of the secrets that sign links: a secret a line. The first one signs, all verify.

To replace a secret, put the new one before it, and remove the old one once its links are no longer needed. An error
names the file and line but quotes neither, because a misplaced secret would end up in a log.
"""

from pathlib import Path
from typing import Final

from purgatory_async.durable.links.link import Signer
from purgatory_async.durable.private_file import read_private

MIN_SECRET: Final = 32
MAX_SECRETS: Final = 4
MAX_FILE: Final = 1 << 16


def read_secrets(path: Path) -> Signer:
    """Read a file of secrets, as `read_private` does.

    Raises:
        ValueError: The file is unreadable, open to others, or has a mistake; the message names it.
    """
    return parse_secrets(read_private(path, MAX_FILE), str(path))


def parse_secrets(text: bytes, name: str) -> Signer:
    r"""Parse the text of a file of secrets; errors name the file.

    Raises:
        ValueError: A line is too short or no text, a secret is repeated, or there are none or too many.

    Example:
        >>> parse_secrets(b"uWrjLQX8HnQVpD4dk3JqWc5YvTn8RbXz\n", "secrets")
        <Signer 1>
    """
    lines: dict[bytes, int] = {}
    for number, line in enumerate(text.split(b"\n"), 1):
        secret = line.strip(b" \t\r")
        if not secret:
            continue
        place = f"{name} line {number}"
        try:
            characters = secret.decode()
        except UnicodeDecodeError:
            characters = "\0"
        if not characters.isprintable():
            raise ValueError(f"{place} must have only printable characters in UTF-8, got another one")
        if len(characters) < MIN_SECRET:
            raise ValueError(f"{place} must have at least {MIN_SECRET} characters, got {len(characters)}")
        if secret in lines:
            raise ValueError(f"{place} repeats the secret of line {lines[secret]}")
        lines[secret] = number
    if not 1 <= len(lines) <= MAX_SECRETS:
        raise ValueError(f"{name} must have 1 to {MAX_SECRETS} secrets, got {len(lines)}")
    return Signer([*lines])
