"""The templates: valid by their platforms' schemas, and their steps run as the platform runs them."""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import check_jsonschema
import jsonschema
import pytest
import yaml
from click.testing import CliRunner

from grader.cli.main import dispatch
from grader.cli.supported import PAIRS
from grader.soundness import gate
from grader.soundness.findings import Gate, GateLine
from tests import schemas
from tests.forwarded import command_in

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = ROOT / "templates"
WORKFLOWS = sorted((TEMPLATES / "github").glob("*.yml"))
NAME = "ex_15_triton_basics"


def step(workflow: str, name: str) -> str:
    """Return the script of a workflow's step."""
    document = yaml.safe_load((TEMPLATES / "github" / workflow).read_text())
    (job,) = document["jobs"].values()
    (found,) = [one["run"] for one in job["steps"] if one.get("name") == name]
    return cast(str, found)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A student's repository with an untouched file, and with a folder that would make every answer right."""
    folder = tmp_path / "checkout"
    (folder / "exercises").mkdir(parents=True)
    shutil.copy(ROOT / "reference" / NAME / "stub.py", folder / "exercises" / f"{NAME}.py")
    (folder / "reference" / NAME).mkdir(parents=True)
    (folder / "reference" / NAME / "spec.py").write_text("raise RuntimeError('read by nobody')\n")
    return folder


@pytest.fixture
def surroundings(tmp_path: Path) -> dict[str, str]:
    """What a runner gives: a folder for temporary files, and files for summary and outputs."""
    (tmp_path / "temp").mkdir()
    return {
        **{name: value for name, value in os.environ.items() if name != "GRADE_ROOT"},
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "CUDA_VISIBLE_DEVICES": "",
        "RUNNER_TEMP": str(tmp_path / "temp"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
    }


@pytest.fixture
def installed(surroundings: dict[str, str], tmp_path: Path, lent: None) -> Iterator[dict[str, str]]:
    """The same with a command `grade`."""
    with command_in(tmp_path / "bin") as command:
        yield {**surroundings, "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}"}


def done(command: list[str], folder: Path, surroundings: dict[str, str]) -> str:
    ran = subprocess.run(
        command, cwd=folder, env=surroundings, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def run(script: str, folder: Path, surroundings: dict[str, str]) -> str:
    """Run a script as GitHub's runner does, and return what it prints."""
    return done(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script], folder, surroundings)


@pytest.mark.parametrize(
    ("schema", "file"),
    [
        *(("vendor.github-workflows", path) for path in WORKFLOWS),
        ("vendor.compose-spec", TEMPLATES / "compose.yaml"),
    ],
)
def test_a_template_is_valid_by_its_platform_s_schema(schema: str, file: Path) -> None:
    checked = CliRunner().invoke(check_jsonschema.main, ["--builtin-schema", schema, str(file)])
    assert checked.exit_code == 0, checked.output


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda path: path.stem)
def test_every_script_of_a_workflow_is_valid_and_no_workflow_holds_a_token_or_writes_the_repository(file: Path) -> None:
    document = yaml.safe_load(file.read_text())
    assert document["permissions"]["contents"] == "read"
    for job in document["jobs"].values():
        for one in job["steps"]:
            if one.get("uses", "").startswith("actions/checkout"):
                assert one["with"]["persist-credentials"] is False
            assert subprocess.run(["bash", "-n", "-c", one.get("run", ":")], check=False).returncode == 0


@pytest.mark.process
def test_a_push_is_graded_and_shown_and_the_repository_s_own_reference_is_not_read(
    checkout: Path, installed: dict[str, str]
) -> None:
    printed = run(step("student.yml", "Grade"), checkout, installed)
    assert f"::error file=exercises/{NAME}.py" in printed
    assert "### ex\\_15" in Path(installed["GITHUB_STEP_SUMMARY"]).read_text()
    assert {path.suffix for path in (checkout / "results").iterdir()} == {".json", ".html", ".xml"}


@pytest.mark.process
def test_github_classroom_s_reporter_gets_its_document(checkout: Path, installed: dict[str, str]) -> None:
    run(step("classroom.yml", "Grade"), checkout, {**installed, "EXERCISE": "ex_15"})
    output = Path(installed["GITHUB_OUTPUT"]).read_text()
    found = json.loads(base64.b64decode(output.removeprefix("result=")))
    jsonschema.validate(found, schemas.GITHUB_CLASSROOM)
    assert (found["status"], found["max_score"]) == ("fail", 75)
    workflow = yaml.safe_load((TEMPLATES / "github" / "classroom.yml").read_text())
    reporter = workflow["jobs"]["autograding"]["steps"][-1]
    assert list(reporter["env"]) == [f"{reporter['with']['runners'].upper()}_RESULTS"]


