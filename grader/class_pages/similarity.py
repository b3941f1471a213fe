"""Find similar sources: pairs for a human to look at, never a verdict.

It runs winnowing (copydetect) on normalised sources. Comments, docstrings and layout are removed. Names that a learner
may choose become one symbol; numbers and strings become one symbol each. Names behind a dot stay, because they belong
to a library. Lines of the stub and lines that many students share do not count.
"""

from __future__ import annotations

import io
import keyword
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import combinations, pairwise

import numpy as np

# Runs of fewer tokens than K are noise; of any run of K + WINDOW - 1 tokens, one fingerprint is kept.
K, WINDOW = 20, 8
# Two common lines are no similarity.
_FEWEST_SHARED = 3
MOST_PAIRS, MOST_CLUSTERS = 50, 30

_LAYOUT = frozenset({tokenize.COMMENT, tokenize.NL, tokenize.ENCODING, tokenize.ENDMARKER})


@dataclass(frozen=True)
class Source:
    """One student's file. is_earlier: of an earlier class; such files are compared with this class's only."""

    student: str
    text: str
    is_earlier: bool = False


@dataclass(frozen=True)
class SimilarPair:
    """Two files, the shared part of the smaller one's own work (0 … 1), and the lines that they share."""

    first: Source
    second: Source
    share: float
    first_lines: frozenset[int]
    second_lines: frozenset[int]


@dataclass(frozen=True)
class Cluster:
    """Files that similar pairs connect. pairs: enough of them to reach every file, the most similar ones."""

    members: tuple[Source, ...]
    pairs: tuple[SimilarPair, ...]


@dataclass(frozen=True)
class _Fingerprints:
    """A file's fingerprints: places by hash, and the line of every token."""

    places: dict[int, list[int]]
    lines: tuple[int, ...]


class _Alphabet:
    """One character for every distinct word, the same in all files."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def __call__(self, word: str) -> str:
        return self._known.setdefault(word, chr(0x10000 + len(self._known) % 0x100000))


def clusters(sources: Sequence[Source], base: Sequence[str], *, threshold: float = 0.6) -> list[Cluster]:
    """Return the clusters of files that are similar to each other, the largest first, at most MOST_CLUSTERS.

    base: texts that were handed out, such as the stub; what stands in them is nobody's own work. threshold: two files
    are similar from this share on. The pairs of all clusters together are at most MOST_PAIRS.
    """
    alphabet = _Alphabet()
    starter = {value for text in base for value in _hashes(_normalised(text, alphabet)[0]).tolist()}
    prints = [_fingerprints(source.text, starter, alphabet) for source in sources]
    _without_common(prints)
    found = []
    for (one, other), shared in _sharing(prints).items():
        if shared >= _FEWEST_SHARED and not (sources[one].is_earlier and sources[other].is_earlier):
            share = _share(prints[one], prints[other])
            if share >= threshold:
                found.append((share, one, other))
    found.sort(key=lambda entry: (-entry[0], sources[entry[1]].student, sources[entry[2]].student))
    left = MOST_PAIRS
    made = []
    for links in _connected(found)[:MOST_CLUSTERS]:
        shown = [
            SimilarPair(sources[one], sources[other], share, *_lines(prints[one], prints[other]))
            for share, one, other in links[:left]
        ]
        left -= len(shown)
        places = sorted({place for _, *ends in links for place in ends}, key=lambda place: sources[place].student)
        made.append(Cluster(tuple(sources[place] for place in places), tuple(shown)))
    return made


_Link = tuple[float, int, int]


def _connected(found: Iterable[_Link]) -> list[list[_Link]]:
    """Return the connected groups of links, the largest first; of each only the first links that connect its ends."""
    group: dict[int, int] = {}
    links: dict[int, list[_Link]] = {}
    for link in found:
        one, other = (group.setdefault(place, place) for place in link[1:])
        if one == other:
            continue
        links[one] = sorted([*links.get(one, []), *links.pop(other, []), link], key=lambda link: -link[0])
        for place in [place for place, name in group.items() if name == other]:
            group[place] = one
    return sorted(links.values(), key=lambda own: (-len(own), -own[0][0]))


def _fingerprints(text: str, starter: set[int], alphabet: _Alphabet) -> _Fingerprints:
    # It imports matplotlib, which takes more than a second.
    from copydetect.utils import winnow

    symbols, lines = _normalised(text, alphabet)
    hashes = _hashes(symbols)
    places: dict[int, list[int]] = defaultdict(list)
    if len(hashes) >= WINDOW:
        chosen, where = winnow(hashes, WINDOW, remove_duplicates=False)
        for value, place in zip(chosen.tolist(), where.tolist(), strict=True):
            if value not in starter:
                places[value].append(place)
    return _Fingerprints(dict(places), lines)


def _hashes(symbols: str) -> np.ndarray:
    # Not Python's own hash, which differs from run to run, and with it which fingerprints are kept.
    grams = (symbols[place : place + K].encode() for place in range(len(symbols) - K + 1))
    return np.array([int.from_bytes(blake2b(gram, digest_size=8).digest(), signed=True) for gram in grams], np.int64)


def _normalised(text: str, alphabet: _Alphabet) -> tuple[str, tuple[int, ...]]:
    """Return one character per token, and each token's line."""
    symbols, lines = [], []
    for word, line in _words(text):
        symbols.append(alphabet(word))
        lines.append(line)
    return "".join(symbols), tuple(lines)


