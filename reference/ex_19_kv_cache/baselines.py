"""Baselines of ex_19: `<part>_<baseline>`, with the part's own arguments, run in a trusted process.

In the timed sizes every sequence fills the cache.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

# FlashInfer's wrappers by the shapes of their plans: a plan takes longer than the timed call, and it is the same for
# every token of a batch until a page is full.
_planned: dict[tuple[object, ...], tuple[Any, Tensor]] = {}
_WORKSPACE_BYTES = 128 << 20


def append_kv_torch_eager(k_cache: Tensor, v_cache: Tensor, k_new: Tensor, v_new: Tensor, lengths: Tensor) -> None:
    """Slice assignment in a loop: the lengths must come to Python first."""
    tokens = k_new.shape[2]
    for b, length in enumerate(lengths.tolist()):
        k_cache[b, :, length : length + tokens] = k_new[b]
        v_cache[b, :, length : length + tokens] = v_new[b]


def decode_attention_torch_eager(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, lengths: Tensor, scale: float | None
) -> Tensor:
    """SDPA over the padded cache: slots past a length are masked, but still read."""
    inside = torch.arange(k_cache.shape[2], device=q.device) < lengths[:, None]
    o = scaled_dot_product_attention(
        q[:, :, None], k_cache, v_cache, inside[:, None, None], scale=scale, enable_gqa=True
    )
    return o[:, :, 0]


def decode_attention_naive(q: Tensor, k_cache: Tensor, v_cache: Tensor, lengths: Tensor, scale: float | None) -> Tensor:
    """Without a cache: the attention of all tokens so far; the result is the last token's.

    The real cost is higher: keys and values would have to be computed again as well.
    """
    queries = q[:, :, None].expand(-1, -1, k_cache.shape[2], -1)
    return scaled_dot_product_attention(queries, k_cache, v_cache, is_causal=True, scale=scale, enable_gqa=True)[
        :, :, -1
    ]


def decode_attention_flashinfer(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, lengths: Tensor, scale: float | None
) -> Tensor:
    """FlashInfer's paged kernel, with the cache as pages of 64 slots one after another, heads before tokens."""
    batch, heads, slots, width = k_cache.shape
    page = 64 if slots % 64 == 0 else slots
    # [B, Hkv, blocks, page, D], each sequence's pages one after another: a view as pages would have to mix strides.
    pages = [one.reshape(batch * heads, slots // page, page, 1, width).flatten(0, 1) for one in (k_cache, v_cache)]
    table = torch.arange(batch * heads * (slots // page), dtype=torch.int32, device=q.device)
    lengths = lengths.repeat_interleave(heads)
    grouped = q.reshape(batch * heads, -1, width)
    return _flashinfer(grouped, *pages, table.view(batch * heads, -1), lengths, scale).reshape(q.shape)


def paged_decode_attention_torch_eager(
    q: Tensor, k_pages: Tensor, v_pages: Tensor, block_table: Tensor, lengths: Tensor, scale: float | None
) -> Tensor:
    """Pages gathered into a padded cache, which is written and read once more; then SDPA."""
    k, v = (_gathered(pages, block_table) for pages in (k_pages, v_pages))
    return decode_attention_torch_eager(q, k, v, lengths, scale)


def paged_decode_attention_flashinfer(
    q: Tensor, k_pages: Tensor, v_pages: Tensor, block_table: Tensor, lengths: Tensor, scale: float | None
) -> Tensor:
    """FlashInfer's paged decode."""
    return _flashinfer(q, k_pages, v_pages, block_table, lengths, scale)


def _gathered(pages: Tensor, block_table: Tensor) -> Tensor:
    """[B, Hkv, blocks · page, D]."""
    return pages[block_table.clamp(min=0).long()].flatten(1, 2).transpose(1, 2)


def _flashinfer(
    q: Tensor, k_pages: Tensor, v_pages: Tensor, block_table: Tensor, lengths: Tensor, scale: float | None
) -> Tensor:
    """Planned once for a shape; the table is copied into the plan's own at every call."""
    key = (q.shape, k_pages.shape, q.dtype, scale)
    if key not in _planned:
        _planned.clear()
        _planned[key] = _plan(q, k_pages, block_table, lengths, scale)
    wrapper, indices = _planned[key]
    indices.copy_(block_table.flatten())
    return wrapper.run(q, (k_pages, v_pages))


def _plan(q: Tensor, k_pages: Tensor, block_table: Tensor, lengths: Tensor, scale: float | None) -> tuple[Any, Tensor]:
    import flashinfer

    (batch, blocks), (_, page, heads, width) = block_table.shape, k_pages.shape
    indptr = torch.arange(batch + 1, dtype=torch.int32, device=q.device) * blocks
    indices = block_table.flatten().clone()
    last_page = (lengths - 1) % page + 1
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(
        torch.empty(_WORKSPACE_BYTES, dtype=torch.uint8, device=q.device),
        "NHD",
        use_cuda_graph=True,
        use_tensor_cores=q.shape[1] // heads >= 4,
        paged_kv_indptr_buffer=indptr.clone(),
        paged_kv_indices_buffer=indices,
        paged_kv_last_page_len_buffer=last_page.clone(),
    )
    wrapper.plan(
        indptr,
        indices.clone(),
        last_page,
        q.shape[1],
        heads,
        width,
        page,
        sm_scale=scale,
        q_data_type=q.dtype,
        kv_data_type=k_pages.dtype,
    )
    return wrapper, indices
