"""The lock that ast.parse needs where gradings run on several threads.

In CPython before 3.11.8 and 3.12.1, threads that build trees at once may end in a SystemError: they count their depth
in one place (python/cpython#106905).
"""

from __future__ import annotations

import threading

# Held again by a finalizer that parses, which runs on whichever thread it meets.
ONE_AT_A_TIME = threading.RLock()
