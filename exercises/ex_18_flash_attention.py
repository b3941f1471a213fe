"""ex_18: FlashAttention in Triton, forward and backward.

Attention compares every query with every key: Sq · Skv numbers. Standard attention writes them to memory, reads them
for the softmax, writes the weights, and reads those for the product with v. For long sequences that traffic, not the
arithmetic, takes the time, and the memory runs out first. FlashAttention computes the same numbers, tile by tile, and
stores none of them. You write it here: the forward pass, and a backward pass that computes the weights again instead
of loading them.

Run it

    grade ex_18                                 grade both parts
    grade ex_18 --part attention_forward        grade one part while you work on it
    grade hint ex_18 --part attention_forward   the first of three hints; --level 3 is the plainest

Without a GPU your kernels run in Triton's interpreter, on the CPU: values, memory and traffic are judged there, speed
is not. The scorecard says what was judged and what was not. Either way you edit this file only.

Where to start

    1. Read the worked example below (`row_logsumexp`), and run it:
       TRITON_INTERPRET=1 python exercises/ex_18_flash_attention.py
    2. attention_forward     one head without a mask first; then tails, heads, the causal mask, scale and strides
    3. attention_backward    three small kernels: delta; dk and dv; dq
    4. On a GPU: other tiles, a first loop without masks, `@triton.autotune`.

A part that still raises NotImplementedError counts as not started; the other is still graded. The forward kernel takes
about 40 lines, the backward ones 70 together. attention_backward gets o and lse; it does not need your forward.

The rules, for both parts

- Your Triton kernels do the arithmetic. In PyTorch you may allocate (`torch.empty`, `torch.zeros`), make views, copy,
  convert a result's dtype, and read shapes and strides. Torch operators that compute fail the checks.
- Return new memory at every call, on the device of the input. Memory from `torch.empty` holds NaN while you are graded,
  so an element that you forget to write is seen.
- Leave the inputs as they are, and never read or write outside them: the memory around them is not yours.
- Besides inputs and results you may take 4 times the size of q, k, v and o in float32, and 1 MiB. Arrays as long as
  the sequences fit; Sq × Skv numbers do not.

Softmax without the whole row

    A row of logits s[0], s[1], … has the weights exp(s[j] - m) / l, where m is its largest logit (without it exp would
    overflow) and l the sum of the exp(s[j] - m). Both seem to need the whole row. But suppose that m, l and
    acc = sum of exp(s[j] - m) · v[j] are right for the first keys, and the next tile of keys has logits s and values v:

        m_new = the larger of m and the tile's largest logit
        p     = exp(s - m_new)                           the tile's weights, not yet divided
        alpha = exp(m - m_new)                           the sums so far are relative to m
        l     = alpha · l   + sum of p
        acc   = alpha · acc + p · v
        m     = m_new

    and m, l and acc are right for these keys as well. After the last tile o = acc / l. This is the online softmax.

What lse is for

    lse = m + log(l), the logarithm of the row's sum of exp(s[j]): with it exp(s[j] - lse) is a finished weight.
    From this one number per query the backward pass computes any tile of the weights again.

Five things to know

- `tl.dot` multiplies float16 and bfloat16 tiles on the tensor cores into float32. Logits, m, l, lse and acc stay in
  float32; round only the operands of a second `tl.dot`: `tl.dot(p.to(v.dtype), v)`.
- Grouped heads: Hq is a multiple of Hkv, and each kv head serves Hq // Hkv neighbouring query heads. Query head h reads
  kv head h // (Hq // Hkv). In the backward pass, a kv head's dk and dv are the sums over its query heads.
- The causal mask is aligned at the end: the last query sees all keys, and query i sees keys j <= i + Skv - Sq. With
  more queries than keys, the first ones see nothing: o = 0 and lse = -inf. Avoid -inf - (-inf), which is NaN.
- Skip tiles that none of your queries sees. Tiles that all of them see need no mask.
- exp(x) is 2**(x · log2 e) on the hardware: with log2 e multiplied into the scale, `tl.exp2` saves a multiplication for
  every weight.
"""

