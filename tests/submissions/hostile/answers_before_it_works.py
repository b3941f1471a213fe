"""crash: a complete answer of the right form, on the channel, before the work.

Attack 8, 24. Twin: controls/writes_a_log.
"""

import json
import os
import struct
import time


def vector_add(x, y):
    form = {
        "kind": "tensor",
        "dtype": str(x.dtype)[6:],
        "shape": list(x.shape),
        "device": "cpu",
        "alias": "",
        "copied": True,
    }
    launch = {"kernel": "_add", "grid": [1], "constants": {}, "traffic": None}
    answer = {"answer": "returned", "outputs": [form], "changed": [], "overrun": [], "launches": [launch]}
    answer |= {"findings": [], "allocated_bytes": 0}
    text = json.dumps(answer).encode()
    os.write(3, b"grd1" + struct.pack(">I", len(text)) + text)
    time.sleep(0.5)
    os._exit(0)