def _words(text: str) -> Iterator[tuple[str, int]]:
    """Yield a file's significant words. An incomplete file is read as far as it goes."""
    tokens = _without_docstrings(_tokens(text))
    behind_dot = False
    for token in tokens:
        if token.type == tokenize.NAME:
            own = token.string if keyword.iskeyword(token.string) or behind_dot else "name"
            yield own, token.start[0]
        elif token.type in (tokenize.NUMBER, tokenize.STRING):
            yield tokenize.tok_name[token.type], token.start[0]
        else:
            # Indents and line ends by their kind, operators by themselves.
            yield token.string.strip() or tokenize.tok_name[token.type], token.start[0]
        behind_dot = token.string == "."


def _tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    """Yield tokens up to the first that is none: Python 3.11 would look for the end of a string behind each of them."""
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.ERRORTOKEN:
                return
            yield token
    except (tokenize.TokenError, SyntaxError):
        return


def _without_docstrings(tokens: Iterable[tokenize.TokenInfo]) -> list[tokenize.TokenInfo]:
    """Drop strings that are a whole line, and the end of that line."""
    listed = [token for token in tokens if token.type not in _LAYOUT]
    drop: set[int] = set()
    begins = True
    for place, (token, following) in enumerate(pairwise(listed)):
        if begins and token.type == tokenize.STRING and following.type == tokenize.NEWLINE:
            drop |= {place, place + 1}
        begins = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    return [token for place, token in enumerate(listed) if place not in drop]


def _without_common(prints: Sequence[_Fingerprints]) -> None:
    """Drop fingerprints that more than a twentieth of the class, and more than ten students, share."""
    counts = Counter(value for one in prints for value in one.places)
    most = max(10, len(prints) // 20)
    for one in prints:
        for value in [value for value in one.places if counts[value] > most]:
            del one.places[value]


def _sharing(prints: Sequence[_Fingerprints]) -> Counter[tuple[int, int]]:
    """Return the number of shared fingerprints for every pair of files that shares one."""
    owners: dict[int, list[int]] = defaultdict(list)
    for place, one in enumerate(prints):
        for value in one.places:
            owners[value].append(place)
    shared: Counter[tuple[int, int]] = Counter()
    for places in owners.values():
        shared.update(combinations(places, 2))
    return shared


def _share(one: _Fingerprints, other: _Fingerprints) -> float:
    """Return the larger of the two shares, so that a copy with additions is still found."""
    return max(_covered(one, other) / (_tokens_of(one) or 1), _covered(other, one) / (_tokens_of(other) or 1))


def _slices(one: _Fingerprints, values: Iterable[int]) -> list[tuple[int, int]]:
    from copydetect.utils import get_copied_slices

    places = np.array(sorted(place for value in values for place in one.places[value]), dtype=np.int64)
    starts, ends = get_copied_slices(places, K)
    return [(int(start), int(end)) for start, end in zip(starts, ends, strict=True)]


def _covered(one: _Fingerprints, other: _Fingerprints) -> int:
    return sum(end - start for start, end in _slices(one, one.places.keys() & other.places.keys()))


def _tokens_of(one: _Fingerprints) -> int:
    return sum(end - start for start, end in _slices(one, one.places))


def _lines(one: _Fingerprints, other: _Fingerprints) -> tuple[frozenset[int], frozenset[int]]:
    shared = one.places.keys() & other.places.keys()

    def of(own: _Fingerprints) -> frozenset[int]:
        return frozenset(line for start, end in _slices(own, shared) for line in own.lines[start:end])

    return of(one), of(other)
