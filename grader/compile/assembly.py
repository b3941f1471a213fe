"""Read the output of compilers as numbers: ptxas's log, PTX and Triton's intermediate texts.

Pure: text in, counts out. An instruction counts once, however often it runs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Literal

from grader.protocol.answers import Narrow

Access = Literal["load", "store"]
# A source line, and an access that it makes.
Place = tuple[int, Access]

# One instruction of one thread moves at most this much, up to sm_90.
_WIDEST_BYTES = 16
_MOST_REMARKS = 4


@dataclass(frozen=True)
class Resources:
    """The resources of one thread and the remarks on lost performance in ptxas's log; 0 registers: not reported."""

    registers: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    remarks: tuple[str, ...]


_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_REMARK = re.compile(r"\((C\d+)\) *Potential Performance Loss: *([^\n]+)")


def resources(log: str) -> Resources:
    """Return the resources that `ptxas -v` reports for an entry and the functions that it calls."""
    frames = [tuple(map(int, found)) for found in _SPILLS.findall(log)]
    remarks = dict.fromkeys(f"{code}: {text.strip()[:200]}" for code, text in _REMARK.findall(log))
    return Resources(
        registers=max(map(int, _REGISTERS.findall(log)), default=0),
        stack_bytes=max((stack for stack, _, _ in frames), default=0),
        spill_store_bytes=sum(stored for _, stored, _ in frames),
        spill_load_bytes=sum(loaded for _, _, loaded in frames),
        remarks=tuple(remarks)[:_MOST_REMARKS],
    )


@dataclass
class Instructions:
    """The relevant instructions of a PTX text, counted by name, by bytes, and by source line."""

    threads: int = 0
    most_registers: int = 0
    tensor_cores: Counter[str] = field(default_factory=Counter)
    copies: Counter[str] = field(default_factory=Counter)
    loads: Counter[int] = field(default_factory=Counter)
    stores: Counter[int] = field(default_factory=Counter)
    by_place: dict[Place, Counter[int]] = field(default_factory=dict)

    def note(self, access: Access, width: int, line: int) -> None:
        """Count one access of `width` bytes; line: of the submission, 0 if it is not known."""
        (self.loads if access == "load" else self.stores)[width] += 1
        if line:
            self.by_place.setdefault((line, access), Counter())[width] += 1


_THREADS = re.compile(r"^\s*\.(?:reqntid|maxntid) +(\d+)(?: *, *(\d+))?(?: *, *(\d+))?", re.MULTILINE)
_MOST_REGISTERS = re.compile(r"^\s*\.maxnreg +(\d+)", re.MULTILINE)
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"(?:\s+"([^"]*)")?', re.MULTILINE)
_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)")
_TENSOR_CORES = re.compile(r"\b(mma\.sync|wgmma\.mma_async|tcgen05\.mma)\b")
_BULK = re.compile(r"\b(cp\.async\.bulk\.tensor|cp\.async\.bulk)\.(?!commit_group|wait_group|prefetch)")
_SMALL = re.compile(r"\bcp\.async\.c[ag]\.shared[\w:]*\.global[^\[]*\[[^\]]*\], *\[[^\]]*\], *(0x[0-9a-fA-F]+|\d+)")
_MEMORY = re.compile(r"(?:^|[\s;{])(ld|st)\.([\w.:]+)")


def instructions(ptx: str, path: str) -> Instructions:
    """Count the instructions of a PTX text; lines are those of the source file at `path`."""
    found = Instructions()
    if threads := _THREADS.search(ptx):
        found.threads = prod(int(size) for size in threads.groups() if size)
    if limit := _MOST_REGISTERS.search(ptx):
        found.most_registers = int(limit[1])
    ours = _numbers_of(ptx, path)
    line = 0
    for text in ptx.splitlines():
        if loc := _LOC.match(text):
            line = int(loc[2]) if loc[1] in ours else 0
        elif matrix := _TENSOR_CORES.search(text):
            found.tensor_cores[matrix[1]] += 1
        elif bulk := _BULK.search(text):
            found.copies[bulk[1]] += 1
        elif small := _SMALL.search(text):
            found.copies["cp.async"] += 1
            found.note("load", int(small[1], 0), line)
        elif (memory := _MEMORY.search(text)) and "global" in memory[2].split("."):
            found.note("load" if memory[1] == "ld" else "store", _bytes_of(memory[2].split(".")), line)
    return found


