"""List the kinds of causes that are possible in any exercise: what each is called, and what to do about it.

`kinds` chooses among them for a part.
"""

from __future__ import annotations

from grader.exercise.causes import NO_ACCESS, Kind, Shown

# What a kind may explain of other checks. Low precision causes rounding errors or overflow, not wrong addresses.
_FEW_BITS = frozenset({Shown.NEAR, Shown.NOT_FINITE})
# TF32 has the range of float32, and does not overflow either.
_TF32 = frozenset({Shown.NEAR})
# Values that go through memory may be rounded there, and no more.
_HANDED_ON = frozenset({Shown.BESIDE, Shown.NEAR})
# The amount of work, and who does it, changes no value.
_NO_VALUES = frozenset({Shown.BESIDE})
# Values are compared where the form is right: another case fails for another reason.
_FORMS = frozenset({Shown.BESIDE})
# What a compiler does to one call says nothing about a call that is wrong in the interpreter too.
_NOTHING = frozenset[Shown]()

GENERAL_KINDS = (
    # -- masks, tails and what is left over
    Kind(
        "missing_mask",
        "a mask that is missing, or lets too much through",
        "Which lanes of the last block have no element? Loads and stores need a mask for them, on every axis that a "
        "block can overrun.",
        families=("ragged", "masks"),
    ),
    Kind(
        "axis_unmasked",
        "a mask that has no condition on one axis",
        "Which axis does the block overrun, and which condition of the mask is about that axis?",
    ),
    Kind(
        "bound_too_large",
        "a mask whose bound is larger than the tensor",
        "How many elements does this tensor have? Compare its index with that number, and not with another length.",
    ),
    Kind(
        "masked_by_values",
        "a mask that depends on values, and leaves out elements that exist",
        "A mask asks whether an element exists, and not what another tensor holds there: a value that is not loaded is "
        "missing from the result, and 0 · inf and 0 · NaN are NaN. Load and store every element that exists.",
        by_edit=True,
    ),
    Kind(
        "brackets_missing",
        "a condition without brackets: & takes its operands before < does",
        "`rows & columns < n` compares `rows & columns` with n. Put each condition into brackets of its own.",
        by_edit=True,
    ),
    Kind(
        "starts_before",
        "a part that begins with the whole block in which its first element lies",
        "The elements of that block before the part's first one belong to the part before, and count twice. Mask them "
        "out, or let every part be a whole number of blocks.",
        by_edit=True,
    ),
    Kind(
        "remainder_skipped",
        "a remainder that is left out: a count is rounded down",
        "How many blocks does a length need if it is no multiple of the block? Try one block plus one element by hand.",
        families=("ragged", "masks"),
        by_edit=True,
    ),
    Kind(
        "last_left_out",
        "a bound that is one too small: the last element is left out",
        "Compare the bound with the length itself: is the last index still below it?",
        families=("everywhere", "masks"),
    ),
    Kind(
        "block_left_out",
        "a loop that ends one block early, or starts one late",
        "Write down the first and the last offset that the loop visits, for a length of exactly two blocks.",
        families=("reduction", "masks"),
    ),
    Kind(
        "not_all_covered",
        "elements that no program computes: the work is not shared out completely",
        "Which program, and which thread, computes each element? Exactly one must compute it.",
        families=("masks",),
    ),
    Kind(
        "padding_counted",
        "padding that counts: lanes beyond the end join the reduction",
        "Which value does a lane without an element get, and how does this value change the result?",
        families=("ragged", "small errors", "reduction"),
        by_replay=True,
    ),
    # -- where things lie
    Kind(
        "strides_ignored",
        "strides that are not the tensor's own",
        "How far apart do neighbours lie along each axis? Use the strides of the tensor that you access, axis by axis.",
        families=("addresses",),
        by_edit=True,
    ),
    Kind(
        "start_ignored",
        "a start that is not the tensor's own",
        "A tensor may start anywhere in its memory, also at an odd address. How do you compute the address of element "
        "0, and do you round it?",
        families=("addresses",),
    ),
    Kind(
        "axes_exchanged",
        "two axes that are exchanged",
        "Is there a place where rows and columns, two strides or two coordinates are in the wrong order?",
    ),
    Kind(
        "operand_transposed",
        "an operand of a product whose rows and columns are exchanged",
        "`tl.dot(a, b)` sums over the columns of a and the rows of b. For a block of rows, such as keys, the second "
        "operand is `tl.trans(k)`. Where tiles are square, the shapes do not show it.",
        by_edit=True,
    ),
    Kind(
        "other_axis_block",
        "a number of blocks that is counted with another axis's block",
        "An axis of N elements has tl.cdiv(N, BLOCK_N) blocks: its own length, over its own block.",
        by_edit=True,
    ),
    Kind(
        "operand_mixed_up",
        "one tensor in place of another",
        "Check the pointers, argument by argument: which one do you load, and where does its value go?",
    ),
    Kind(
        "position_shifted",
        "positions that are shifted",
        "Follow the first element by hand: from which index do you compute it, and where do you store it?",
        families=("misplaced", "addresses"),
        in_launch_code=False,
    ),
    Kind(
        "size_assumed",
        "a size that the code assumes",
        "Which number in the code is right for some cases only: a block, a page, a number of threads, a row's length?",
        families=("masks",),
        by_edit=True,
    ),
    Kind(
        "offset_overflow",
        "a slot or an offset that does not fit into its integer dtype",
        "int16 ends at 32,767 and int32 at 2,147,483,647. How large does the index become, and its product with a "
        "stride? Convert a factor before multiplying: index.to(tl.int64) * stride.",
    ),
    Kind(
        "group_not_cut",
        "a last group of tiles that is not cut to the rows that are left",
        "In grouped order the last group has min(rows - first row, GROUP) rows of tiles: take the remainder and the "
        "quotient by that number.",
        by_edit=True,
    ),
    Kind(
        "not_restarted",
        "an accumulator that still holds the tile before",
        "A program that computes several tiles starts each one from 0: where does yours clear its accumulator?",
        by_edit=True,
    ),
    Kind(
        "grid_too_large",
        "a grid with more programs than there are blocks",
        "How many blocks are there, and at which index does the last program start?",
    ),
    Kind(
        "count_too_large",
        "a count that is one too many where a division leaves no remainder",
        "`n // size + 1` parts are one more than there are if n is a multiple of size: write `tl.cdiv(n, size)`.",
        by_edit=True,
    ),
    Kind(
        "bad_index",
        "an index that points outside the tensor",
        "Where does the index come from? Do you load it only for lanes that have one?",
        families=("addresses",),
        in_launch_code=False,
    ),
    Kind(
        "parts_exchanged",
        "a quotient and a remainder that are exchanged, or that have two divisors",
        "Of a number i that counts through rows of n: i // n is the row, and i % n the place in it.",
        families=("addresses",),
        by_edit=True,
    ),
    Kind(
        "relative_index",
        "an index that counts from another start",
        "Does this index count from the start of its part, of its block, or of the whole tensor?",
        families=("masks",),
        by_edit=True,
    ),
    Kind(
        "not_advanced",
        "a pointer that does not move on: every step of a loop meets the same block",
        "Which block of each tensor does the second step of the loop load or store? Move every pointer on.",
    ),
    Kind(
        "later_blocks",
        "blocks after the first one",
        "What is different in the second block: its offset, its bound, or what the first one leaves for it?",
    ),
    Kind(
        "diverging_branch",
        "a branch or loop that only failing calls take",
        "What does this code assume that holds only in passing calls? Go through it by hand for the smallest failing "
        "case.",
    ),
    Kind(
        "wrong_branch",
        "a branch that is wrong, or that is taken in the wrong cases",
        "What must hold in every case that takes this branch? Go through both ways for the smallest failing case.",
        by_edit=True,
    ),
    Kind(
        "wrong_address",
        "a wrong address",
        "Compute the offset of one wrong element by hand.",
        families=("misplaced", "addresses"),
        in_launch_code=False,
    ),
    # -- what is computed
    Kind(
        "zeros",
        "a result that is never computed, or never stored",
        "Follow one value from its load to its store: which step loses it?",
        families=("everywhere",),
    ),
    Kind(
        "copies_input",
        "an input that is returned unchanged",
        "Which step of the computation does the stored value skip?",
        families=("everywhere",),
    ),
    Kind(
        "wrong_factor",
        "a factor that is missing, or applied twice",
        "Which factor of the formula has this size, and how often do you apply it?",
        explains=NO_ACCESS,
    ),
    Kind(
        "wrong_axis",
        "a reduction over the wrong axis, or over more than its own row",
        "Which elements belong to one result? Check the axis of the reduction and the shape of its input.",
        families=("reduction",),
    ),
    Kind(
        "sum_restarted",
        "a sum that starts again in every step",
        "After the last block, does the accumulator still hold the first one?",
        families=("reduction",),
    ),
    Kind(
        "runs_in_every_step",
        "a line in a loop that belongs after it",
        "The line runs in every step, on sums that are not complete yet. Move it to the left, after the loop.",
        by_edit=True,
    ),
    Kind(
        "runs_once",
        "a line after a loop that belongs in it",
        "The line runs once, on the values of the last step. Move it to the right, into the loop.",
        by_edit=True,
    ),
    Kind(
        "lines_exchanged",
        "two lines in the wrong order",
        "Which of the two lines needs the result of the other one? Follow the second step of the loop by hand.",
        by_edit=True,
    ),
    Kind(
        "loop_bounds",
        "a loop that starts too late, or ends too early",
        "Which is the first block that this program must visit, and which the last? Round a start down and an end up; "
        "the last row of a tile may see more than its first one.",
        by_edit=True,
    ),
    Kind(
        "returns_early",
        "a program that returns before it has done its part",
        "Who waits for what this program stores, or for its ticket? A part without work has a result, too.",
        by_edit=True,
    ),
    Kind(
        "not_cleared",
        "memory of your own that is read before it is written: an accumulator, a counter, a partial result",
        "Which value does it hold before the first addition, in the first call and in the next? Is every part written?",
        explains=NO_ACCESS,
        families=("everywhere",),
        by_edit=True,
    ),
    Kind(
        "writes_beyond",
        "stores to elements that must stay as they are",
        "Which elements may the call change? Leave all others as they are.",
    ),
    Kind(
        "inf_minus_inf",
        "-inf - (-inf), which is NaN",
        "Which two numbers are both -inf in one step? Where a maximum is still -inf, subtract 0 instead of it.",
        families=("not finite",),
    ),
    Kind(
        "masked_by_product",
        "a mask that multiplies: 0 · inf, which is NaN",
        "A mask of 0 and 1 removes no infinity: take tl.where(mask, value, 0.0).",
    ),
    Kind(
        "clamped",
        "values that are cut off at a limit",
        "Which is the largest value that the result can hold? Does a step before it have a narrower limit?",
        explains=NO_ACCESS,
    ),
    Kind(
        "overflow",
        "an intermediate value that overflows",
        "How large does each intermediate value become for the largest inputs? Rearrange the step that overflows.",
        families=("not finite",),
        explains=NO_ACCESS,
    ),
    Kind(
        "zero_divided",
        "0 / 0, which is NaN",
        "Which sum is 0 here: one without elements, or one whose exponentials are all too small?",
    ),
    Kind(
        "value_shortcut",
        "a shortcut that is not right for all values",
        "Does the code decide anything by looking at values? Think of zeros, infinities and NaN.",
        explains=NO_ACCESS,
    ),
    Kind(
        "small_left_out",
        "small terms that are left out",
        "Many terms far below the largest one may weigh as much as it does, all together: each of them counts.",
    ),
    # -- precision
    Kind(
        "low_precision_sum",
        "a sum in too low a precision",
        "Which dtype does the accumulator have after every step?",
        families=("small errors", "few bits", "reduction"),
        explains=_FEW_BITS,
    ),
    Kind(
        "rounded_intermediate",
        "an intermediate value that is rounded too early",
        "Which intermediate value has the inputs' dtype before the last step? A product of two float16 blocks has it "
        "too.",
        families=("small errors", "few bits"),
        explains=_FEW_BITS,
    ),
    Kind(
        "short_constant",
        "a constant with too few digits",
        "A float32 number has seven digits: write log2(e) as 1.4426950408889634, or compute it outside the kernel.",
        explains=_FEW_BITS,
        by_edit=True,
    ),
    Kind(
        "slip",
        "a slip in one expression",
        "Read this expression beside the formula: which operation, which operands, in which order?",
    ),
    Kind(
        "tf32",
        "TF32 rounding, the default for float32 products",
        "How many bits of its operands does a float32 product use by default? Triton also makes a tl.dot of "
        "`tl.sum(a[:, :, None] * b[None, :, :], axis=1)`.",
        explains=_TF32,
    ),
    Kind(
        "contracted",
        "a product that is not rounded before a sum",
        "The compiler makes one instruction of a product and the sum that it goes into. It rounds once, so "
        "`x * c - max(x * c)` is not 0 at the maximum. Subtract before you multiply: `(x - max(x)) * c`.",
    ),
    # -- programs at the same time
    Kind(
        "lost_update",
        "an update that is not atomic",
        "On a GPU two programs may load the same old value before either stores: which operation adds in one step?",
        families=("meeting",),
    ),
    Kind(
        "stores_collide",
        "programs that store to the same elements",
        "Which value stays? Join the results of several programs, or store them to separate elements.",
        families=("meeting",),
    ),
    Kind(
        "race",
        "a race: two accesses in no fixed order",
        "If one program or thread writes an element and another one accesses it, put the two accesses in order.",
        families=("meeting",),
    ),
    Kind(
        "compiled_differs",
        "a kernel that is right in the interpreter and wrong on the GPU",
        "What can differ there? Values that a program stores and loads again need `tl.debug_barrier()` between the "
        "two. Lanes that a mask leaves out hold anything. `tl.multiple_of` and `tl.max_contiguous` are promises that "
        "the compiler believes.",
        explains=_NOTHING,
    ),
    Kind(
        "pipelined",
        "a loop that is right only where its loads are not pipelined",
        "Launch the kernel with num_stages=1. What the loop stores and loads again needs `tl.debug_barrier()` between "
        "the two; without any such store, it is Triton's compiler that pipelines the loop wrongly.",
        explains=_NOTHING,
    ),
    Kind(
        "compiled_for_warps",
        "a kernel that is right on the GPU with another number of warps only",
        "Launch it with that number. What a program stores and loads again needs `tl.debug_barrier()` between the two; "
        "without any such store, it is Triton's compiler that is wrong. Triton 3.6 compiles `tl.dot(tl.trans(v), …)` "
        "of a masked load wrongly for 4 warps of a Hopper GPU.",
        explains=_NOTHING,
    ),
    # -- calls after each other
    Kind(
        "remembered_result",
        "a result that is remembered from an earlier call",
        "Compute the results from the inputs at every call; remember none by pointer, shape or content.",
        families=("earlier calls",),
        symptoms=("stale_result",),
    ),
    Kind(
        "remembered_input",
        "something of the inputs that is remembered from an earlier call",
        "What does a later call not read again: the bytes at an address, strides, a length, a number?",
        families=("earlier calls",),
    ),
    Kind(
        "reused_output",
        "memory that is returned twice",
        "The caller may still hold the result of the call before: allocate the output in every call.",
        symptoms=("alias",),
    ),
    Kind(
        "copy_changed",
        "a copy that is changed in place of the tensor itself",
        "Whose memory do the stores go to? The caller keeps the tensor that it gave you, and never sees a copy.",
    ),
    Kind(
        "input_changed",
        "a store to an input",
        "The call must leave its inputs as they are: which store goes there?",
        symptoms=("input_changed",),
    ),
    # -- who does the work, and how much of it
    Kind(
        "work_outside_kernels",
        "work outside your kernels",
        "Let torch allocate, fill, make views and cast the final dtype; do the arithmetic in your kernels.",
        families=("earlier calls",),
        symptoms=("no_kernel", "library_call", "decoy_kernel", "outside_kernels"),
        explains=NO_ACCESS,
    ),
    Kind(
        "copied_by_torch",
        "a copy that PyTorch makes",
        "Which `.contiguous()`, `.clone()` or `.to()` copies a whole tensor? The kernel can read it by its strides.",
        explains=_NO_VALUES,
    ),
    Kind(
        "values_read",
        "launch code that waits for values of a tensor",
        "Which value does Python read, and which shape bounds it? A kernel can load the value itself.",
        symptoms=("value_read",),
        explains=_NO_VALUES,
    ),
    Kind(
        "other_means",
        "a right answer without the operations that this part asks for",
        "Which operations does the statement ask for, and where does your code use them?",
        symptoms=("other_means",),
        explains=_NO_VALUES,
    ),
    Kind(
        "several_launches",
        "steps in several launches that one launch could do",
        "Which values does the second launch read that the first one had in registers?",
        symptoms=("launches",),
        explains=_HANDED_ON,
    ),
    Kind(
        "through_memory",
        "an intermediate value that goes through memory",
        "Which value do you store and load again before it is final?",
        explains=_HANDED_ON,
    ),
    Kind(
        "read_again",
        "inputs that are loaded several times",
        "Which loads read the same bytes again: those of a second pass, or those of other programs with small tiles?",
        explains=_NO_VALUES,
    ),
    Kind(
        "done_again",
        "work that is done more than once",
        "Which elements does program 0 take, and which program 1? Do programs overlap, or iterations of a loop?",
        families=("masks",),
    ),
    Kind(
        "moves_unneeded",
        "bytes that are moved but not needed",
        "Which of these bytes can change the answer? Do not load or store the others.",
        explains=_NO_VALUES,
    ),
    Kind(
        "large_temporary",
        "a temporary tensor that grows faster than the inputs",
        "Which tensor has an element for every pair? Keep one tile of it in registers at a time.",
        symptoms=("memory",),
        explains=_NO_VALUES,
    ),
    # -- forms and failures
    Kind(
        "wrong_dtype",
        "a result of the wrong dtype",
        "Which dtype does the stub ask for, for every input dtype?",
        symptoms=("wrong_dtype",),
        explains=_FORMS,
    ),
    Kind(
        "wrong_form",
        "a result of the wrong form",
        "Which number, type, shape and device of results does the stub ask for?",
        symptoms=("wrong_shape", "wrong_count", "wrong_type", "wrong_device"),
        explains=_FORMS,
    ),
    Kind(
        "compile_error",
        "code that does not compile",
        "The compiler's message names the line and the fault.",
        families=("ending",),
        symptoms=("compile_error",),
    ),
    Kind(
        "exception",
        "an exception",
        "Start with the last line of the traceback that lies in your file.",
        families=("ending",),
    ),
    Kind(
        "timeout",
        "a call that does not end in time",
        "Look for a loop that never reaches its bound.",
        symptoms=("timeout",),
    ),
    Kind(
        "out_of_memory",
        "too much memory",
        "Which temporary is larger than the inputs and outputs together?",
        symptoms=("oom", "disk"),
    ),
    Kind(
        "process_died",
        "a process that ended",
        "What can end a whole process: an exit, a signal, a wild address?",
        families=("ending",),
    ),
    Kind(
        "shared_memory",
        "more shared memory than the GPU has",
        "How many bytes does one stage of the tiles take, and how many stages are there?",
        symptoms=("shared_memory",),
        explains=_NO_VALUES,
    ),
    Kind(
        "spills",
        "more registers than a thread has",
        "How many accumulators does one thread hold? Smaller tiles, or more warps, need fewer.",
        symptoms=("spills",),
        explains=_NO_VALUES,
    ),
    Kind(
        "array_in_loop",
        "a fragment that is indexed by a number of the running program",
        "Registers have no addresses. Which loop indexes a fragment? `cutlass.range_constexpr` makes its index known.",
        symptoms=("array_in_loop",),
        explains=_NO_VALUES,
    ),
    Kind(
        "no_tensor_cores",
        "a kernel that uses no tensor cores",
        "Which operation does the MMA atom use? The universal one is a multiply-add of a single thread.",
        symptoms=("no_tensor_cores",),
        explains=_NO_VALUES,
    ),
    # -- choices
    Kind(
        "not_offered",
        "an answer that is none of the choices",
        "Return one of the offered elements itself: not its index, and not a copy with other numbers.",
        symptoms=("no_choice",),
    ),
    Kind(
        "fixed_choice",
        "one choice for everything",
        "How does a case for which it is good differ from one for which it is not?",
    ),
    Kind(
        "order_followed",
        "a choice by place: the choices come in any order",
        "Which property of the candidate itself decides?",
    ),
    Kind(
        "one_criterion",
        "a choice by one property alone",
        "For which cases does this property not matter, and which one matters there?",
    ),
    Kind(
        "cost_misjudged",
        "a cost that is misjudged for some problems",
        "Compute by hand what the worst choice costs, and what the best one costs: which term of your formula ranks "
        "them the other way round? Tiles, and rounds of tiles, are whole numbers.",
    ),
    # -- softmax, and powers
    Kind(
        "no_maximum",
        "a softmax that does not subtract the row's maximum",
        "How large may a logit be before its exponential overflows? Which number can you subtract from all logits?",
        families=("reduction",),
        explains=NO_ACCESS,
    ),
    Kind(
        "maximum_restarted",
        "a running maximum that starts again in every step",
        "A sum relative to the maximum so far needs the larger of the old maximum and the step's own.",
        families=("reduction",),
        by_edit=True,
    ),
    Kind(
        "guard_carried",
        "a guard against -inf that the next step takes for the maximum",
        "Subtract the guarded maximum in the exponent, and carry the maximum itself to the next step.",
        families=("reduction",),
        by_edit=True,
    ),
    Kind(
        "maximum_of_hidden",
        "a maximum that goes over hidden or missing elements too",
        "A hidden element, or the 0 of a missing one, may be far above all that count, whose exponentials are then 0. "
        "Put a number far below all others in its place before the maximum is taken: a weight of 0 afterwards does not "
        "help.",
        families=("reduction",),
        explains=NO_ACCESS,
        by_edit=True,
    ),
    Kind(
        "maximum_start",
        "a running maximum that does not start at -inf",
        "Which value is below every logit?",
        families=("reduction",),
    ),
    Kind(
        "no_rescale",
        "a running sum that is not rescaled when the maximum grows",
        "The sum so far is relative to the old maximum: which factor makes it relative to the new one?",
        families=("reduction",),
        explains=NO_ACCESS,
    ),
    Kind(
        "logarithm_base",
        "a power or a logarithm to another base",
        "exp2 and log2 use base 2, exp and log base e.",
        explains=NO_ACCESS,
    ),
)