@pytest.mark.process
def test_classroom_50_s_runner_finds_its_two_files(checkout: Path, surroundings: dict[str, str]) -> None:
    place = {
        "CLASSROOM": "gpu101",
        "ASSIGNMENT": "ex-15",
        "SUBMISSION_TAG": "submit/2026-11-02T08-15-00Z-1f2e3d4",
        "COMMIT_URL": "https://example.org/c",
        "RELEASE_URL": "https://example.org/r",
    }
    done([sys.executable, str(TEMPLATES / "classroom50" / "autograder.py")], checkout, {**surroundings, **place})
    jsonschema.validate(json.loads((checkout / "result.json").read_text()), schemas.CLASSROOM50)
    assert (checkout / "release-body.md").read_text().startswith("### ex\\_15")


def test_the_weekly_check_of_the_references_writes_both_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "run_gate", lambda *_: Gate([GateLine("solution.py", True, "passes")]))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRADE_ROOT", str(ROOT))
    command = shlex.split(step("references.yml", "Check").replace("$GITHUB_STEP_SUMMARY", "summary.md"))
    assert command[0] == "grade"
    assert dispatch([*command[1:], "--cpu"]) == 0
    assert "ex\\_19" in (tmp_path / "summary.md").read_text()
    assert "testsuite" in (tmp_path / "check.xml").read_text()


def test_the_weekly_check_runs_with_the_oldest_and_the_newest_pair() -> None:
    workflow = yaml.safe_load((TEMPLATES / "github" / "references.yml").read_text())
    tried = [row["versions"] for row in workflow["jobs"]["check"]["strategy"]["matrix"]["include"]]
    assert tried == [
        "-c constraints.txt",
        *(f"torch=={torch}.* triton=={triton}.*" for torch, triton in (PAIRS[0], PAIRS[-1])),
    ]


# -- containers ------------------------------------------------------------------------------------------------------


def instructions() -> list[tuple[str, str]]:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line.partition(" ") for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in lines]


def test_the_image_installs_the_pinned_versions_and_its_entrypoint_is_grade() -> None:
    found = instructions()
    assert ("ENTRYPOINT", '["grade"]') in found
    assert ("WORKDIR", "/grade") in found
    installs = [rest for word, rest in found if word == "RUN" and "pip install" in rest]
    assert installs
    assert all("-c constraints.txt" in rest for rest in installs)


def test_nothing_of_a_learner_s_machine_gets_into_the_image() -> None:
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert {".git", ".venv", "scorecards", "solutions"} <= set(ignored)


def test_the_devcontainer_is_built_from_the_dockerfile() -> None:
    folder = ROOT / ".devcontainer"
    settings = json.loads((folder / "devcontainer.json").read_text())
    build = settings["build"]
    assert (folder / build["dockerfile"]).resolve() == ROOT / "Dockerfile"
    assert (folder / build["context"]).resolve() == ROOT


def test_the_readme_names_the_two_commands_of_the_dockerfile() -> None:
    commands = re.findall(r"^#   (docker .*)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert len(commands) == 2
    readme = (ROOT / "README.md").read_text()
    assert all(command in readme for command in commands)


def test_compose_builds_that_image_with_and_without_a_gpu() -> None:
    services = yaml.safe_load((TEMPLATES / "compose.yaml").read_text())["services"]
    for service in services.values():
        assert (TEMPLATES / service["build"]["context"]).resolve() == ROOT
        assert "..:/grade" in service["volumes"]
    arguments = {name for word, rest in instructions() if word == "ARG" for name in [rest.partition("=")[0]]}
    assert set(services["gpu"]["build"]["args"]) <= arguments


# -- kubernetes ------------------------------------------------------------------------------------------------------


def test_kubernetes_starts_dask_with_the_options_that_the_cluster_page_tried() -> None:
    documents = list(yaml.safe_load_all((TEMPLATES / "kubernetes" / "dask.yaml").read_text()))
    containers: dict[str, dict[str, Any]] = {
        one["metadata"]["name"]: one["spec"]["template"]["spec"]["containers"][0]
        for one in documents
        if one["kind"] == "Deployment"
    }
    page = (ROOT / "docs" / "cluster.md").read_text()
    for container in containers.values():
        for option in (word for word in container["command"] if word.startswith("--")):
            assert option in page, option
    service = next(one for one in documents if one["kind"] == "Service")
    address = f"tcp://{service['metadata']['name']}:{service['spec']['ports'][0]['port']}"
    assert address in containers["grade-worker"]["command"]
    assert {"name": "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES", "value": "1"} in (
        containers["grade-scheduler"]["env"]
    )