@dataclass(frozen=True)
class LocalArrays:
    """The arrays that a PTX text keeps in a thread's own memory, because it indexes them by numbers known too late.

    stored, loaded: the bytes of their instructions. loaded_per_step: of those in the innermost loops with tensor cores.
    """

    nbytes: int = 0
    stored: int = 0
    loaded: int = 0
    loaded_per_step: int = 0


_ARRAY = re.compile(r"^\s*\.local\b[^\n]*\s\w+\[(\d+)\];", re.MULTILINE)
_LABEL = re.compile(r"\s*(\$L\w+):")
_BRANCH = re.compile(r"\bbra(?:\.uni)?\s+(\$L\w+)")


def local_arrays(ptx: str) -> LocalArrays:
    """Return what a PTX text keeps in local memory. Spills are not in it: a later compiler adds them."""
    # By their lines in the text; accesses with their bytes.
    stored: list[tuple[int, int]] = []
    loaded: list[tuple[int, int]] = []
    loops: list[tuple[int, int]] = []
    dots: list[int] = []
    labels: dict[str, int] = {}
    for place, text in enumerate(ptx.splitlines()):
        if label := _LABEL.match(text):
            labels[label[1]] = place
        elif (branch := _BRANCH.search(text)) and branch[1] in labels:
            loops.append((labels[branch[1]], place))
        elif _TENSOR_CORES.search(text):
            dots.append(place)
        elif (memory := _MEMORY.search(text)) and "local" in (words := memory[2].split(".")):
            (loaded if memory[1] == "ld" else stored).append((place, _bytes_of(words)))
    hot = [loop for loop in loops if any(_holds(loop, dot) for dot in dots)]
    inner = [loop for loop in hot if not any(other != loop and _holds(loop, *other) for other in hot)]
    return LocalArrays(
        nbytes=sum(map(int, _ARRAY.findall(ptx))),
        stored=sum(size for _, size in stored),
        loaded=sum(size for _, size in loaded),
        loaded_per_step=sum(size for place, size in loaded if any(_holds(loop, place) for loop in inner)),
    )


# CUDA C++ programming guide, "Technical Specifications per Compute Capability": of one thread, and of one block.
_MOST_OF_A_THREAD = 255
_MOST_OF_A_BLOCK = 65536


def registers_left(found: Instructions) -> int:
    """Return how many registers the assembler may give to each thread of a PTX text."""
    limits = (_MOST_OF_A_THREAD, found.most_registers, found.threads and _MOST_OF_A_BLOCK // found.threads)
    return min(filter(None, limits))


# An access to local memory in machine code; its bits stand in its last qualifiers: LDL.LU.64, STL.U16.
_LOCAL = re.compile(r"\b(STL|LDL)((?:\.\w+)*)")


def local_bytes(code: str) -> Counter[Access]:
    """Count the bytes that a thread moves from and to its local memory, in machine code: arrays and spills."""
    moved: Counter[Access] = Counter()
    for name, qualifiers in _LOCAL.findall(code):
        bits = re.findall(r"\d+", qualifiers)
        moved["load" if name == "LDL" else "store"] += int(bits[-1] if bits else 32) // 8
    return moved


def _holds(loop: tuple[int, int], *places: int) -> bool:
    return all(loop[0] <= place <= loop[1] for place in places)


def source_line(ptx: str, number: int, path: str) -> int:
    """Return the line of the source file at `path` that line `number` of a PTX text comes from, or 0."""
    ours = _numbers_of(ptx, path)
    before = filter(None, map(_LOC.match, reversed(ptx.splitlines()[:number])))
    return next((int(loc[2]) if loc[1] in ours else 0 for loc in before), 0)


def _numbers_of(ptx: str, path: str) -> set[str]:
    """Return the numbers that a PTX text gives to a source file."""
    return {number for number, *names in _FILE.findall(ptx) if "/".join(filter(None, names)) == path}


def _bytes_of(words: list[str]) -> int:
    """Return the bytes that one thread moves by an instruction with these qualifiers: v4, b32 -> 16."""
    vector = next((int(word[1:]) for word in words if re.fullmatch(r"v\d", word)), 1)
    bits = next((int(word[1:]) for word in words if re.fullmatch(r"[bfsu]\d+", word)), 0)
    return vector * bits // 8


_NAMES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}
_DOT = re.compile(r"\btt\.dot(?:_scaled)?\b(.*?) : tensor<(?:\d+x)+(\w+)")
_PRECISION = re.compile(r"inputPrecision = (\w+)")


