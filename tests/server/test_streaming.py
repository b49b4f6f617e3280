"""The whole program with experts read from disk, where things are not as they should be: the answer is the same, or there is none.

    test_streaming.py PROGRAM CONFINED FOLDER [TEST...]        CONFINED: tests/server/confined.c; FOLDER: where the model is made
"""
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile

import dialect_kit
from clients import Failed, Server, ask, check, equal, run

PROGRAM, CONFINED, FOLDER = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), pathlib.Path(sys.argv[3]).absolute()
del sys.argv[2:4]  # for run()
MODEL = FOLDER / "model"
LINUX = sys.platform.startswith("linux")
IDS = ["--ids", "5,17,300,2,44", "-n", "12", "--ignore-eos", "--ids-out"]


def inkjet(*arguments, confined=(), folder=None, **kw):
    command = [*((CONFINED, *confined) if confined else ()), PROGRAM, *map(str, arguments)]
    r = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, check=False, **kw)
    return r.returncode, r.stdout, r.stderr


def answer(*arguments, **kw):
    code, out, err = inkjet("run", *IDS, *arguments, **kw)
    equal(code, 0, f"exit code; {err}")
    equal(len(out.split()), 12, "ids of the answer")
    return out, err


def streamed(model, *arguments, **kw):
    return answer("-m", model, "--home", "streamed", "--verbose", *arguments, **kw)


def usual():
    return answer("-m", MODEL, "--home", "mapped")[0]


