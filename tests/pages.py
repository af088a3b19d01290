"""Pages of Markdown as a reader uses them: files to save, lines to paste into a terminal, and what these print."""

import re
from dataclasses import dataclass
from textwrap import dedent


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text and the line where its fence opens."""

    language: str
    text: str
    line: int


@dataclass(frozen=True)
class Saved:
    """A block that the page tells its reader to save."""

    name: str
    text: str


@dataclass(frozen=True)
class Pasted:
    """A block that the page tells its reader to paste, and what it prints; None if the page does not show that."""

    text: str
    printed: str | None
    line: int


FENCED = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", flags=re.MULTILINE | re.DOTALL)
SAVED = re.compile(r"\b[Ss]ave\s+(?:it|this|them)\s+as\s+`([\w./@-]+)`")
PORT = re.compile(r"(?:127\.0\.0\.1|localhost):(\d{4,5})\b|--port[ =](\d{4,5})\b")


def fenced_blocks(markdown: str) -> list[Block]:
    """The fenced blocks, in their order."""
    return [
        Block(match[2], dedent(match[3]), markdown.count("\n", 0, match.start()) + 1)
        for match in FENCED.finditer(markdown)
    ]


def links(markdown: str) -> list[str]:
    """The targets of links and images outside code blocks."""
    prose = re.sub(r"^( *)```.*?^\1```$", "", markdown, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"\]\(([^)\s]+)\)", prose)


def steps(markdown: str) -> list[Saved | Pasted]:
    """What a reader does from top to bottom.

    A block after "Save it as `NAME`" is saved; one in ``sh`` is pasted, and ``text`` after it is what it prints.

    Raises:
        AssertionError: A block is neither; it would be run by no test.
    """
    done: list[Saved | Pasted] = []
    begin = 0
    for match, block in zip(FENCED.finditer(markdown), fenced_blocks(markdown), strict=True):
        named = SAVED.findall(markdown[begin : match.start()])
        begin = match.end()
        if block.language == "sh":
            done.append(Pasted(block.text, None, block.line))
        elif block.language == "text" and not named:
            assert done, f"line {block.line}: nothing has printed this"
            pasted = done[-1]
            assert isinstance(pasted, Pasted), f"line {block.line}: nothing has printed this"
            done[-1] = Pasted(pasted.text, block.text, pasted.line)
        else:
            assert len(named) == 1, f"line {block.line}: a block to save needs one name, got {named}"
            done.append(Saved(named[0], block.text))
    return done


def ports(markdown: str) -> set[str]:
    """The ports of this machine that a page names."""
    return {port for pair in PORT.findall(markdown) for port in pair if port}