def dots(ttir: str) -> tuple[str, ...]:
    """Return the types that tl.dot multiplies, each once; float32 with its precision: "float32 (ieee)"."""
    kinds: dict[str, None] = {}
    for given, element in _DOT.findall(ttir):
        name = _NAMES.get(element) or (f"float{element[1:2]}" if element.startswith("f8") else element)
        if name == "float32":
            precision = _PRECISION.search(given)
            name += f" ({precision[1] if precision else 'ieee'})"
        kinds[name] = None
    return tuple(kinds)[:4]


_PRODUCT = re.compile(r"\b(?:mma\.sync|wgmma\.mma_async)\.[\w.:]*?m\d+n\d+k\d+((?:\.\w+)+)")
_ORDERS = frozenset({"row", "col", "satfinite"})


def products(ptx: str) -> tuple[str, ...]:
    """Return the types that tensor cores multiply in a PTX text, each once, as `dots` names them."""
    kinds: dict[str, None] = {}
    for words in _PRODUCT.findall(ptx):
        # The result's type comes first, then that of the left operand.
        types = [word for word in words[1:].split(".") if word not in _ORDERS]
        if len(types) > 1:
            kinds[_NAMES.get(types[1]) or ("float32 (tf32)" if types[1] == "tf32" else types[1])] = None
    return tuple(kinds)[:4]


_TILE_ACCESS = re.compile(
    r"\b(tt\.load|tt\.store|ttg\.async_copy_global_to_local)\b.*?"
    r"\btensor<((?:\d+x)+)!tt\.ptr<[a-z]+(\d+).*\bloc\((#loc\d*)\)\s*$"
)
_LOCATION = re.compile(r"^(#loc\d*) = loc\((.*)\)$")


def narrow(ttgir: str, counted: Instructions, path: str, warps: int) -> tuple[Narrow, ...]:
    """Return the accesses that move fewer bytes at a time than a thread's share of the tile allows."""
    found = []
    for place, possible in sorted(_possible(ttgir, path, 32 * warps).items()):
        widths = counted.by_place.get(place)
        if not widths:
            continue
        # The most common width; among equally common ones, the widest.
        usual = max(widths, key=lambda width: (widths[width], width))
        if 0 < usual < possible:
            found.append(Narrow(place[0], place[1], usual, possible))
    return tuple(found)


def _possible(ttgir: str, path: str, threads: int) -> dict[Place, int]:
    """Return the bytes that a thread could move at a time, for every line that loads or stores tiles by pointer."""
    lines = ttgir.splitlines()
    locations = {found[1]: found[2] for found in map(_LOCATION.match, lines) if found}
    possible: dict[Place, int] = {}
    for operation, sizes, bits, location in _accesses(lines):
        line = _line_of(location, locations, path)
        if not line:
            continue
        itemsize = max(bits // 8, 1)
        share = prod(sizes) // threads * itemsize
        # One axis only: a tile 4 wide has no 8 neighbours.
        width = max(min(_WIDEST_BYTES, share, max(sizes) * itemsize), itemsize)
        place: Place = (line, "store" if operation == "tt.store" else "load")
        # Of two tiles in one line, the smaller one counts: a finding must not name bytes that are not there.
        possible[place] = min(width, possible.get(place, _WIDEST_BYTES))
    return possible


def _accesses(lines: list[str]) -> Iterator[tuple[str, list[int], int, str]]:
    for text in lines:
        if found := _TILE_ACCESS.search(text):
            yield found[1], [int(size) for size in found[2].split("x") if size], int(found[3]), found[4]


def _line_of(location: str, locations: dict[str, str], path: str, depth: int = 8) -> int:
    """Return the line of the file at `path` that a location, named or inlined, leads to; 0 if it leads elsewhere."""
    text = locations.get(location, "")
    if plain := re.fullmatch(rf'"{re.escape(path)}":(\d+):\d+.*', text):
        return int(plain[1])
    inner = re.findall(r"#loc\d*", text) if depth else []
    return next((line for one in inner if (line := _line_of(one, locations, path, depth - 1))), 0)
