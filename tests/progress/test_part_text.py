"""The text of a part: what its function reaches, and nothing else."""

from __future__ import annotations

import pytest

from grader.progress.part_text import part_hashes

FILE = '''"""An exercise."""
import torch
import triton

BLOCK = 128
WARPS, STAGES = 4, 2


@triton.jit
def first_kernel(x_ptr, BLOCK):
    helper(x_ptr)


@triton.jit
def helper(x_ptr):
    pass


def first(x):
    """Do the first."""
    first_kernel[(1,)](x, BLOCK)


def second(x):
    return torch.empty_like(x, WARPS)


if __name__ == "__main__":
    print(first(1))
'''


def changed(old: str, new: str) -> set[str]:
    """The parts whose text changes where the file says something else."""
    assert old in FILE
    before, after = (part_hashes(text, ("first", "second")) for text in (FILE, FILE.replace(old, new)))
    return {name for name in before if before[name] != after[name]}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("first_kernel[(1,)](x, BLOCK)", "first_kernel[(2,)](x, BLOCK)"),
        ("    helper(x_ptr)", "    helper(x_ptr + 1)"),
        ("    pass", "    return"),
        ("BLOCK = 128", "BLOCK = 256"),
        ("def helper(x_ptr):\n    pass", "def helper(x_ptr):\n    pass\n\n\ndef helper(x_ptr):\n    return"),
        ("def first(x):", "def first(x, y=1):"),
    ],
    ids=["entry point", "kernel", "helper of a kernel", "constant", "second definition", "parameters"],
)
def test_what_the_function_reaches_is_its_text(old: str, new: str) -> None:
    assert changed(old, new) == {"first"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""An exercise."""', '"""Another text."""'),
        ("    pass", "    # Nothing to do.\n    pass"),
        ('"""Do the first."""', '"""Do it."""'),
        ("def second(x):", "\n\ndef unused():\n    return 3\n\n\ndef second(x):"),
        ("print(first(1))", "print(first(2))"),
    ],
    ids=["text of the file", "comment", "docstring", "unused function", "run as a script"],
)
def test_what_decides_nothing_is_nobodys_text(old: str, new: str) -> None:
    assert changed(old, new) == set()


@pytest.mark.parametrize(
    "statement",
    [
        "torch.set_default_dtype(torch.float16)",
        "torch.empty = None",
        "if True:\n    BLOCK = 64",
        "globals()['first'] = 1",
    ],
)
def test_a_statement_that_does_more_than_bind_a_name_is_every_parts_text(statement: str) -> None:
    assert changed("BLOCK = 128", f"BLOCK = 128\n{statement}") == {"first", "second"}


def test_a_function_that_writes_a_global_name_belongs_to_who_reads_it() -> None:
    assert changed("BLOCK = 128", "BLOCK = 128\n\n\ndef tune():\n    global WARPS\n    WARPS = 8") == {"second"}


@pytest.mark.parametrize(
    "text", ["def first(:\n", "x = 1\n", "\0", "from torch import *\n\n\ndef first():\n    pass\n"]
)
def test_where_the_text_does_not_tell_the_whole_file_counts(text: str) -> None:
    before, after = (part_hashes(source, ("first",)) for source in (text, f"{text}# more\n"))
    assert before != after


def test_a_file_in_deep_brackets_is_hashed_as_a_whole() -> None:
    text = f"first = {'[' * 5000}{']' * 5000}\n"
    assert part_hashes(text, ("first",)) != part_hashes(f"{text}\n", ("first",))


def test_a_file_of_many_statements_that_need_each_other_is_hashed_in_a_moment() -> None:
    chain = "".join(f"a{place}=a{place - 1}\n" for place in range(20_000, 0, -1))
    first, other = (part_hashes(f"{head}{chain}def f():\n    return a20000\n", ["f"]) for head in ("a0=1\n", "a0=2\n"))
    assert first != other
