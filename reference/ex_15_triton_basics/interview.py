"""Questions that ex_15 prepares for."""

from grader import Figures, Question

QUESTIONS = (
    Question(
        "What is Triton and why use it over CUDA?",
        """
        Triton is a language inside Python for GPU kernels. You write what one program does with a block of elements.
        The compiler decides which thread handles which element, how wide the loads are, what goes through shared
        memory, and where threads must wait for each other. In CUDA C++ all of that is yours.

        So a kernel is a few lines, it is easily fused with its neighbours, and a new GPU needs a new compilation and
        not a new kernel. For kernels that move or multiply blocks it is usually as fast as good CUDA C++. Take CUDA C++
        or CUTLASS where you must control single threads or warps, or where the data are no blocks.
        """,
        (
            Figures(
                "vector_add.speed",
                "Vector addition at {size}: your kernel takes {time_submission}, the same in CUDA C++ {time_cuda_cpp}.",
            ),
            Figures(
                "vector_add.traffic",
                "Your {kernel} says nothing about threads. Compiled for {target}, each thread has {registers} "
                "registers and these loads: {loads}.",
            ),
        ),
    ),
    Question(
        "What are memory bandwidth bottlenecks and how do you address them?",
        """
        A kernel is bound by memory if moving its bytes takes longer than its arithmetic. Divide its FLOP by its bytes
        and compare the result with the GPU's own ratio, the ridge of the roofline. An H100 or H200 needs 200 to 300
        FLOP per byte before its tensor cores are the limit, and 14 to 20 for float32 without them. Elementwise
        kernels, reductions and softmax stay far below that.

        First move fewer bytes: fuse kernels so that intermediate values stay in registers, read every element once,
        and choose a smaller dtype. Then move them faster: neighbouring threads access neighbouring elements, accesses
        are 16 bytes wide, and enough of them are in flight at the same time. Faster arithmetic changes nothing.
        """,
        (
            Figures(
                "fused_multiply_add.traffic",
                "Your fused chain moved {moved} bytes for {case}. Two separate kernels move {unfused}.",
                {"unfused": "6 * N * itemsize"},
            ),
            Figures(
                "vector_add.speed",
                "Vector addition does {intensity} FLOP per byte, so it is {bound}-bound: {time} on {gpu} at {size}.",
            ),
            Figures("vector_add.speed", "Yours reaches {tbps} TB/s, {roofline} of the roofline of this GPU."),
        ),
    ),
)