import torch
import triton
import triton.language as tl

# Worked example: the logarithm of every row's sum of exp, in one walk over the row. Read it, run it. It is not graded.


@triton.jit
def row_logsumexp_kernel(x_ptr, y_ptr, N, stride_xm, BLOCK: tl.constexpr):
    """Reduce the row program_id(0), in tiles of BLOCK columns."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)

    # Nothing has been seen: the largest of no numbers is -inf, and their sum, the l of above, is 0.
    m = tl.full((), float("-inf"), tl.float32)
    total = tl.full((), 0.0, tl.float32)
    for start in range(0, N, BLOCK):
        # Lanes beyond the row get -inf, and exp(-inf) is 0: they neither win the maximum nor add to the sum.
        x = tl.load(x_ptr + row * stride_xm + start + columns, mask=start + columns < N, other=float("-inf"))
        m_new = tl.maximum(m, tl.max(x, 0))

        # The old sum was relative to the old maximum. In the first step exp(-inf - m_new) = 0, and 0 · 0 = 0.
        total = total * tl.exp(m - m_new) + tl.sum(tl.exp(x - m_new), 0)
        m = m_new
    tl.store(y_ptr + row, m + tl.log(total))


def row_logsumexp(x: torch.Tensor) -> torch.Tensor:
    """Launch one program per row."""
    M, N = x.shape
    y = torch.empty((M,), dtype=torch.float32, device=x.device)
    row_logsumexp_kernel[(M,)](x, y, N, x.stride(0), BLOCK=64)
    return y


# Part 1

# @triton.jit
# def forward_kernel(
#     q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, Hq, group, Sq, Skv, scale, stride_qb, stride_qh, stride_qs, ...,
#     D: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
# ):
#     ...1. which queries of which head of which batch are mine? and which kv head do they read?
#     ...2. load my tile of q, [BLOCK_M, D], with a mask; it stays
#     ...3. m, l = tl.full((BLOCK_M,), ...), one number per query; acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
#     ...4. for every tile of keys that one of my queries can see:
#           ...load k, [BLOCK_N, D], with a mask
#           ...s = scale times q · kᵀ, in float32, [BLOCK_M, BLOCK_N]; -inf where there is no key, or a hidden one
#           ...m_new, p, alpha as above, with [:, None] where a number per query meets a tile
#              (what if a query has seen no key so far, and m_new is -inf?)
#           ...load v; l, acc and m as above
#     ...5. o = acc / l, rounded to the dtype of o (what if l is 0?), and lse = m + log(l): store both, with masks


def attention_forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, scale: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute attention, and the numbers that its backward pass needs.

    Inputs:
        q: [B, Hq, Sq, D], float16 or bfloat16; Hq a multiple of Hkv; D is 16, 32, 64 or 128
        k: [B, Hkv, Skv, D], same dtype and device as q
        v: [B, Hkv, Skv, D], same dtype and device as q
        causal: True: query i sees keys j <= i + Skv - Sq only
        scale: the factor of the logits, any finite float; None: D**-0.5
    Output:
        o: [B, Hq, Sq, D], dtype of q; new memory
        lse: [B, Hq, Sq], float32; new memory
    Definition:
        s[b, h, i, j] = scale * sum_d q[b, h, i, d] * k[b, g, j, d], where g = h // (Hq // Hkv)
        lse[b, h, i] = log(sum_j exp(s[b, h, i, j])), the natural logarithm, over the keys j that query i sees
        o[b, h, i, d] = sum_j exp(s[b, h, i, j] - lse[b, h, i]) * v[b, g, j, d]
        for a query that sees no key, o is 0 and lse is -inf

    Limits:
        Sq, Skv >= 1 are any sizes, such as 1, 65 or 1000. Tensors have any strides with stride(3) == 1: heads before
        tokens or tokens before heads, windows of larger tensors that start at any element, batches that share their
        memory (a stride of 0). Logits may lie around ±10⁴. scale may be 0 or negative. Values are finite.
    Judged:
        o and lse, for all of that; that sums and lse are in float32; that every call computes its result; that kernels
        do it, in any number of launches; memory taken; bytes moved, at most those of tiles of 16 queries; on a GPU the
        speed, relative to PyTorch's own FlashAttention.
    """
    raise NotImplementedError("attention_forward: write a kernel that walks over the keys for one tile of queries")


