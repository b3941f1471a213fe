"""Finding exercises: a sorted scan without a list, names of every length, and errors that an author can act on."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.errors import SpecError, UsageError
from grader.exercise.catalogue import Entry, course_around, courses, discover, find_root, hidden_folders, resolve

SPEC = """
from grader import Agrees, Cases, Check, Exercise, Part, Size, Space, Tolerance

CASES = Cases(Space({{"N": Size({low}, 500)}}))
CHECK = Check("tail", "Right for tails", {points}, "writes kernels", Agrees(CASES))
PART = Part("copy", "Copying", ("x",), ("y",), Tolerance(), (CHECK,), ("a", "b", "c"))
EXERCISE = Exercise({title!r}, "1", (PART,))
"""


def add(root: Path, name: str, spec: str | None = None) -> Entry:
    """An exercise: one stub and one folder."""
    folder = root / "reference" / name
    folder.mkdir(parents=True)
    (root / "exercises").mkdir(exist_ok=True)
    (root / "exercises" / f"{name}.py").write_text("def copy(x): ...\n", encoding="utf-8")
    text = SPEC.format(title=f"Title of {name}", points=100, low=1) if spec is None else spec
    (folder / "spec.py").write_text(text, encoding="utf-8")
    return Entry(root, name)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A course of three exercises."""
    for name in ("ex_18_attention", "ex_2_sums", "ex_17_products"):
        add(tmp_path, name)
    return tmp_path


# -- specifications that cannot be read ------------------------------------------------------------------------------


def test_a_folder_without_a_specification_says_where_it_was_sought(root: Path) -> None:
    (root / "reference" / "ex_19_cache").mkdir()
    with pytest.raises(SpecError) as refused:
        _ = Entry(root, "ex_19_cache").exercise
    path = root / "reference" / "ex_19_cache" / "spec.py"
    assert str(refused.value) == f"an exercise's folder must hold spec.py, got none at {path}"


@pytest.mark.parametrize(("spec", "got"), [("", "None"), ("EXERCISE = 'basics'", "'basics'")])
def test_a_specification_must_define_an_exercise(tmp_path: Path, spec: str, got: str) -> None:
    with pytest.raises(SpecError) as refused:
        _ = add(tmp_path, "ex_7_copy", spec).exercise
    assert str(refused.value) == f"ex_7_copy/spec.py must define EXERCISE = Exercise(...), got {got}"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"low": -1}, "ex_7_copy/spec.py, line 4: Size.low must be at least 0, got -1"),
        ({"points": 99}, "ex_7_copy/spec.py, line 7: Exercise.parts must carry 100 points together, got 99"),
        ({"title": ""}, "ex_7_copy/spec.py, line 7: Exercise.title must be a title, got ''"),
    ],
)
def test_a_broken_specification_names_its_file_its_line_and_the_field(
    tmp_path: Path, fields: dict[str, object], message: str
) -> None:
    spec = SPEC.format(**{"title": "Copy", "points": 100, "low": 1, **fields})
    with pytest.raises(SpecError) as refused:
        _ = add(tmp_path, "ex_7_copy", spec).exercise
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ("EXERCISE = Exercise(", "'(' was never closed"),
        ("from grader import Sizes", "cannot import name 'Sizes'"),
        ("from grader import SpeedBand\nSpeedBand('torch', flor=0.5, full=0.9)", "spec.py, line 2: TypeError"),
        ("from grader import Size\n\nSize('1', 3)", "spec.py, line 3: TypeError"),
    ],
)
def test_a_specification_that_does_not_run_names_its_file_and_the_fault(tmp_path: Path, spec: str, fault: str) -> None:
    with pytest.raises(SpecError) as refused:
        _ = add(tmp_path, "ex_7_copy", spec).exercise
    assert str(refused.value).startswith("ex_7_copy/spec.py")
    assert fault in str(refused.value)


def test_a_missing_file_of_the_folder_is_named(root: Path) -> None:
    entry = Entry(root, "ex_2_sums")
    with pytest.raises(SpecError) as refused:
        entry.source("oracle.py")
    path = root / "reference" / "ex_2_sums" / "oracle.py"
    assert str(refused.value) == f"an exercise's folder must hold oracle.py, got none at {path}"


# -- names that cannot be resolved -----------------------------------------------------------------------------------

KNOWN = "ex_17, ex_18, ex_2"


@pytest.mark.parametrize(
    ("wanted", "hint"),
    [
        ("ex_19", "; did you mean ex_18?"),
        ("ex18", "; did you mean ex_18?"),
        ("ex_18_atention", "; did you mean ex_18_attention?"),
        ("EX_2", "; did you mean ex_2?"),
        ("softmax", ""),
        ("", ""),
    ],
)
def test_an_unknown_name_is_answered_with_the_closest(root: Path, wanted: str, hint: str) -> None:
    with pytest.raises(UsageError) as refused:
        resolve(root, wanted)
    assert str(refused.value) == f"the exercise must be one of {KNOWN}, got {wanted!r}{hint}"


@pytest.mark.parametrize("wanted", ["/tmp/solution.py", "exercises/", "ex_18.py"])
def test_a_path_that_names_no_exercise_is_refused(root: Path, wanted: str) -> None:
    with pytest.raises(UsageError) as refused:
        resolve(root, wanted)
    assert str(refused.value) == f"a path must name a file of an exercise ({KNOWN}), got {wanted!r}"


