"""Every setting of the service: flag, variable, default, bounds."""

from dataclasses import Field, fields
from typing import Any, Final

from purgatory_async.service.settings.settings import ENVIRONMENT_PREFIX, OTHERS_ENVIRONMENT, Settings
from reference.markdown import code, prose, table

_INTRODUCTION: Final = """# Settings

`purgatory serve` takes each setting from a TOML file (`--config`), then from the environment, then from a flag; the
later wins. In the file a setting has the name of its flag, with `_` for `-`. `purgatory config` prints each value and
its source.
"""
_OTHERS: Final = {
    "PURGATORY_URL": "The address of the service, for the commands that talk to one.",
    "PURGATORY_TOKEN": "Their token.",
    "PURGATORY_ASYNC_PURE": "`1` runs the library in pure Python, also where the compiled core is built.",
}


def markdown() -> str:
    """Return the page."""
    parts = [_INTRODUCTION]
    for known in fields(Settings):
        flag = f"--{known.name.replace('_', '-')}"
        default = known.metadata["shown"] or ("none" if known.default in (None, ()) else known.default)
        rest = [
            f"- Variable: {code(f'{ENVIRONMENT_PREFIX}{known.name.upper()}')}",
            f"- Default: {code(default)}",
            f"- Value: {prose(bounds(known))}",
        ]
        parts += [f"## {code(flag)}", prose(known.metadata["help"]), "\n".join(rest)]
    rows = [(code(name), _OTHERS[name]) for name in sorted(OTHERS_ENVIRONMENT)]
    parts += ["## Other variables", table(("variable", "what it is for"), rows)]
    return "\n\n".join(parts)


def bounds(known: Field[Any]) -> str:
    """Return what a setting may be, as the errors for a value of no type and for zero say it."""
    said = {}
    for value in (object(), 0):
        try:
            known.metadata["read"](value)
        except ValueError as error:
            said[str(error).removeprefix("must be ").rpartition(", got ")[0]] = value
    return ", and ".join(said)
