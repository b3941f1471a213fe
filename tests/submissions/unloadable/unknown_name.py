"""invalid_submission: uses a name before it is defined."""

import torch

TABLE = torch.tensor([SIZE])
SIZE = 64