# Part 2

# @triton.jit
# def delta_kernel(do_ptr, o_ptr, delta_ptr, ...):
#     ...one number per query: delta = sum over d of o ∘ do, in float32
#
# @triton.jit
# def key_gradient_kernel(do_ptr, q_ptr, k_ptr, v_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, ...):
#     ...1. which keys of which kv head are mine? load k and v, [BLOCK_N, D]; they stay; dk, dv = float32 zeros
#     ...2. for every query head that reads my kv head, and every tile of its queries that can see one of my keys:
#           ...load q, do, [BLOCK_M, D], and lse, delta, [BLOCK_M], with masks
#           ...p = exp(scale · q · kᵀ - lse), and 0 where hidden, beyond an end, or where lse is -inf
#           ...dv += pᵀ · do;  ds = p ∘ (do · vᵀ - delta);  dk += dsᵀ · q, with p and ds rounded as tl.dot wants them
#     ...3. store dk · scale and dv
#
# @triton.jit
# def query_gradient_kernel(do_ptr, q_ptr, k_ptr, v_ptr, lse_ptr, delta_ptr, dq_ptr, ...):
#     ...the same the other way round: my queries stay, tiles of keys come by, and dq += ds · k; store dq · scale


def attention_backward(
    do: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    causal: bool = False,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Compute the gradients of attention: from do, the gradient of a loss with respect to o, those for q, k and v.

    The chain rule for softmax needs a row's sum of p ∘ dp. It equals the row's sum of o ∘ do, which costs D products
    instead of Skv, and is known before the first tile: delta.

    Inputs:
        do: [B, Hq, Sq, D], dtype of q
        q: [B, Hq, Sq, D], float16 or bfloat16; Hq a multiple of Hkv; D is 16, 32, 64 or 128
        k: [B, Hkv, Skv, D], same dtype and device as q
        v: [B, Hkv, Skv, D], same dtype and device as q
        o: [B, Hq, Sq, D], dtype of q: what the forward pass returned
        lse: [B, Hq, Sq], float32, contiguous: what the forward pass returned
        causal: as in the forward pass
        scale: as in the forward pass
    Output:
        dq: [B, Hq, Sq, D], dtype of q; new memory
        dk: [B, Hkv, Skv, D], dtype of q; new memory
        dv: [B, Hkv, Skv, D], dtype of q; new memory
    Definition:
        p[b, h, i, j] = exp(s[b, h, i, j] - lse[b, h, i]), s as in the forward pass; 0 for keys that i does not see
        delta[b, h, i] = sum_d o[b, h, i, d] * do[b, h, i, d]
        ds[b, h, i, j] = p[b, h, i, j] * (sum_d do[b, h, i, d] * v[b, g, j, d] - delta[b, h, i])
        dq[b, h, i, d] = scale * sum_j ds[b, h, i, j] * k[b, g, j, d], where g = h // (Hq // Hkv)
        dk[b, g, j, d] = scale * sum over i, and over all h that read kv head g, of ds[b, h, i, j] * q[b, h, i, d]
        dv[b, g, j, d] = sum over the same of p[b, h, i, j] * do[b, h, i, d]

    Limits:
        as in attention_forward. do and o may lie in memory differently. For a query that saw no key, lse is -inf; it
        has dq = 0 and adds nothing to dk and dv.
    Judged:
        as in attention_forward; bytes moved, at most those of tiles of 16 queries and 16 keys. You may add up dq by
        tl.atomic_add, in float32: here equal inputs need not give equal bits. On a GPU the speed, relative to the
        backward pass of PyTorch's own FlashAttention.
    """
    raise NotImplementedError("attention_backward: delta first, then dk and dv, then dq")


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.arange(300.0, device=device).reshape(2, 150)
    print(row_logsumexp(x), x.logsumexp(1))
