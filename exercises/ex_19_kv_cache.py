"""ex_19: a KV cache in Triton: how it grows, and how a new token attends to all that came before.

A language model writes one token at a time. Its attention needs the keys and values of all earlier tokens; they never
change, so they are kept: the KV cache. Without it every token would cost the whole sequence's computation again. With
it a token costs one walk over the cache, in which each number is loaded, multiplied once or a few times, and dropped.
So memory bandwidth limits decoding, and your kernels are judged by the bytes that they load.

Run it

    grade ex_19                                 grade all three parts
    grade ex_19 --part decode_attention         grade one part while you work on it
    grade hint ex_19 --part decode_attention    the first of three hints; --level 3 is the plainest

Without a GPU your kernels run in Triton's interpreter, on the CPU: values and traffic are judged there, speed is not.
The scorecard says what was judged and what was not. Either way you edit this file only.

Where to start

    1. Read the worked example below (`sequence_means`), and run it:
       TRITON_INTERPRET=1 python exercises/ex_19_kv_cache.py
    2. append_kv                 a copy, to places that the kernel looks up for itself
    3. decode_attention          one program per sequence and kv head first; then splits, for long contexts
    4. paged_decode_attention    the same walk, with a table that says where each page lies

A part that still raises NotImplementedError counts as not started; the others are still graded. Only one check of
decode_attention needs append_kv: it runs both in turns, as a model would. Kernels take about 15, 40 and 45 lines,
and one that joins splits 15.

The rules, for all parts

- Your Triton kernels do the arithmetic, and the copying. In PyTorch you may allocate (`torch.empty`, `torch.zeros`),
  make views, and read shapes and strides; torch operators that compute are noticed.
- Results are new memory at every call, on the device of the input. Memory from `torch.empty` holds NaN while you are
  graded, so an element that you forget to write is seen.
- Change only what the part says that it changes, and never read or write outside the tensors.
- Read `lengths` and `block_table` in the kernel. `lengths.tolist()`, `lengths.max().item()`, or anything else that
  brings their numbers to Python, makes the CPU wait for the GPU at every token: a part that does so earns no points.

Lengths

    The sequences of a batch are of different lengths; the cache has room for Smax tokens of each. Slots past a
    sequence's length hold old values. Here they hold NaN, and 0 · NaN is NaN: do not load such a slot, or replace it by
    a zero (`tl.load(..., mask=..., other=0.0)`) before you multiply it.

Grouped heads

    Each kv head serves Hq // Hkv neighbouring query heads: query head h reads kv head h // (Hq // Hkv). Their queries
    can be the rows of one tile: then all of them use a key that was loaded once. With 32 query heads and 8 kv
    heads that is a quarter of the bytes, and of the time.

Splits

    With 128 sequences of 8 kv heads there is work for 1024 programs. With one sequence there are 8, and a GPU has 132
    multiprocessors. So split the slots of a sequence over several programs. Each stores its own o and its own
    lse = m + log(l), the log of its sum of exp(logits); a second kernel joins them:

        o = sum over splits of exp(lse[split] - max) · o[split], divided by the sum of exp(lse[split] - max)

    How many splits? Decide by shapes (B, Hkv, Smax), which Python knows without asking the GPU. Some splits then lie
    wholly past their sequence's end. Such a split has seen nothing: its lse is -inf, and it must not divide 0 by 0.

Three things to know

- `tl.dot` wants at least 16 rows: pad a group of query heads with masked ones. Products are float32; round only the
  operands of a second `tl.dot`: `tl.dot(p.to(v.dtype), v)`.
- The online softmax of FlashAttention works here too: a new maximum m_new multiplies l and acc by exp(m - m_new).
- A cache may have more than 2**31 elements. Make the numbers of sequences, pages and slots 64 bits wide before you
  multiply them by a stride: `page.to(tl.int64) * stride`.
"""

import torch
import triton
import triton.language as tl

# Worked example: the mean over the tokens of each sequence, of ragged lengths. Read it, run it. It is not graded.


