"""Likeness of sources: found through renaming and rearranged layout, blind to the stub, and never called a verdict."""

from __future__ import annotations

import hashlib
import random
import re
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from grader.batch.store import BatchStore
from grader.class_pages import alike
from grader.class_pages.similarity import SimilarPair, Source, clusters
from grader.cli.main import dispatch
from grader.exercise.catalogue import discover
from grader.record.record import Record, SubmissionInfo, from_json, to_json
from tests.class_pages.test_page import EXTRA
from tests.records import classes
from tests.report.test_html import TAGS, Page

# Not importorskip: every worker collects this file, and one runs it.
pytestmark = pytest.mark.skipif(find_spec("copydetect") is None, reason="copydetect is not installed")

ROOT = Path(__file__).resolve().parents[2]
ENTRY = discover(ROOT)[0]
STUB = ENTRY.source("stub.py")
SOLUTION = ENTRY.solution.read_text(encoding="utf-8")


def renamed(text: str) -> str:
    """Return the same work with other names, comments and spacing, as a copier would hide it."""
    for name in ("offsets", "mask", "block", "row", "accumulator", "columns"):
        text = re.sub(rf"(?<![.\w]){name}(?!\w)", f"my_{name}", text)
    return "\n\n# mine\n".join(re.sub(r"  #.*", "", line) for line in text.split("\n")) if "\\\n" not in text else text


def unlike(seed: int) -> str:
    """Some source of its own."""
    rng = random.Random(seed)

    def expression(depth: int) -> str:
        if depth == 0:
            return rng.choice(("a", "b", "1", "a.grad", "b.data", "c[0]"))
        left, right = expression(depth - 1), expression(rng.randrange(depth))
        return rng.choice(
            ("({} + {})", "{}.mul({})", "f({}, {})", "({} if {} else a)", "[{}, {}]", "({} << {})")
        ).format(left, right)

    return "\n".join(f"{rng.choice(('x', 'y.z', 'w[1]'))} = {expression(5)}" for _ in range(40))


def pairs(found: list[Source], *base: str) -> list[SimilarPair]:
    return [pair for cluster in clusters(found, base) for pair in cluster.pairs]


def sources(*texts: str) -> list[Source]:
    return [Source(f"s{place}", text) for place, text in enumerate(texts)]


def test_two_who_hand_in_one_file_are_shown_and_others_are_not() -> None:
    (pair,) = pairs(sources(SOLUTION, unlike(1), SOLUTION, unlike(2)), STUB)
    assert (pair.first.student, pair.second.student, pair.share) == ("s0", "s2", 1.0)


def test_other_names_comments_docstrings_and_gaps_hide_nothing() -> None:
    (pair,) = pairs(sources(SOLUTION, renamed(SOLUTION)), STUB)
    assert pair.share > 0.95


def test_the_stub_is_nobody_s_own_work() -> None:
    assert pairs(sources(STUB, STUB, STUB), STUB) == []


def test_code_that_was_handed_out_is_nobody_s_own_work() -> None:
    assert len(pairs(sources(SOLUTION, SOLUTION), STUB)) == 1
    assert pairs(sources(SOLUTION, SOLUTION), STUB, SOLUTION) == []


def test_files_that_pairs_connect_are_one_cluster_with_a_pair_for_every_further_file() -> None:
    parts = [unlike(seed) for seed in range(4)]
    # The second has halves of the first and of the third, which have nothing in common.
    found = clusters(sources(parts[0], parts[0] + "\n" + parts[1], parts[1], parts[2], parts[2], parts[3]), [])
    assert [[one.student for one in cluster.members] for cluster in found] == [["s0", "s1", "s2"], ["s3", "s4"]]
    assert [len(cluster.pairs) for cluster in found] == [2, 1]
    (whole,) = clusters(sources(*[parts[0]] * 5), [])
    assert (len(whole.members), len(whole.pairs)) == (5, 4)


def test_an_earlier_class_is_compared_with_this_one_and_not_with_itself() -> None:
    earlier = [
        Source(f"e{place}", text, is_earlier=True) for place, text in enumerate([unlike(1), unlike(1), SOLUTION])
    ]
    assert clusters([*earlier, Source("ada", unlike(2))], [STUB]) == []
    (cluster,) = clusters([*earlier, Source("ada", SOLUTION)], [STUB])
    assert [one.student for one in cluster.members] == ["ada", "e2"]


def test_what_much_of_a_class_wrote_alike_says_nothing() -> None:
    assert pairs(sources(*[SOLUTION] * 12), STUB) == []


def test_a_part_that_was_copied_is_found_in_a_longer_file() -> None:
    whole = unlike(3)
    part = "\n".join(whole.split("\n")[:40])
    (pair,) = pairs(sources(part, unlike(4) + "\n" + part + "\n" + unlike(5)), "")
    assert pair.share > 0.9
    assert max(pair.first_lines) <= 40
    assert min(pair.second_lines) > unlike(4).count("\n")


