"""invalid_submission: everything is the oracle's.

Attack 53, 55. Twin: controls/helpers_beside_kernels.
"""

from oracle import *
