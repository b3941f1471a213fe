"""Speed relative to vendor kernels: the anchor and its baselines, the race between contenders, the verdict."""
