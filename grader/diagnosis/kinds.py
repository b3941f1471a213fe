"""List the kinds of causes that any exercise may meet.

An exercise's own kinds stand in its specification.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grader.exercise.causes import Kind

_KINDS = (
    # -- masks, tails and what is left over
    Kind(
        "missing_mask",
        "a mask that is missing, or lets too much through",
        "Which lanes of the last block have no element? Loads and stores need a mask for them, on every axis that a "
        "block can overrun.",
    ),
    Kind(
        "remainder_skipped",
        "a remainder that is left out: something is counted rounding down",
        "How many blocks does a length need that no block divides? Try a length one above a full block by hand.",
    ),
    Kind(
        "last_left_out",
        "a bound that is one too small: the last element is left out",
        "Compare the bound with the length itself: is the last index still below it?",
    ),
    Kind(
        "block_left_out",
        "a loop that ends one block early, or starts one late",
        "Write down the first and the last offset that the loop visits, for a length of exactly two blocks.",
    ),
    Kind(
        "not_all_covered",
        "elements that belong to nobody: the work is not shared out completely",
        "Which program, and which thread, computes each element? Every element must be somebody's, once.",
    ),
    Kind(
        "padding_counted",
        "padding that counts: what lies beyond the end joins the reduction",
        "What value does a lane get that has no element, and what does this value add to the result?",
    ),
    # -- where things lie
    Kind(
        "strides_ignored",
        "strides that are not the tensor's own",
        "How far apart do neighbours lie along each axis? Ask the tensor that is accessed, axis by axis.",
    ),
    Kind(
        "start_ignored",
        "a start that is not the tensor's own",
        "A tensor may start anywhere in its memory, also at an odd address. Where does the address of element 0 come "
        "from, and is it rounded?",
    ),
    Kind(
        "axes_exchanged",
        "two axes that are exchanged",
        "Is there a place where rows and columns, two strides or two coordinates stand in the other order?",
    ),
    Kind(
        "operand_mixed_up",
        "one tensor in another one's place",
        "Look at the pointers, argument by argument: which one is loaded, and where does it go?",
    ),
    Kind(
        "position_shifted",
        "positions that are shifted",
        "Take the first element by hand: which index is it computed from, and where is it stored?",
    ),
    Kind(
        "size_assumed",
        "a size that is taken for granted",
        "Which number in the code is right for some cases only: a block, a page, a number of threads, a longest row?",
    ),
    Kind(
        "offset_overflow",
        "an offset that does not fit into 32 bits",
        "How large does the product of an index and a stride become? Convert a factor before multiplying.",
    ),
    Kind(
        "grid_too_large",
        "a grid with more programs than there are blocks",
        "How many blocks are there, and which index does the last program start at?",
    ),
    Kind(
        "bad_index",
        "an index that points nowhere",
        "Where does the index come from, and is it looked up only where there is one?",
    ),
    Kind("wrong_address", "an address that is computed wrongly", "Compute the offset of one wrong element by hand."),
    # -- what is computed
    Kind(
        "zeros",
        "a result that is never computed, or never stored",
        "Follow one value from its load to its store: which step loses it?",
    ),
    Kind(
        "copies_input",
        "an input that is handed on unchanged",
        "Which step of the computation does the stored value never go through?",
    ),
    Kind(
        "wrong_factor",
        "a factor that is missing, or applied twice",
        "Which factor of the formula has this size, and how often is it applied?",
    ),
    Kind(
        "wrong_axis",
        "a reduction over the wrong axis, or over more than its own row",
        "Which elements belong to one result? Look at the axis of the reduction and at the shape of what goes in.",
    ),
    Kind(
        "sum_restarted",
        "a sum that is begun anew in every step",
        "What of the first block is still in the accumulator after the last one?",
    ),
    Kind(
        "not_cleared",
        "an accumulator that does not start at zero",
        "What does the memory that is added to hold before the first addition, in the first call and in the next?",
    ),
    Kind(
        "writes_beyond",
        "stores to elements that must stay as they are",
        "Which elements does the contract let the call change? Everything else must be left alone.",
    ),
    Kind(
        "clamped",
        "values that are cut off at a limit",
        "What is the largest value that the result can hold, and is there a narrower limit on the way?",
    ),
    Kind(
        "overflow",
        "an intermediate value that overflows",
        "How large does each intermediate value become for the largest inputs? Rearrange what overflows.",
    ),
    Kind(
        "value_shortcut",
        "a shortcut that is not right for all values",
        "Does the code decide anything by looking at values? Think of zeros, infinities and NaN.",
    ),
    # -- precision
    Kind(
        "low_precision_sum",
        "a sum that is kept in too low a precision",
        "In which dtype is the accumulator, after every step?",
    ),
    Kind(
        "rounded_intermediate",
        "an intermediate value that is rounded too early",
        "Which intermediate value is converted to the inputs' dtype before the last step?",
    ),
    Kind(
        "tf32",
        "TF32 rounding, which float32 products get unless told otherwise",
        "How many bits of its operands does a float32 product look at by default?",
    ),
    # -- programs beside each other
    Kind(
        "lost_update",
        "an update that programs do not make atomically",
        "On a GPU two programs may load the same old value before either stores: which operation adds in one step?",
    ),
    Kind(
        "stores_collide",
        "programs that store to the same elements",
        "Whose value stays? Results of several programs must be joined, or lie in elements of their own.",
    ),
    Kind(
        "race",
        "a race: nothing says who comes first",
        "What one program or thread writes and another one reads needs an order between them.",
    ),
    # -- calls after each other
    Kind(
        "remembered_result",
        "a result that is remembered from an earlier call",
        "Results must be computed from the inputs at every call; remember none by pointer, shape or content.",
    ),
    Kind(
        "remembered_input",
        "an input, or a part of one, that is remembered from an earlier call",
        "What of this call's inputs is not looked at again? Bytes may change behind the same address.",
    ),
    Kind(
        "reused_output",
        "memory that is handed out twice",
        "The caller may still hold the result of the call before: allocate the output in every call.",
    ),
    Kind("input_changed", "a store to an input", "Inputs are the caller's: which store goes there?"),
    # -- who does the work, and how much of it
    Kind(
        "work_outside_kernels",
        "work that is not done by your kernels",
        "Allocation, zeros, fills, views and a final dtype cast may be torch's; the arithmetic is your kernels'.",
    ),
    Kind(
        "values_read",
        "launch code that waits for values of a tensor",
        "Which value does Python ask for, and which shape bounds it? A kernel can load the value itself.",
    ),
    Kind(
        "other_means",
        "a right answer by other means than this part is about",
        "Which operations does the statement ask for, and where do they stand in your code?",
    ),
    Kind(
        "several_launches",
        "steps in several launches that one launch could do",
        "What does the second launch read that the first one still had in registers?",
    ),
    Kind(
        "through_memory",
        "an intermediate value that goes through memory",
        "Which value is stored and loaded again before it is final?",
    ),
    Kind(
        "read_again",
        "inputs that are loaded several times over",
        "Who loads the same bytes again: another pass of the same program, or a program whose tile could be larger?",
    ),
    Kind(
        "done_again",
        "work that is done more than once",
        "Which elements does program 0 take, and which ones program 1? Do they overlap, or do turns of a loop?",
    ),
    Kind(
        "reads_unneeded",
        "bytes that are moved and not needed",
        "Which of the loaded bytes can change the answer? Do not load, or store, the others.",
    ),
    Kind(
        "large_temporary",
        "a temporary tensor that grows faster than the inputs",
        "Which tensor has an element for every pair? Keep its tiles in registers, and never all of it.",
    ),
    # -- forms and failures
    Kind("wrong_dtype", "a result of another dtype", "Which dtype does the contract ask for, for every input dtype?"),
    Kind("wrong_form", "a result of another form", "How many results, of which type, shape and device, are asked for?"),
    Kind("compile_error", "code that does not compile", "The compiler's message names the line and what it wants."),
    Kind("exception", "an exception", "Start with the last line of the traceback that is yours."),
    Kind("timeout", "a call that does not end in time", "Look for a loop whose bound never arrives."),
    Kind("out_of_memory", "too much memory", "Which temporary is larger than the inputs and outputs together?"),
    Kind("process_died", "a process that ended", "What can end a whole process: an exit, a signal, a wild address?"),
    Kind(
        "shared_memory",
        "more shared memory than the GPU has",
        "How many bytes is one stage of the tiles, and how many stages are there?",
    ),
    Kind(
        "spills",
        "more registers than a thread has",
        "How many accumulators does one thread hold? Smaller tiles, or more warps, need fewer.",
    ),
    Kind(
        "no_tensor_cores",
        "a kernel that no tensor core takes part in",
        "Which operation is the MMA atom made of? The universal one is a multiply-add of a single thread.",
    ),
    # -- choices
    Kind(
        "not_offered",
        "an answer that is none of the choices",
        "Return an element of what is offered itself: not its place, and not one with other numbers.",
    ),
    Kind(
        "fixed_choice",
        "one choice for everything",
        "What is different between a case where it is good and one where it is not?",
    ),
    Kind(
        "order_followed",
        "a choice by place: what is offered comes in any order",
        "Which property of the candidate itself decides?",
    ),
    Kind(
        "one_criterion",
        "a choice by one property alone",
        "For which cases does this property not matter, and what matters there?",
    ),
    # -- softmax and attention
    Kind(
        "no_maximum",
        "a softmax that does not subtract the row's maximum",
        "How large may a logit be before its exponential overflows, and what may be subtracted from all of them?",
    ),
    Kind(
        "no_rescale",
        "a running sum that is not rescaled when the maximum grows",
        "What was added up so far is relative to the old maximum: what makes it relative to the new one?",
    ),
    Kind("scale_missing", "a scale that is missing, or applied twice", "Which products does the scale belong to?"),
    Kind(
        "scale_ignored",
        "a scale that is ignored",
        "When is the default taken, and is every number that is no default, 0 among them, taken as it is?",
    ),
    Kind(
        "heads_mapping",
        "query heads that read another kv head than their own",
        "Neighbouring query heads share a kv head: write down which one each of them reads, for 4 and 2.",
    ),
)

GENERAL: Mapping[str, Kind] = {kind.name: kind for kind in _KINDS}


def known_kinds(own: Sequence[Kind]) -> dict[str, Kind]:
    """Return all kinds that an exercise may name, by name: its own and the general ones."""
    return {**GENERAL, **{kind.name: kind for kind in own}}
