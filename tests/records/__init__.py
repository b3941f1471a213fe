"""Sample records for the renderers' tests."""


def flat(text: str) -> str:
    """Return rendered text as one line: where it is folded depends on the width."""
    return " ".join(text.split())
