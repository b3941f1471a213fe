"""List all finders of edits for small mistakes in a function.

An edit takes back a mistake. Finders run nothing, and most of their edits are wrong: `repairs` tries them.
"""

from __future__ import annotations

from grader.diagnosis.edits.allocations import IN_ALLOCATIONS
from grader.diagnosis.edits.casts import IN_CASTS
from grader.diagnosis.edits.comparisons import IN_COMPARISONS
from grader.diagnosis.edits.edit_scope import Finder
from grader.diagnosis.edits.exchanges import IN_EXCHANGES
from grader.diagnosis.edits.factors import IN_FACTORS
from grader.diagnosis.edits.functions import IN_FUNCTIONS
from grader.diagnosis.edits.grids import IN_GRIDS
from grader.diagnosis.edits.indices import IN_INDICES
from grader.diagnosis.edits.lanes import IN_LANES
from grader.diagnosis.edits.literals import IN_LITERALS
from grader.diagnosis.edits.loops import IN_LOOPS
from grader.diagnosis.edits.masks import IN_MASKS
from grader.diagnosis.edits.maxima import IN_MAXIMA
from grader.diagnosis.edits.names import IN_NAMES
from grader.diagnosis.edits.operations import IN_OPERATIONS
from grader.diagnosis.edits.other_loops import IN_OTHER_LOOPS
from grader.diagnosis.edits.pairs import IN_PAIRS
from grader.diagnosis.edits.precision import IN_PRECISION
from grader.diagnosis.edits.products import IN_PRODUCTS
from grader.diagnosis.edits.quotients import IN_QUOTIENTS
from grader.diagnosis.edits.shares import IN_SHARES

# Of equal edits the first one counts.
SLIPS: tuple[Finder, ...] = (
    # Before the finders that replace a mask by any other.
    *IN_MASKS,
    *IN_PAIRS,
    # Before the finders of names, which take any number.
    *IN_GRIDS,
    *IN_NAMES,
    *IN_COMPARISONS,
    *IN_QUOTIENTS,
    *IN_OPERATIONS,
    *IN_LITERALS,
    *IN_FUNCTIONS,
    *IN_LANES,
    *IN_EXCHANGES,
    *IN_PRODUCTS,
    *IN_FACTORS,
    *IN_CASTS,
    *IN_ALLOCATIONS,
    *IN_INDICES,
    # Before the finders of loops, which hide elements of any maximum.
    *IN_MAXIMA,
    *IN_LOOPS,
    *IN_SHARES,
    *IN_PRECISION,
    *IN_OTHER_LOOPS,
)