@pytest.mark.parametrize(
    "text", ["\\'" * 50_000, "", "x", "def f(:\n  '''", "\t x\n y\n  z", "\x00", "é" * 100, "(" * 5000]
)
def test_a_file_that_is_no_program_is_like_nothing(text: str) -> None:
    assert pairs(sources(text, text, SOLUTION), STUB) == []


def test_the_result_is_the_same_every_time() -> None:
    given = sources(SOLUTION, renamed(SOLUTION), unlike(1), unlike(1) + unlike(2))
    assert pairs(given, STUB) == pairs(given, STUB)


def test_the_page_shows_hostile_sources_as_text_and_calls_nobody_guilty() -> None:
    evil = SOLUTION + "\n# <script>alert(1)</script> \x1b[31m \u202e"
    found = clusters(sources(evil, evil), [STUB])
    compared = alike.ComparedExercise("ex_15", "<b>", found, 2, ("<i>",), ("<p>",))
    shown = alike.render([compared], "<u>", {"s0": "<script>"}, 0.6)
    page = Page(shown)
    assert page.open == []
    assert set(page.tags) <= TAGS | EXTRA
    assert "<script" not in shown
    assert "100% <script> and s1" in page.text
    assert "Similarity is no verdict" in page.text
    assert not re.search(r"cheat|plagiar|copied", page.text, re.IGNORECASE)


# -- the command -----------------------------------------------------------------------------------------------------


def handed_in(folder: Path, texts: dict[str, str]) -> Path:
    """An OUT_DIR of these submissions, and their files."""
    records: dict[tuple[str, str], Record] = {}
    for student, text in texts.items():
        path = folder / f"{student}.py"
        folder.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        info = SubmissionInfo(str(path), hashlib.sha256(text.encode()).hexdigest(), student)
        record = classes.all_judged()
        records[student, "ex_15"] = Record(**{**vars(record), "submission": info})
    return classes.write(folder / "graded", records)


def test_the_class_page_leads_to_the_pairs(tmp_path: Path) -> None:
    out_dir = handed_in(tmp_path, {"ada": SOLUTION, "grace": renamed(SOLUTION), "evil": unlike(1)})
    (tmp_path / "evil.py").write_text("changed since")
    assert dispatch(["report", str(out_dir), "--similarity"]) == 0
    assert 'href="report-similarity.html"' in (out_dir / "report.html").read_text()
    text = Page((out_dir / "report-similarity.html").read_text()).text
    assert "% Lovelace, Ada (ada) and Hopper, Grace (grace)" in text
    assert (
        'Not compared, because the file is missing or has changed since it was graded: =HYPERLINK("http://x") (evil)'
        in text
    )


def test_an_invalid_file_is_told_from_one_that_changed(tmp_path: Path) -> None:
    out_dir = handed_in(tmp_path, {"ada": SOLUTION, "grace": SOLUTION, "evil": unlike(1)})
    path = out_dir / "records" / "grace" / "ex_15.json"
    record = from_json(path.read_text())
    path.write_text(to_json(replace(record, submission=replace(record.submission, sha256=""))))
    (tmp_path / "evil.py").write_text("changed since")
    assert dispatch(["report", str(out_dir), "--similarity"]) == 0
    text = Page((out_dir / "report-similarity.html").read_text()).text
    assert "missing or has changed since it was graded: =HYPERLINK" in text
    assert "the file was invalid when it was graded: Hopper, Grace (grace) ." in text


def test_an_earlier_class_and_code_that_was_handed_out_are_named_on_the_command_line(tmp_path: Path) -> None:
    out_dir = handed_in(tmp_path, {"ada": SOLUTION, "grace": unlike(1)})
    earlier = handed_in(tmp_path / "2025", {"late": SOLUTION})
    path = BatchStore(earlier).submission_path("late", ENTRY.name)
    path.parent.mkdir(parents=True)
    path.write_text(SOLUTION)
    page = out_dir / "report-similarity.html"
    assert dispatch(["report", str(out_dir), "--similarity", "--earlier", str(earlier)]) == 0
    text = Page(page.read_text()).text
    assert "2 sources compared, and 1 of an earlier class" in text
    assert f"100% Lovelace, Ada (ada) and late of {earlier}" in text
    # As code that was handed out, last year's files count for nobody.
    assert dispatch(["report", str(out_dir), "--similarity", "--earlier", str(earlier), "--base", str(earlier)]) == 0
    assert "No two sources are that similar" in Page(page.read_text()).text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--base", "gone"], "--base must name a file or a folder, got gone"),
        (["--audience", "student"], "--similarity must come with --audience instructor, got --audience student"),
        (["--threshold", "0"], "--threshold must lie in 0 … 1, got 0"),
    ],
)
def test_a_bad_command_line_is_refused(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dispatch(["report", str(classes.out_dir(tmp_path)), "--similarity", *arguments]) == 2
    assert capsys.readouterr().err == f"grade: {said}\n"


def test_without_the_library_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert dispatch(["report", str(classes.out_dir(tmp_path)), "--similarity"]) == 4
    assert 'needs copydetect, got none: pip install -c constraints.txt -e ".[similarity]"' in capsys.readouterr().err