def test_without_any_exercise_that_is_what_is_said(tmp_path: Path) -> None:
    (tmp_path / "reference").mkdir()
    with pytest.raises(UsageError, match=r"^the exercise must be one of none found, got 'ex_18'$"):
        resolve(tmp_path, "ex_18")


def test_a_root_that_is_named_must_be_a_course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADE_ROOT", str(tmp_path))
    with pytest.raises(UsageError) as refused:
        find_root()
    assert str(refused.value) == f"$GRADE_ROOT must name the folder of a course, which holds exercises/, got {tmp_path}"


def test_an_installed_grader_without_a_course_says_how_to_make_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GRADE_ROOT", raising=False)
    monkeypatch.setattr("grader.exercise.catalogue._AROUND_THE_PACKAGE", tmp_path / "site-packages")
    with pytest.raises(UsageError) as refused:
        find_root(tmp_path)
    assert str(refused.value) == (
        f"a course must be in this folder or above it, got none from {tmp_path}: run grade init first"
    )


def test_exercises_of_another_kind_are_no_course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRADE_ROOT", raising=False)
    (tmp_path / "exercises").mkdir()
    (tmp_path / "exercises" / "ex_15_list_comprehensions.py").touch()
    assert course_around(tmp_path) is None
    (tmp_path / "exercises" / "ex_15_triton_basics.py").touch()
    assert course_around(tmp_path / "exercises") == tmp_path


def test_the_course_of_a_wheel_is_hidden_from_submissions(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADE_ROOT", str(root))
    brought = root / "site-packages" / "grader" / "course"
    monkeypatch.setattr("grader.exercise.catalogue._IN_THE_PACKAGE", brought)
    assert brought not in hidden_folders()
    (brought / "reference").mkdir(parents=True)
    assert hidden_folders() == (*courses(), brought)
    assert brought not in courses()


# -- what is found ---------------------------------------------------------------------------------------------------


def test_exercises_are_found_in_sorted_order_and_without_a_list(root: Path) -> None:
    assert [entry.name for entry in discover(root)] == ["ex_17_products", "ex_18_attention", "ex_2_sums"]
    add(root, "ex_15_basics")
    assert [entry.id for entry in discover(root)] == ["ex_15", "ex_17", "ex_18", "ex_2"]


def test_a_folder_that_is_no_exercise_is_passed_over(root: Path) -> None:
    (root / "reference" / "ex_19_cache").mkdir()
    (root / "reference" / "notes").mkdir()
    (root / "reference" / "notes" / "spec.py").write_text("", encoding="utf-8")
    assert len(discover(root)) == 3


@pytest.mark.parametrize("wanted", ["ex_18", "18", "ex_18_attention"])
def test_an_exercise_has_three_names(root: Path, wanted: str) -> None:
    entry, path = resolve(root, wanted)
    assert entry == Entry(root, "ex_18_attention")
    assert path == root / "exercises" / "ex_18_attention.py"


@pytest.mark.parametrize(
    "wanted", ["ex_18_attention.py", "/tmp/ada/ex_18_attention.py", "./ex_18_attention_second_try.py"]
)
def test_a_path_to_a_file_of_that_name_is_the_submission(root: Path, wanted: str) -> None:
    entry, path = resolve(root, wanted)
    assert (entry.id, path) == ("ex_18", Path(wanted))


def test_an_exercise_is_read_from_its_folder(root: Path) -> None:
    entry = Entry(root, "ex_2_sums")
    assert (entry.id, entry.number) == ("ex_2", "2")
    assert entry.exercise.title == "Title of ex_2_sums"
    assert entry.exercise is entry.exercise


def test_the_files_of_a_folder_come_sorted(root: Path) -> None:
    entry = Entry(root, "ex_2_sums")
    assert (entry.wrong, entry.honest) == ((), ())
    (entry.folder / "wrong").mkdir()
    for name in ("b.py", "a.py", "notes.txt"):
        (entry.folder / "wrong" / name).write_text("", encoding="utf-8")
    assert [one.path.name for one in entry.wrong] == ["a.py", "b.py"]


def test_the_hash_changes_with_each_file_that_decides_a_grade(root: Path) -> None:
    entry = Entry(root, "ex_2_sums")
    for name in ("inputs.py", "oracle.py", "stub.py"):
        (entry.folder / name).write_text("x = 1\n", encoding="utf-8")
    hashes = [entry.sha256()]
    for name in ("spec.py", "inputs.py", "oracle.py", "baselines.py"):
        (entry.folder / name).write_text("x = 2\n", encoding="utf-8")
        hashes.append(entry.sha256())
    assert len(set(hashes)) == 5
    # The words of a card are no grade.
    for name in ("stub.py", "mistakes.py"):
        (entry.folder / name).write_text("x = 2\n", encoding="utf-8")
        assert entry.sha256() == hashes[-1]


def test_the_root_is_found_from_any_folder_below_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRADE_ROOT", raising=False)
    below = root / "exercises" / "drafts" / "monday"
    below.mkdir(parents=True)
    assert find_root(below) == root.resolve()
    monkeypatch.chdir(below)
    assert find_root() == root.resolve()


def test_a_root_that_is_named_wins_over_the_working_directory(
    root: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path_factory.mktemp("other")
    add(other, "ex_7_copy")
    monkeypatch.chdir(root)
    monkeypatch.setenv("GRADE_ROOT", str(other))
    assert find_root() == other


def test_outside_any_course_the_package_s_own_checkout_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRADE_ROOT", raising=False)
    assert find_root(tmp_path) == Path(__file__).resolve().parents[2]
