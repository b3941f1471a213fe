"""Sample records for the renderers' tests."""


def flat(text: str) -> str:
    """Return rendered text as one line: where it is folded depends on the width."""
    return " ".join(text.split())


def widest(text: str) -> int:
    """The length of the longest line, but for commands: these are never broken."""
    return max(len(line) for line in text.splitlines() if not line.lstrip().startswith("grade "))