def copy_of_model(base=None):
    """In a folder that anybody may look into."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="inkjet-test-", dir=base))
    os.chmod(folder, 0o755)
    shutil.copytree(MODEL, folder / "model")
    return folder


# ------------------------------------------------------------------------------------------------------ unusual conditions


def every_home_gives_the_same():
    want = usual()
    out, err = streamed(MODEL, "--usage", "none")
    equal(out, want, "streamed")
    check("experts:" in err and "read by" in err, f"--verbose tells how experts were read: {err}")
    equal(answer("-m", MODEL, "--home", "resident")[0], want, "resident")
    for predict in ("on", "off"):
        equal(streamed(MODEL, "--usage", "none", "--predict", predict)[0], want, f"--predict {predict}")


def memory_file_system():
    """Where there is no page cache to go past, the program does not claim to have gone past it."""
    if not LINUX or not os.path.ismount("/dev/shm"):
        return
    folder = copy_of_model("/dev/shm")
    try:
        out, err = streamed(folder / "model", "--usage", "none")
        equal(out, usual(), "on tmpfs")
        check("read by" in err and "past the page cache" not in err, f"on tmpfs: {err}")
    finally:
        shutil.rmtree(folder)


def io_uring_forbidden():
    out, err = streamed(MODEL, "--usage", "none", confined=["--no-uring"])
    equal(out, usual(), "without io_uring")
    check("read by pread threads" in err, f"without io_uring: {err}")


def copied(program, to):
    """By another process: a program that is open for writing cannot run, and what another test starts meanwhile would inherit it from this one."""
    subprocess.run(["cp", program, to], check=True)
    return to


def read_only_folder():
    """The use of experts cannot be kept: one remark, and the answer. Where it can, the file appears."""
    folder = copy_of_model()
    model = folder / "model"
    usage = model / "inkjet-experts.usage"
    try:
        program = copied(PROGRAM, folder / "inkjet")  # which nobody may run, too
        command = [CONFINED, "--nobody", program, "run", *IDS, "-m", str(model), "--home", "streamed"]
        confined = copied(CONFINED, folder / "confined")
        command[0] = str(confined)
        os.chmod(model, 0o555)
        r = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
        equal((r.returncode, r.stdout), (0, usual()), f"in a read-only folder; {r.stderr}")
        check("is not kept" in r.stderr and r.stderr.count("inkjet-experts.usage") == 1, f"one remark: {r.stderr}")
        check(not usage.exists() and not list(model.glob("*.part*")), "nothing was written")
        os.chmod(model, 0o755)
        streamed(model)
        check(usage.exists(), "the use of experts was kept where it can be")
    finally:
        os.chmod(model, 0o755)
        shutil.rmtree(folder)


# ---------------------------------------------------------------------------------------------------------------- bounds


def control_group(bound):
    """A folder of a new memory control group, of which version, or None where none can be made."""
    for base, name in (("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")):
        path = pathlib.Path(base, f"inkjet-test-{os.getpid()}")
        try:
            path.mkdir()
        except OSError:
            continue
        try:
            with open(path / name, "r+", encoding="ascii") as f:  # not made: it is there where this is a control group of memory
                f.write(str(bound))
            return path
        except OSError:
            path.rmdir()
    return None


def refused_by(what, **kw):
    code, out, err = inkjet("run", *IDS, "-m", MODEL, "--mem", "1G", **kw)
    equal((code, out), (1, ""), f"{what}: exit code and answer; {err}")
    check(what in err and "1.00 GB" in err and "such a bound cannot be kept" in err, f"{what}: {err}")


def a_bound_that_cannot_be_kept():
    group = control_group(600 << 20)
    if group:
        try:
            refused_by("control group", preexec_fn=lambda: (group / "cgroup.procs").write_text(str(os.getpid())))
        finally:
            group.rmdir()
    if not os.environ.get("INKJET_SANITIZED"):  # which reserve terabytes of addresses
        refused_by("ulimit", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (800 << 20, 800 << 20)))


def a_bound_that_is_too_small():
    code, out, err = inkjet("run", *IDS, "-m", MODEL, "--mem", "1M", "--home", "streamed")
    equal((code, out), (1, ""), f"exit code and answer; {err}")
    check("It would work with: --mem" in err, err)


# -------------------------------------------------------------------------------------------------------- files that change


def complete(server, ids):
    r = ask(server, "POST", "/v1/completions", body=json.dumps({"prompt": ids, "max_tokens": 8, "temperature": 0, "logit_bias": {"599": -100}}).encode())
    return r


def changed_file(change, text):
    """A server whose file changes between opening it and the first request: no answer, now or later, but a server that says why and ends well."""
    folder = copy_of_model()
    try:
        model = folder / "model"
        server = Server(PROGRAM, "serve", "-m", str(model), "--port", "0", "--threads", "1", "--ctx", "400", "--parallel", "1", "--home", "streamed", "--usage", "none")
        try:
            for f in model.glob("*.safetensors"):
                change(f)
            for _ in range(2):
                r = complete(server, [7, 8, 9, 10])
                check(r.status >= 500, f"status {r.status} of a request whose weights cannot be read: {r.body!r}")
                r.error()
                message = r.json()["error"]["message"]
                check(text in message and ("expert" in message or "row" in message), f"what could not be read, and what is wrong with the file: {message}")
            equal(ask(server, "GET", "/health").status, 200, "/health")
            equal(server.terminate(), 0, "exit code")
        finally:
            server.kill()
    finally:
        shutil.rmtree(folder)


def touch(f):
    os.utime(f, ns=(1, 1))


def shorten(f):
    os.truncate(f, f.stat().st_size // 2)


def a_file_that_was_touched():
    changed_file(touch, "modified since")


def a_file_that_was_truncated():
    changed_file(shorten, "cut short while in use")


def a_file_that_was_replaced():
    """By name: the program goes on with the one that it has opened."""
    folder = copy_of_model()
    try:
        model = folder / "model"
        server = Server(PROGRAM, "serve", "-m", str(model), "--port", "0", "--threads", "1", "--ctx", "400", "--parallel", "1", "--home", "streamed", "--usage", "none")
        try:
            for f in model.glob("*.safetensors"):
                (model / "other").write_bytes(bytes(f.stat().st_size))
                os.replace(model / "other", f)
            first = complete(server, [7, 8, 9, 10])
            equal(first.status, 200, f"after replacing the file: {first.body!r}")
            plain = Server(PROGRAM, "serve", "-m", str(MODEL), "--port", "0", "--threads", "1", "--ctx", "400", "--parallel", "1", "--home", "mapped")
            equal(first.json()["choices"], complete(plain, [7, 8, 9, 10]).json()["choices"], "the answer after replacing the file")
            equal((plain.terminate(), server.terminate()), (0, 0), "exit codes")
        finally:
            server.kill()
    finally:
        shutil.rmtree(folder)


TESTS = [(f.__name__, f) for f in (every_home_gives_the_same, memory_file_system, io_uring_forbidden, read_only_folder, a_bound_that_cannot_be_kept,
                                   a_bound_that_is_too_small, a_file_that_was_touched, a_file_that_was_truncated, a_file_that_was_replaced)]

if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    dialect_kit.make_model(PROGRAM, str(MODEL))
    run(TESTS)
