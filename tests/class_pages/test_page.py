"""Test the class page: true numbers, hostile names shown as text, and no student named in the students' page."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from markupsafe import escape

from grader.batch.gradebook import Assignment, Gradebook, Mark, Student
from grader.batch.reading import read
from grader.batch.store import StoredRecord
from grader.class_pages import drawing, page, sorting
from grader.class_pages.tally import ClassTally, PartOutcome, StudentTiming, by_student, median, outcome_of, points
from grader.cli.main import dispatch
from grader.record.record import Record
from tests.records import classes, samples
from tests.report.test_html import TAGS, Page

INVALID = {"status": "invalid_submission", "earned": 0.0}
EXTRA = {"ol", "line", "input", "label", "output", "bdi", "select", "option"}


def collected(records: dict[tuple[str, str], Record]) -> ClassTally:
    tally = ClassTally()
    for (student, exercise), record in records.items():
        tally.add(student, exercise, record)
    return tally


def small() -> tuple[ClassTally, Gradebook]:
    return collected({("ada", "ex_15"): classes.all_judged(), ("grace", "ex_15"): samples.failing()}), classes.book()


def alike(count: int) -> tuple[ClassTally, Gradebook]:
    """So many students with one and the same record."""
    people = tuple(Student(f"person{number}", f"Name{number}") for number in range(count))
    record = samples.timed()
    marks = tuple(
        Mark(one.id, "ex_15", record.verdict, record.score, record.judged_score, record.max_score) for one in people
    )
    tally = collected({(one.id, "ex_15"): classes.owned(record, one.id) for one in people})
    return tally, Gradebook((Assignment("ex_15", "Triton basics", record.max_score),), people, marks)


def hostile() -> tuple[ClassTally, Gradebook]:
    student = Student("<b>evil</b>", samples.HOSTILE, samples.HOSTILE, samples.HOSTILE)
    record = samples.hostile()
    mark = Mark(student.id, "ex_15", record.verdict, record.score, record.judged_score, record.max_score)
    book = Gradebook((Assignment("ex_15", samples.HOSTILE, 6.0),), (student,), (mark,))
    return collected({(student.id, "ex_15"): record}), book


@pytest.mark.parametrize("audience", ["instructor", "student"])
@pytest.mark.parametrize("of", [small, hostile, lambda: alike(7), lambda: (ClassTally(), Gradebook((), (), ()))])
def test_the_page_is_whole_loads_nothing_and_runs_its_own_script_at_most(of: object, audience: page.Audience) -> None:
    text = page.render(*of(), samples.HOSTILE, audience=audience)  # type: ignore[operator]
    read_page = Page(text)

    assert set(read_page.tags) <= TAGS | EXTRA
    assert read_page.open == []
    assert not re.search(r"=.?https?:|url\(|@import", text.replace("=HYPERLINK", ""))
    assert not {name for _, name, _ in read_page.attributes if name.startswith("on") or name in ("src", "srcset")}
    assert all(re.match(r"#|cards/[^/:]+/[^/:]+\.html(#[\w.-]+)?$", value) for value in read_page.values("href"))
    assert {value[1:] for value in read_page.values("href") if value[0] == "#"} <= set(read_page.values("id"))
    # Only the table of students has a script, and the page's policy names its hash.
    assert re.findall("<script.*?</script>", text, re.DOTALL) == [sorting.ELEMENT] * (audience == "instructor")
    assert (str(escape(sorting.SOURCE)) in text) is (audience == "instructor")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", text)


def test_the_instructor_sees_causes_with_counts_and_an_example() -> None:
    text = Page(page.render(*small(), "GPU course")).text
    assert "2 students ✗ failed wrong only in the last, partly filled tile" in text
    assert "For example Lovelace, Ada (ada)" in text
    assert "1 student ✗ crashed your code raised NameError" in text
    assert "2 submissions: interpreter on the CPU, no GPU used" in text
    assert "not run here : Needs a CUDA device; this machine has none. (2 checks of 1 student)" in text
    assert "Given by hand" in text
    assert "=1+1, appealed" in text


def test_every_student_has_a_row_and_every_part_a_cell_that_opens_the_card() -> None:
    text = page.render(*small(), "GPU course")
    table = text[text.index('<section aria-labelledby="students"') :].partition("</table>")[0]
    ada = table[table.index('data-words="ada lovelace, ada') :].partition("</tr>")[0]
    assert '<a href="cards/ada/ex_15.html">25.5</a>' in ada
    assert 'class="o2" title="failed"><a href="cards/ada/ex_15.html#part-vector_add">29.5/41</a>' in ada
    words = Page(table).text
    assert "Latif (late) missing" in words
    assert "41*" in words
    columns = re.findall(r'data-column="(\d+)"', table)
    assert list(map(int, columns)) == list(range(ada.count("<td") + 1))
    assert "Students" not in Page(page.render(*small(), "GPU course", audience="student")).text.split()


def test_bars_and_bins_open_the_students_behind_them() -> None:
    tally, book = small()
    text = page.render(tally, book, "GPU course")
    words = Page(text).text
    assert "60 to 70% 1 Lovelace, Ada (ada)" in words
    assert "failed 2 Lovelace, Ada (ada), Hopper, Grace (grace)" in words or "failed 1 Lovelace, Ada (ada)" in words
    students = page.render(*alike(7), "GPU course", audience="student")
    assert "<details" not in students


def test_who_is_stuck_where_is_told_at_the_first_check_that_failed() -> None:
    tally, book = small()
    (one, *_) = [part for part in tally.exercises["ex_15"].parts.values() if part.stuck]
    assert one.students["ada"] == PartOutcome("failed", 29.5, 41.0, "vector_add.kernels")
    words = Page(page.render(tally, book, "GPU course")).text
    assert "Kernels do the work 1 Lovelace, Ada (ada)" in words
    assert 'href="cards/ada/ex_15.html#check-vector_add.kernels"' in page.render(tally, book, "GPU course")


def test_a_file_that_could_not_be_read_is_in_no_bar_no_median_and_no_average() -> None:
    why = "a submission must be UTF-8, got byte 0xe9"
    checks = tuple(
        dataclasses.replace(check, status="invalid_submission", points=0.0, reason=why)
        for check in classes.all_judged().checks
    )
    record = dataclasses.replace(classes.all_judged(), checks=checks, verdict="invalid_submission", score=0.0)
    book = classes.book()
    mark = dataclasses.replace(book.marks[1], status="invalid_submission", earned=0.0)
    marks = (book.marks[0], mark, *book.marks[2:])
    tally = collected({("ada", "ex_15"): classes.all_judged(), ("grace", "ex_15"): record})
    assert all(
        set(check.students) == {"passed", "passed in part", "failed"} & set(check.students)
        and ["grace"] not in check.students.values()
        for check in tally.exercises["ex_15"].checks.values()
    )
    spread = points(dataclasses.replace(book, marks=marks), "ex_15")
    assert (spread.unread, len(spread.shares)) == (1, 2)
    text = Page(page.render(tally, dataclasses.replace(book, marks=marks), "GPU course")).text
    assert f"Invalid files: 1 They are in no bar, no median and no average. Hopper, Grace (grace): {why}" in text
    assert "grace" not in by_student(dataclasses.replace(book, marks=marks))


def test_whoever_has_an_invalid_file_may_need_help_and_the_list_says_how_many_more_there_are() -> None:
    tally, book = alike(14)
    marks = tuple(
        dataclasses.replace(mark, **(INVALID if place < 2 else {"earned": 0.0, "judged": 10.0}))  # type: ignore[arg-type]
        for place, mark in enumerate(book.marks)
    )
    text = Page(page.render(tally, dataclasses.replace(book, marks=marks), "GPU course")).text
    assert "student invalid file share Name0 (person0) ex_15 – Name1 (person1) ex_15 – Name10 (person10) 0%" in text
    assert "4 more students: sort the table of students." in text


def test_a_section_is_chosen_from_those_of_the_class_and_not_found_in_other_words() -> None:
    tally, book = small()
    sections = {"ada": "B", "grace": "AB"}
    students = tuple(dataclasses.replace(one, section=sections.get(one.id, "")) for one in book.students)
    text = page.render(tally, dataclasses.replace(book, students=students), "GPU course")
    assert re.findall('<option dir="auto">(.*?)</option>', text) == ["AB", "B"]
    assert re.findall('data-words="(ada|grace) .*?" data-section="(.*?)"', text) == [("ada", "B"), ("grace", "AB")]
    nowhere = tuple(dataclasses.replace(one, section="") for one in book.students)
    assert "<select" not in page.render(tally, dataclasses.replace(book, students=nowhere), "GPU course")


def test_a_name_in_another_direction_leaves_the_text_around_it_alone() -> None:
    tally, book = small()
    name = "\u05d3\u05df \u05db\u05d4\u05df\u202e\u200b"
    students = (dataclasses.replace(book.students[0], name=name), *book.students[1:])
    text = page.render(tally, dataclasses.replace(book, students=students), "GPU course")
    assert f"<bdi>{name[:6]}\ufffd\ufffd</bdi> ({students[0].id})" in text
    outside = re.sub('<bdi>.*?</bdi>|data-words=".*?"', "", text)
    assert not re.search("[\u0590-\u05ff]", outside)


def test_the_students_page_names_nobody_and_quotes_nothing() -> None:
    tally, book = alike(7)
    text = page.render(tally, book, "GPU course", audience="student")
    assert "person" not in text
    assert "Name" not in text
    assert "cards/" not in text
    assert "Slowest" not in text
    assert "7 kernels timed; the median is" in Page(text).text


def test_what_fewer_than_five_share_is_not_on_the_students_page() -> None:
    for count, shown in ((4, False), (5, True)):
        text = Page(page.render(*alike(count), "GPU course", audience="student")).text
        assert ("How it ended" in text or "how it ended" in text) is shown
        assert ("kernels timed" in text) is shown
    assert "wrong only in the last" not in Page(page.render(*small(), "GPU course", audience="student")).text


def test_the_fastest_and_the_slowest_are_shown_with_their_intervals() -> None:
    tally, book = alike(12)
    for place, timing in enumerate(tally.exercises["ex_15"].speeds["product.speed"].timings):
        ratio = 0.5 + place / 100
        tally.exercises["ex_15"].speeds["product.speed"].timings[place] = StudentTiming(
            timing.student, ratio, ratio - 0.01, ratio + 0.01
        )
    text = Page(page.render(tally, book, "GPU course")).text
    assert "Fastest student ratio 95% interval in the band Name11 (person11) 0.610× 0.600 – 0.620" in text
    assert "Slowest student ratio 95% interval in the band Name4 (person4) 0.540× 0.530 – 0.550" in text


def test_a_class_of_one_timed_kernel_has_no_slowest() -> None:
    text = Page(page.render(*alike(1), "GPU course")).text
    assert "Fastest" in text
    assert "Slowest" not in text


def test_points_are_shares_of_what_could_be_judged() -> None:
    spread = points(classes.book(), "ex_15")
    assert [place for place, count in enumerate(spread.bins) if count] == [3, 6, 9]
    assert (spread.missing, spread.open, spread.partly) == (1, 0, 1)
    assert by_student(classes.book())["late"] == 0.0
    assert median((1.0, 2.0, 4.0)) == 2.0
    assert median((1.0, 2.0)) == 1.5


def test_full_marks_stand_in_a_column_of_their_own_and_nothing_short_of_them_does() -> None:
    marks = tuple(Mark(f"s{i}", "e", "pass", value, 10.0, 10.0) for i, value in enumerate((10.0, 9.99, 0.0)))
    found = points(Gradebook((), (), marks), "e").bins
    assert (found[0], found[9:], sum(map(len, found))) == (("s2",), (("s1",), ("s0",)), 3)


def test_every_status_has_an_outcome() -> None:
    ended = {check.status: outcome_of(check) for check in samples.every_status().checks}
    assert ended["inconclusive"] == ended["grader_error"] == ended["skipped_environment"] == "not judged"
    assert ended["timeout"] == "stopped"
    assert ended["policy"] == "failed"
    assert outcome_of(samples.check("a.b", "t", points=1, most=2)) == "passed in part"


def test_drawings_say_in_words_what_they_show() -> None:
    assert 'aria-label="3 passed, 1 failed"' in drawing.outcomes({"passed": 3, "failed": 1})


@pytest.mark.parametrize("top", [0.0, -1.0, 1e300])
def test_an_interval_of_any_numbers_is_drawn(top: float) -> None:
    assert "nan" not in drawing.interval(StudentTiming("a", 1e300, 0.0, 1e300), -1.0, 1e300, top)


# -- the command -----------------------------------------------------------------------------------------------------


def test_the_page_lies_beside_the_records_and_the_students_one_apart(tmp_path: Path) -> None:
    out_dir = classes.out_dir(tmp_path / "graded")
    assert dispatch(["report", str(out_dir)]) == 0
    assert dispatch(["report", str(out_dir), "--audience", "student"]) == 0
    assert "Lovelace" in (out_dir / "report.html").read_text()
    assert "Lovelace" not in (out_dir / "report-students.html").read_text()


def test_a_damaged_record_is_named_on_the_page(tmp_path: Path) -> None:
    out_dir = classes.out_dir(tmp_path)
    (out_dir / "records" / "ada" / "ex_15.json").write_text("{")
    assert dispatch(["report", str(out_dir), "--out", str(tmp_path / "page.html")]) == 0
    assert "records/ada/ex_15.json : Input data was truncated" in Page((tmp_path / "page.html").read_text()).text


NO_BATCH = "a folder that `grade batch` wrote must hold batch.json"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["gone"], f"grade: {NO_BATCH}, got gone/batch.json: No such file or directory\n"),
        (["graded", "--audience", "all"], "grade: --audience must be instructor or student, got 'all'\n"),
        (["graded", "--out", "graded"], "grade: an output must be a file, got the directory graded\n"),
    ],
)
def test_a_bad_command_line_is_refused_in_one_line(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    classes.out_dir(tmp_path / "graded")
    assert dispatch(["report", *arguments]) == 2
    assert capsys.readouterr() == ("", said)


def test_a_made_up_class_is_the_same_every_time_and_is_read_without_a_problem(tmp_path: Path) -> None:
    seen: list[StoredRecord] = []
    book = read(classes.large(tmp_path, 3, 2), seen.append)
    assert len(seen) == 6
    assert all(found.record is not None for found in seen)
    assert dataclasses.astuple(book) == dataclasses.astuple(read(classes.large(tmp_path, 3, 2)))
