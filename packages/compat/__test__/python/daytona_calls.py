"""A program for the SDK of Daytona, which reads its address and its key from the environment. Prints a line for each part."""

import asyncio
import sys
import time
import urllib.request

from daytona import (
    AsyncDaytona,
    CodeRunParams,
    CreateSandboxFromSnapshotParams,
    Daytona,
    DaytonaConfig,
    DaytonaError,
    DaytonaNotFoundError,
    FileDownloadRequest,
    FileUpload,
    ListSandboxesQuery,
    PtySize,
    SessionExecuteRequest,
)


def raises(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def until(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "the condition did not become true"
        time.sleep(0.01)


def commands(sandbox):
    run = sandbox.process.exec("echo $OWN $A; echo err >&2; pwd; exit 3", cwd="/tmp", env={"A": "b"})
    assert (run.exit_code, run.result) == (3, "1 b\nerr\n/tmp\n"), run
    raises(DaytonaError, lambda: sandbox.process.exec("sleep 1000", timeout=1))
    code = sandbox.process.code_run("import sys; print(sys.argv[1:])", CodeRunParams(argv=["x"]))
    assert (code.exit_code, code.result) == (0, "['x']\n"), code


def sessions(sandbox):
    sandbox.process.create_session("s")
    run = lambda **request: sandbox.process.execute_session_command("s", SessionExecuteRequest(**request))
    run(command="cd /tmp; X=1")
    result = run(command="echo $X; pwd; echo err >&2; (exit 4)")
    assert (result.stdout, result.stderr, result.exit_code) == ("1\n/tmp\n", "err\n", 4), result
    command = run(command="read line; echo got $line", run_async=True, suppress_input_echo=True)
    sandbox.process.send_session_command_input("s", command.cmd_id, "word")
    outputs, errors = [], []
    logs = sandbox.process.get_session_command_logs_async("s", command.cmd_id, outputs.append, errors.append)
    asyncio.run(logs)
    assert ("".join(outputs), errors) == ("got word\n", []), outputs
    assert sandbox.process.get_session_command("s", command.cmd_id).exit_code == 0
    sandbox.process.delete_session("s")
    raises(DaytonaNotFoundError, lambda: run(command="true"))


def terminals(sandbox):
    output = []
    terminal = sandbox.process.create_pty_session("t", pty_size=PtySize(cols=90, rows=20))
    terminal.wait_for_connection()
    terminal.resize(PtySize(cols=95, rows=25))
    terminal.send_input("stty size; exit 3\n")
    assert terminal.wait(on_data=output.append).exit_code == 3
    assert b"25 95" in b"".join(output), output


def files(sandbox):
    fs = sandbox.fs
    fs.upload_file(b"text", "a/b.txt")
    assert fs.download_file("/home/daytona/a/b.txt") == b"text"
    fs.upload_files([FileUpload(source=b"1", destination="m/1"), FileUpload(source=b"2", destination="m/ü 2")])
    requests = [FileDownloadRequest(source=name) for name in ("m/1", "m/ü 2", "m/missing")]
    replies = fs.download_files(requests)
    assert [reply.result for reply in replies] == [b"1", b"2", None], replies
    assert sorted(entry.name for entry in fs.list_files("m")) == ["1", "ü 2"]
    assert fs.get_file_info("a/b.txt").size == 4
    assert [match.line for match in fs.find_files("a", "ext")] == [1]
    assert fs.search_files(".", "*.txt").files == ["/home/daytona/a/b.txt"]
    fs.replace_in_files(["a/b.txt"], "text", "new")
    fs.create_folder("n", "755")
    fs.move_files("a/b.txt", "n/c")
    fs.set_file_permissions("n/c", mode="600")
    assert fs.get_file_info("n/c").permissions == "0600"
    fs.delete_file("n", recursive=True)
    raises(DaytonaNotFoundError, lambda: fs.download_file("n/c"))
    fs.upload_file(b"signed", "s")
    with urllib.request.urlopen(sandbox.download_url("s")) as reply:
        assert reply.read() == b"signed"


def git(sandbox):
    sandbox.git.init("origin", bare=True, initial_branch="main")
    sandbox.git.clone("/home/daytona/origin", "repo")
    sandbox.fs.upload_file(b"1", "repo/a")
    sandbox.git.add("repo", ["a"])
    sandbox.git.commit("repo", "message", "A", "a@example.com")
    sandbox.git.push("repo")
    status = sandbox.git.status("repo")
    assert status.file_status == [], status
    assert len(sandbox.git.branches("repo").branches) == 1


def life(sandbox):
    assert sandbox.set_labels({"c": "d"}) == {"c": "d"}
    found = list(client.list(ListSandboxesQuery(labels={"c": "d"})))
    assert [item.id for item in found] == [sandbox.id]
    sandbox.set_autostop_interval(30)
    sandbox.fs.upload_file(b"kept", "kept")
    sandbox.stop()
    assert sandbox.state == "stopped"
    raises(DaytonaError, lambda: sandbox.process.exec("true"))
    sandbox.start()
    assert sandbox.fs.download_file("kept") == b"kept"
    sandbox.delete()
    raises(DaytonaNotFoundError, lambda: client.get(sandbox.id))
    raises(DaytonaError, lambda: Daytona(DaytonaConfig(api_key="dtn_0")).get("x"))


async def asynchronous():
    async with AsyncDaytona() as daytona:
        sandbox = await daytona.create()
        await sandbox.fs.upload_file(b"1", "a")
        runs = await asyncio.gather(*[sandbox.process.exec(f"cat a; echo {n}") for n in range(8)])
        assert [run.result for run in runs] == [f"1{n}\n" for n in range(8)], runs
        await sandbox.delete()


client = Daytona()
box = client.create(CreateSandboxFromSnapshotParams(env_vars={"OWN": "1"}, labels={"a": "b"}))
for part in (commands, sessions, terminals, files, git, life):
    part(box)
    print(part.__name__)
asyncio.run(asynchronous())
print("asynchronous")
sys.exit(0)