@triton.jit
def sequence_means_kernel(x_ptr, lengths_ptr, y_ptr, stride_xb, stride_xs, D: tl.constexpr, BLOCK: tl.constexpr):
    """Average the sequence program_id(0), in tiles of BLOCK tokens."""
    b = tl.program_id(0).to(tl.int64)
    dims = tl.arange(0, D)

    # The kernel loads its sequence's length itself: only this program waits for it.
    length = tl.load(lengths_ptr + b)
    total = tl.zeros((D,), dtype=tl.float32)

    # The loop ends with the sequence. For a sequence without tokens it does not run.
    for start in range(0, length, BLOCK):
        slots = start + tl.arange(0, BLOCK)

        # Slots past the length are not loaded; zeros take their place, and add nothing.
        x_ptrs = x_ptr + b * stride_xb + slots[:, None] * stride_xs + dims[None, :]
        x = tl.load(x_ptrs, mask=slots[:, None] < length, other=0.0)
        total += tl.sum(x.to(tl.float32), 0)

    # The mean of no tokens is 0 here, and not 0 / 0.
    tl.store(y_ptr + b * D + dims, total / tl.maximum(length, 1))


def sequence_means(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Launch one program per sequence; x: [B, Smax, D], lengths: [B]."""
    B, _, D = x.shape
    y = torch.empty((B, D), dtype=torch.float32, device=x.device)
    sequence_means_kernel[(B,)](x, lengths, y, x.stride(0), x.stride(1), D=D, BLOCK=16)
    return y


# Part 1

# @triton.jit
# def append_kernel(k_new_ptr, v_new_ptr, k_ptr, v_ptr, lengths_ptr, T, ..., D: tl.constexpr, ROWS: tl.constexpr):
#     ...1. which rows of which sequence are mine? row r is token r % T of head r // T
#     ...2. where does the sequence end? that is where token 0 goes
#     ...3. load my rows of k_new and v_new, and store them to the caches, with a mask


def append_kv(
    k_cache: torch.Tensor, v_cache: torch.Tensor, k_new: torch.Tensor, v_new: torch.Tensor, lengths: torch.Tensor
) -> None:
    """Write the keys and values of new tokens into the cache, each behind its sequence's last one.

    Inputs:
        k_cache: [B, Hkv, Smax, D], float16 or bfloat16; D is 64 or 128; changed in place
        v_cache: [B, Hkv, Smax, D], same dtype and device as k_cache; changed in place
        k_new: [B, Hkv, T, D], same dtype and device; T >= 1
        v_new: [B, Hkv, T, D], same dtype and device
        lengths: [B], int32: how many slots of each sequence are taken; lengths[b] + T <= Smax
    Output:
        nothing; k_cache and v_cache are changed in place
    Definition:
        k_cache[b, h, lengths[b] + t] = k_new[b, h, t] and v_cache[b, h, lengths[b] + t] = v_new[b, h, t] for t < T;
        every other slot, and lengths, stay as they are

    Limits:
        All four tensors have any strides with stride(3) == 1: heads before tokens or tokens before heads, windows of
        larger tensors that start at any element. A length may be 0, and a cache may be full afterwards.
    Judged:
        the whole caches, bit for bit, for one and for many new tokens; that nothing else is written; that kernels do
        it, in as many launches as you like; bytes loaded and stored, at most those of the new tokens; memory of your
        own, at most that of the new tokens; on a GPU the speed, relative to slice assignment in a loop over the
        sequences.
    """
    raise NotImplementedError("append_kv: write a kernel that copies new rows to where their sequence ends")


# Part 2

# @triton.jit
# def decode_kernel(q_ptr, k_ptr, v_ptr, lengths_ptr, partial_ptr, lse_ptr, group, chunk, scale, ...):
#     ...1. which sequence, which kv head, which split of the slots is mine? where does it end?
#     ...2. load the queries of the group, [16, D], with a mask; m, l: one number per row; acc: [16, D]
#     ...3. for every tile of my slots: load k and v, with masks; s = q · kᵀ · scale, and -inf where there is no slot;
#           then m, l and acc as in FlashAttention
#     ...4. store acc / l and lse = m + log(l) in float32 (what if I had no slot?)
#
# @triton.jit
# def merge_kernel(partial_ptr, lse_ptr, o_ptr, splits, ...):
#     ...one program per sequence and query head: the weighted mean of its splits (what if all of them are empty?)


def decode_attention(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    lengths: torch.Tensor,
    scale: float | None = None,
) -> torch.Tensor:
    """Compute attention of one new token per sequence to all of its cached tokens.

    Inputs:
        q: [B, Hq, D], float16 or bfloat16; Hq a multiple of Hkv; D is 64 or 128
        k_cache: [B, Hkv, Smax, D], same dtype and device as q
        v_cache: [B, Hkv, Smax, D], same dtype and device as q
        lengths: [B], int32: how many slots of each sequence are taken, 0 … Smax
        scale: the factor of the logits, any finite float; None: D**-0.5
    Output:
        o: [B, Hq, D], dtype of q; new memory
    Definition:
        s[b, h, j] = scale * sum_d q[b, h, d] * k_cache[b, g, j, d], where g = h // (Hq // Hkv), for j < lengths[b]
        o[b, h, d] = sum_j exp(s[b, h, j]) * v_cache[b, g, j, d] / sum_j exp(s[b, h, j])
        for a sequence with lengths[b] = 0, o is 0

    Limits:
        Lengths are ragged, with 0, 1 and Smax among them; slots past them hold NaN. Hq // Hkv is 1 to 8. Tensors have
        any strides with the last one 1, and start at any element; all sequences may share one cache (a stride of 0).
        Logits may lie around ±10⁴. scale may be 0 or negative.
    Judged:
        o, for all of that; that sums are in float32; that every call computes its result; a run of many steps in turns
        with your append_kv; that kernels do it, in any number of launches; bytes loaded and stored: each cached
        element once per kv head, nothing past the lengths, and partial results of splits of 64 slots; on a GPU the
        speed, as a share of the bandwidth of a copy, for large batches and for one sequence with a long context.
    """
    raise NotImplementedError("decode_attention: write a kernel that walks over the slots of one sequence and kv head")


# Part 3

# @triton.jit
# def paged_kernel(q_ptr, k_ptr, v_ptr, table_ptr, lengths_ptr, ...):
#     ...as above, but first load the page of every slot of the tile: block_table[b, slot // page], with the mask of
#     the slots; the address is then page · stride + (slot % page) · stride


def paged_decode_attention(
    q: torch.Tensor,
    k_pages: torch.Tensor,
    v_pages: torch.Tensor,
    block_table: torch.Tensor,
    lengths: torch.Tensor,
    scale: float | None = None,
) -> torch.Tensor:
    """Compute the same attention, with the cache in pages that lie anywhere in a pool.

    A cache of Smax slots for every sequence wastes the slots that a sequence does not use. With pages, a sequence takes
    from one pool only the pages that it needs, and sequences with the same beginning share its pages.

    Inputs:
        q: [B, Hq, D], float16 or bfloat16; Hq a multiple of Hkv; D is 64 or 128
        k_pages: [P, page, Hkv, D], same dtype and device as q; page is 16 or 64
        v_pages: [P, page, Hkv, D], same dtype and device as q
        block_table: [B, blocks], int32: block_table[b, i] is the page of slots i * page … i * page + page - 1
        lengths: [B], int32: how many slots each sequence has, 0 … blocks * page
        scale: the factor of the logits, any finite float; None: D**-0.5
    Output:
        o: [B, Hq, D], dtype of q; new memory
    Definition:
        as in decode_attention, where slot j of sequence b is slot j % page of page block_table[b, j // page]

    Limits:
        as in decode_attention. Pages come in any order, and may be in several sequences' rows; entries of the table
        past a sequence's last page are -1. Unused slots and unused pages hold NaN. block_table may be a
        window of a larger table; pages have any strides with stride(3) == 1.
    Judged:
        as in decode_attention, without the run of many steps.
    """
    raise NotImplementedError("paged_decode_attention: the walk of decode_attention, with a page number for every slot")


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.arange(2 * 40 * 16.0, device=device).reshape(2, 40, 16)
    lengths = torch.tensor([40, 3], dtype=torch.int32, device=device)
    print(sequence_means(x, lengths)[:, :3], torch.stack([x[0].mean(0), x[1, :3].mean(0)])[:, :3])
