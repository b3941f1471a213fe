"""pass: transposed, spread, sliced, expanded and overlapping views, each walked with its own strides."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(
    x_ptr, y_ptr, z_ptr, row_ptr, M, N, stride_xm, stride_xn, stride_ym, stride_yn, stride_zm, stride_zn,
    stride_rm, stride_rn, BLOCK: tl.constexpr
):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = (rows < M) & (columns < N)
    x = tl.load(x_ptr + rows * stride_xm + columns * stride_xn, mask=inside)
    y = tl.load(y_ptr + rows * stride_ym + columns * stride_yn, mask=inside)
    row = tl.load(row_ptr + rows * stride_rm + columns * stride_rn, mask=inside)
    tl.store(z_ptr + rows * stride_zm + columns * stride_zn, x + y + 0 * row, mask=inside)


def vector_add(x, y):
    x, y = x.view(25, 40), y.view(25, 40)
    spread = torch.empty((50, 120), dtype=x.dtype, device=x.device)[::2, ::3]
    columns = torch.empty((43, 30), dtype=x.dtype, device=x.device)[3:, 2:27].t()
    z = torch.empty((27, 60), dtype=x.dtype, device=x.device)[1:26, 7:47]
    spread.copy_(x)
    columns.copy_(y)
    windows = torch.as_strided(x, (25, 40), (3, 1))
    for extra in (x[:1].expand(25, 40), x[:, :1].expand(25, 40), x[0, 0].expand(25, 40), windows):
        strides = *spread.stride(), *columns.stride(), *z.stride(), *extra.stride()
        add_kernel[(2, 3)](spread, columns, z, extra, 25, 40, *strides, BLOCK=16)
    return z.reshape(-1)
