"""What a submission's process can no longer do, layer by layer, as root and as anybody; and what it still can."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
OWN_UID = 47110
LIMITS = {"address_space_bytes": 0, "processes": 64, "file_bytes": 1 << 20}
HEAD = f"""
import ctypes, errno, json, os, signal, socket, subprocess, sys, threading
sys.path.insert(0, {str(ROOT)!r})
from grader.confinement import confine, landlock, namespaces, seccomp, system
as_root, scratch, given = json.loads(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)

def tried(what):
    try:
        return what()
    except OSError as refused:
        return errno.errorcode[refused.errno]

def called(number, *arguments):
    return "done" if libc.syscall(number, *arguments) >= 0 else errno.errorcode[ctypes.get_errno()]
"""
CONFINED = f"""
if not as_root and os.getuid() == 0:
    os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
    # As a process is that has never changed its user.
    system.stay_dumpable()
layers = confine.confine(
    scratch,
    given["uid"] if as_root else 0,
    given["limits"],
    tool=given.get("tool", ""),
    hidden=[*given.get("hidden", ()), {str(ROOT)!r}],
)
"""

Tried = Callable[..., Any]


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder that every user may enter. Pytest closes those that it gives out whenever a run of it begins."""
    with tempfile.TemporaryDirectory(prefix="confined-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture(params=["root", "anybody"])
def inside(request: pytest.FixtureRequest, tmp_path: Path) -> Tried:
    """Run code in a confined process; it sets `found`, which is returned with the layers' names."""
    as_root = request.param == "root"
    if as_root and os.getuid() != 0:
        pytest.skip("needs root")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    owner = OWN_UID if as_root else 65534
    if os.getuid() == 0:
        os.chown(scratch, owner, owner)

    def run(code: str, before: str = "", **names: object) -> Any:
        given = {"uid": OWN_UID, "limits": LIMITS, **names}
        told = json.dumps([as_root, str(scratch), given])
        text = f"{HEAD}\n{before}\n{CONFINED}\n{code}\nprint(json.dumps([layers, found]))"
        done = subprocess.run(
            [sys.executable, "-c", text, told], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run


def test_every_layer_that_this_kernel_has_holds_and_is_named(inside: Tried) -> None:
    layers, _ = inside("found = None")
    kinds = {name.split(" ")[0].rstrip(",") for name in layers}
    assert {"process", "private", "own", "rlimits", "no", "Landlock", "seccomp"} <= kinds


@pytest.mark.parametrize(
    "path",
    [
        ROOT / "reference" / "ex_15_triton_basics" / "oracle.py",
        ROOT / "reference" / "ex_15_triton_basics" / "solution.py",
        ROOT / "exercises" / "ex_15_triton_basics.py",
        ROOT / "README.md",
    ],
    ids=lambda path: path.name,
)
def test_oracle_solution_and_the_rest_of_the_checkout_cannot_be_read(inside: Tried, path: Path) -> None:
    _, found = inside("found = tried(lambda: open(given['path']).read(9))", path=str(path))
    assert found == "EACCES"


def test_what_lies_in_the_home_or_beside_the_scratch_folder_cannot_be_read_or_listed(
    inside: Tried, tmp_path: Path
) -> None:
    other = tmp_path / "other.py"
    other.write_text("somebody else's submission")
    other.chmod(0o644)
    _, found = inside(
        "found = [tried(lambda: open(given['other']).read()), tried(lambda: os.listdir(given['folder'])), "
        "tried(lambda: os.listdir(given['home']))]",
        other=str(other),
        folder=str(tmp_path),
        home=str(Path.home()),
    )
    assert found == ["EACCES", "EACCES", "EACCES"]


def test_a_hidden_folder_inside_python_s_own_cannot_be_read_and_all_beside_it_can(
    inside: Tried, tmp_path: Path
) -> None:
    prefix, course = tmp_path / "prefix", tmp_path / "prefix" / "src" / "course"
    for folder in (course, prefix / "lib"):
        folder.mkdir(parents=True)
        (folder / "file").write_text("words")
    (prefix / "link").symlink_to(course)
    places = ["lib/file", "src/course/file", "link/file"]
    _, found = inside(
        "found = [tried(lambda: open(f\"{given['prefix']}/{place}\").read()) for place in given['places']]",
        before=f"sys.prefix = {str(prefix)!r}",
        hidden=[str(course)],
        prefix=str(prefix),
        places=places,
    )
    assert found == ["words", "EACCES", "EACCES"]


def test_a_folder_of_imports_is_listed_around_a_hidden_one(inside: Tried, tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    for folder in (site / "torch", site / "grader" / "course"):
        folder.mkdir(parents=True)
        (folder / "file").write_text("words")
    places = ["torch/file", "grader/course/file"]
    _, found = inside(
        "found = [sorted(os.listdir(given['site']))]\n"
        "found += [tried(lambda: open(f\"{given['site']}/{place}\").read()) for place in given['places']]",
        before=f"import sys; sys.path.append({str(site)!r})",
        hidden=[str(site / "grader" / "course")],
        site=str(site),
        places=places,
    )
    assert found == [["grader", "torch"], "words", "EACCES"]


def test_passwords_cannot_be_read_whoever_may_read_all_files(inside: Tried) -> None:
    _, found = inside("found = tried(lambda: open('/etc/shadow').read())")
    assert found == "EACCES"


def test_nothing_is_written_but_in_the_scratch_folder(inside: Tried, tmp_path: Path) -> None:
    anyone = tmp_path / "anyone"
    anyone.mkdir()
    anyone.chmod(0o777)
    _, found = inside(
        "def write(path):\n"
        "    with open(path, 'w') as file: file.write('x')\n"
        "    return 'written'\n"
        "found = [tried(lambda: write(f'{scratch}/mine')), tried(lambda: write(given['anyone'] + '/x')), "
        "tried(lambda: write('/tmp/grade-was-here')), tried(lambda: write('/dev/shm/grade-was-here')), "
        "tried(lambda: os.rename(f'{scratch}/mine', given['anyone'] + '/mine'))]",
        anyone=str(anyone),
    )
    assert found[0] == "written"
    assert set(found[1:]) <= {"EACCES", "EXDEV"}
    assert not list(anyone.iterdir())


def test_there_is_no_network(inside: Tried) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        _, found = inside(
            "found = [tried(lambda: socket.socket(socket.AF_INET).connect(('127.0.0.1', given['port'])) or 'in'), "
            "tried(lambda: socket.socket(socket.AF_INET6) and 'opened'), "
            "tried(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW) and 'opened'), "
            "[name for _, name in socket.if_nameindex()]]",
            port=server.getsockname()[1],
        )
    assert found[:3] == ["EAFNOSUPPORT"] * 3
    assert found[3] == ["lo"]


def test_a_tool_and_what_it_watches_talk_over_a_loopback_of_their_own_and_nobody_else_is_there(inside: Tried) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        layers, found = inside(
            "def reach(port):\n"
            "    return tried(lambda: socket.socket(socket.AF_INET).connect(('127.0.0.1', port)) or 'in')\n"
            "found = [reach(given['port'])]\n"
            "with socket.create_server(('127.0.0.1', 0)) as own:\n"
            "    found += [reach(own.getsockname()[1])]\n"
            "found += [tried(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW) and 'opened'), "
            "[name for _, name in socket.if_nameindex()]]",
            tool="/usr/bin/env",
            port=server.getsockname()[1],
        )
    assert found == ["ECONNREFUSED", "in", "EAFNOSUPPORT", ["lo"]]
    assert layers == inside("found = None")[0]


@pytest.mark.parametrize("place", ["toolkit/tool", "toolkit/bin/tool"])
def test_a_tool_reads_the_folder_that_it_is_installed_in(inside: Tried, tmp_path: Path, place: str) -> None:
    (tmp_path / "beside").write_text("nothing of the tool's")
    (tmp_path / place).parent.mkdir(parents=True)
    library = tmp_path / "toolkit" / "library"
    for file in (tmp_path / place, library):
        file.write_text("words")
    reading = "found = [tried(lambda: open(path).read()) for path in given['paths']]"
    paths = [str(library), str(tmp_path / "beside")]
    assert inside(reading, tool=str(tmp_path / place), paths=paths)[1] == ["words", "EACCES"]
    assert inside(reading, paths=paths)[1] == ["EACCES", "EACCES"]


@pytest.mark.parametrize("tool", ["/tool", "/bin"])
def test_a_tool_at_the_root_opens_nothing_but_itself(inside: Tried, tool: str) -> None:
    assert inside("found = tried(lambda: os.listdir('/'))", tool=tool)[1] == "EACCES"


def test_sockets_with_a_name_but_no_file_belong_to_the_outside(inside: Tried) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0grade-{os.getpid()}")
        server.listen()
        _, found = inside(
            "one = socket.socket(socket.AF_UNIX)\nfound = tried(lambda: one.connect('\\0' + given['name']) or 'in')",
            name=f"grade-{os.getpid()}",
        )
    assert found in ("ECONNREFUSED", "EPERM")


def test_other_processes_get_no_signal_no_limit_and_no_look(inside: Tried) -> None:
    with subprocess.Popen(["sleep", "60"], user=None if os.getuid() else 65534) as other:
        try:
            _, found = inside(
                "import resource\n"
                "found = [tried(lambda: os.kill(given['pid'], 0) or 'sent'), "
                "tried(lambda: resource.prlimit(given['pid'], resource.RLIMIT_NOFILE, (3, 3)) and 'set'), "
                "tried(lambda: open(f\"/proc/{given['pid']}/mem\", 'rb') and 'open'), "
                "called(system_calls['ptrace'], 16, given['pid'], 0, 0)]",
                before="system_calls = seccomp._table(seccomp._NUMBERS[os.uname().machine])",
                pid=other.pid,
            )
            assert set(found) <= {"EPERM", "EACCES"}
        finally:
            other.kill()


def test_other_processes_keep_their_cores_and_their_share_of_them(inside: Tried) -> None:
    with subprocess.Popen(["sleep", "60"], user=None if os.getuid() else 65534) as other:
        try:
            _, found = inside(
                "cores = os.sched_getaffinity(0)\n"
                "def all_for(pid, io):\n"
                "    return [tried(lambda: os.setpriority(os.PRIO_PROCESS, pid, 19) or 'set'), "
                "tried(lambda: os.sched_setaffinity(pid, cores) or 'set'), "
                "tried(lambda: os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0)) or 'set'), "
                "called(numbers['ioprio_set'], io, pid, 3 << 13)]\n"
                "group = tried(lambda: os.setpriority(os.PRIO_USER, 0, 19) or 'set')\n"
                "found = [all_for(given['pid'], 1), group, called(numbers['move_pages'], given['pid'], 0, 0, 0, 0, 0)]"
                " + all_for(0, 1)",
                before="numbers = seccomp._table(seccomp._NUMBERS[os.uname().machine])",
                pid=other.pid,
            )
            assert found == [["EPERM"] * 4, "EPERM", "EPERM", "set", "set", "set", "done"]
        finally:
            other.kill()


@pytest.mark.parametrize(
    ("name", "error"),
    [
        *((one, "EPERM") for one in ("ptrace", "process_vm_readv", "bpf", "keyctl", "mount", "perf_event_open")),
        *((one, "EPERM") for one in ("unshare", "setns", "userfaultfd", "pidfd_getfd", "open_by_handle_at")),
        *((one, "EPERM") for one in ("shmget", "shmat")),
        *((one, "ENOSYS") for one in ("io_uring_setup", "clone3")),
    ],
)
def test_system_calls_that_lead_out_fail(inside: Tried, name: str, error: str) -> None:
    _, found = inside(
        f"found = called(numbers[{name!r}], 0, 0, 0, 0, 0)",
        before="numbers = seccomp._table(seccomp._NUMBERS[os.uname().machine] + seccomp._EVERYWHERE)",
    )
    assert found == error


def test_orphans_stay_where_they_are_adopted(inside: Tried) -> None:
    _, found = inside(
        "found = [called(numbers['prctl'], 36, value, 0, 0, 0) for value in (0, 1)]"
        " + [called(numbers['prctl'], 15, ctypes.c_char_p(b'named'), 0, 0, 0)]",
        before="numbers = seccomp._table(seccomp._NUMBERS[os.uname().machine])",
    )
    assert found == ["EPERM", "EPERM", "done"]


def test_a_process_of_new_namespaces_cannot_be_made_by_clone_either(inside: Tried) -> None:
    _, found = inside(
        "found = called(numbers['clone'], 0x10000000 | 17, 0, 0, 0, 0)",
        before="numbers = seccomp._table(seccomp._NUMBERS[os.uname().machine])",
    )
    assert found == "EPERM"


def test_threads_processes_pipes_and_programs_work_as_ever(inside: Tried) -> None:
    _, found = inside(
        "seen = []\n"
        "thread = threading.Thread(target=seen.append, args=(1,)); thread.start(); thread.join()\n"
        "pid = os.fork()\n"
        "if pid == 0: os._exit(7)\n"
        "status = os.waitpid(pid, 0)[1]\n"
        "said = subprocess.run(['sh', '-c', 'echo hi > $TMPDIR/x; cat $TMPDIR/x'], capture_output=True, text=True)\n"
        # Anybody else may not be able to enter the folder of root's interpreter.
        "if as_root: import sqlite3\n"
        "a, b = socket.socketpair(); a.send(b'x')\n"
        "found = [seen, os.waitstatus_to_exitcode(status), said.stdout, len(b.recv(9))]",
    )
    assert found == [[1], 7, "hi\n", 1]


def test_a_thread_can_be_named_from_another_as_cuda_does_when_it_starts(inside: Tried) -> None:
    _, found = inside(
        "free = threading.Event()\n"
        "thread = threading.Thread(target=free.wait); thread.start()\n"
        "error = libc.pthread_setname_np(ctypes.c_ulong(thread.ident), b'named')\n"
        "named = open(f'/proc/self/task/{thread.native_id}/comm').read()\n"
        "free.set(); thread.join()\n"
        "found = [error, named]",
    )
    assert found == [0, "named\n"]


def test_the_process_that_a_tool_starts_can_name_its_threads_too(inside: Tried) -> None:
    _, found = inside(
        "reader, writer = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    free = threading.Event()\n"
        "    thread = threading.Thread(target=free.wait); thread.start()\n"
        "    os.write(writer, bytes([libc.pthread_setname_np(ctypes.c_ulong(thread.ident), b'named')]))\n"
        "    os._exit(0)\n"
        "found = os.read(reader, 1)[0]",
        tool="/usr/bin/env",
    )
    assert found == 0


def test_temporary_files_go_to_the_scratch_folder_wherever_they_went_before(inside: Tried) -> None:
    _, found = inside(
        "found = os.path.dirname(tempfile.mkdtemp()) == scratch", before="import tempfile; tempfile.gettempdir()"
    )
    assert found


@pytest.mark.parametrize(
    ("missing", "gone"),
    [
        ("system.unshare = lambda flags: False", "own network"),
        ("system.syscall = lambda *_: -1", "Landlock"),
        ("system.filter_calls = lambda program: False", "seccomp"),
    ],
    ids=["without namespaces", "without Landlock", "without seccomp"],
)
def test_where_the_kernel_refuses_a_layer_the_others_hold_and_it_is_not_named(
    inside: Tried, missing: str, gone: str
) -> None:
    everything, _ = inside("found = None")
    # Capabilities are set by a system call as well.
    patched = f"system.set_capabilities = lambda bits, inheritable=0: True\n{missing}"
    layers, found = inside("found = tried(lambda: open('/etc/hostname', 'w') and 'open')", before=patched)
    assert [name for name in everything if not name.startswith(gone)] == layers
    assert found in ("EACCES", "EROFS")
