"""A program for the SDK of E2B, which reads its address and its key from the environment. Prints a line for each part."""

import asyncio
import io
import sys
import threading
import time
import urllib.request

from e2b import (
    AsyncSandbox,
    AuthenticationException,
    CommandExitException,
    FileType,
    InvalidArgumentException,
    NotFoundException,
    PtySize,
    Sandbox,
    SandboxException,
    SandboxQuery,
    SandboxState,
    TimeoutException,
)
from e2b_code_interpreter import Sandbox as Interpreter


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
    result = sandbox.commands.run("echo out; echo err >&2; pwd", envs={"A": "b"}, cwd="/tmp")
    assert (result.stdout, result.stderr, result.exit_code) == ("out\n/tmp\n", "err\n", 0)
    assert raises(CommandExitException, lambda: sandbox.commands.run("echo no; exit 3")).exit_code == 3
    raises(TimeoutException, lambda: sandbox.commands.run("sleep 1000", timeout=0.2))
    raises(InvalidArgumentException, lambda: sandbox.commands.run("true", cwd="/missing"))
    raises(AuthenticationException, lambda: sandbox.commands.run("true", user="stranger"))
    assert sandbox.commands.run("true", user="root").exit_code == 0
    handle = sandbox.commands.run("read line; echo got $line; sleep 1000", background=True, stdin=True)
    lines = []
    reader = threading.Thread(target=lambda: swallow(lambda: handle.wait(on_stdout=lines.append)))
    reader.start()
    sandbox.commands.send_stdin(handle.pid, "word\n")
    until(lambda: lines == ["got word\n"])
    assert [process.pid for process in sandbox.commands.list()] == [handle.pid]
    assert sandbox.commands.kill(handle.pid)
    reader.join()
    assert not sandbox.commands.kill(handle.pid)
    raises(NotFoundException, lambda: sandbox.commands.connect(handle.pid))


def swallow(call):
    try:
        call()
    except CommandExitException:
        pass


def terminals(sandbox):
    output = []
    terminal = sandbox.pty.create(PtySize(rows=20, cols=90))
    sandbox.pty.resize(terminal.pid, PtySize(rows=25, cols=95))
    sandbox.pty.send_stdin(terminal.pid, b"stty size; exit\n")
    terminal.wait(on_pty=output.append)
    assert b"25 95" in b"".join(output)


def files(sandbox):
    info = sandbox.files.write("a/b.txt", "text")
    assert info.path == "/home/user/a/b.txt"
    assert sandbox.files.read("a/b.txt") == "text"
    assert bytes(sandbox.files.read("/home/user/a/b.txt", format="bytes")) == b"text"
    assert b"".join(sandbox.files.read("a/b.txt", format="stream")) == b"text"
    content = bytes(range(256)) * 20_000
    sandbox.files.write("big", io.BytesIO(content))
    assert bytes(sandbox.files.read("big", format="bytes")) == content
    sandbox.files.write_files([{"path": "m/1", "data": "1"}, {"path": "m/ü 2", "data": b"2"}])
    assert [(entry.name, entry.type) for entry in sandbox.files.list("m")] == [
        ("1", FileType.FILE),
        ("ü 2", FileType.FILE),
    ]
    assert sandbox.files.get_info("m").type == FileType.DIR
    assert sandbox.files.make_dir("n") and not sandbox.files.make_dir("n")
    assert sandbox.files.rename("m/1", "n/1").path == "/home/user/n/1"
    sandbox.files.remove("n")
    assert not sandbox.files.exists("n/1")
    raises(NotFoundException, lambda: sandbox.files.read("missing"))
    watcher = sandbox.files.watch_dir("m")
    events = []
    sandbox.files.write("m/new", "x")
    until(lambda: events.extend(watcher.get_new_events()) or any(event.name == "new" for event in events))
    watcher.stop()
    with urllib.request.urlopen(sandbox.download_url("a/b.txt", use_signature_expiration=60)) as reply:
        assert reply.read() == b"text"


def life(sandbox):
    assert sandbox.is_running()
    info = sandbox.get_info()
    assert (info.metadata, info.state) == ({"name": "sync & more"}, SandboxState.RUNNING)
    query = SandboxQuery(metadata={"name": "sync & more"})
    assert [found.sandbox_id for found in Sandbox.list(query=query).next_items()] == [sandbox.sandbox_id]
    sandbox.set_timeout(60)
    assert sandbox.get_metrics()[0].cpu_count >= 1
    sandbox.files.write("kept", "kept")
    sandbox.commands.run("sleep 1000", background=True)
    raises(SandboxException, lambda: sandbox.pause(mode="full"))
    assert sandbox.pause(mode="filesystem")
    sandbox.connect()
    assert sandbox.commands.list() == []
    assert sandbox.pause()
    assert not sandbox.is_running()
    again = Sandbox.connect(sandbox.sandbox_id)
    assert again.files.read("kept") == "kept"
    assert again.kill() and not again.kill()
    raises(TimeoutException, lambda: again.files.read("kept"))
    raises(SandboxException, lambda: again.commands.run("true"))
    raises(AuthenticationException, lambda: Sandbox.create(api_key="e2b_" + "0" * 40))


def interpreter():
    with Interpreter.create() as sandbox:
        assert sandbox.run_code("x = 20; x + 1").text == "21"
        printed = []
        run = sandbox.run_code("import sys; print('a'); print('b', file=sys.stderr); x", on_stdout=printed.append)
        assert (run.logs.stdout, run.logs.stderr, run.text) == (["a\n"], ["b\n"], "20")
        assert [message.line for message in printed] == ["a\n"]
        assert sandbox.run_code("1 / 0").error.name == "ZeroDivisionError"
        context = sandbox.create_code_context(cwd="/tmp")
        assert sandbox.run_code("import os; os.getcwd()", context=context).text == "'/tmp'"
        assert sandbox.run_code("'x' in globals()", context=context).text == "False"
        assert sandbox.run_code("echo $((6 * 7))", language="bash").logs.stdout == ["42\n"]


async def asynchronous():
    sandbox = await AsyncSandbox.create()
    try:
        await sandbox.files.write("a", "1")
        results = await asyncio.gather(*[sandbox.commands.run(f"cat a; echo {n}") for n in range(8)])
        assert [result.stdout for result in results] == [f"1{n}\n" for n in range(8)]
        seen = asyncio.Event()
        handle = await sandbox.files.watch_dir("/home/user", on_event=lambda event: seen.set())
        await sandbox.files.write("b", "2")
        await asyncio.wait_for(seen.wait(), 20)
        await handle.stop()
    finally:
        await sandbox.kill()


box = Sandbox.create(metadata={"name": "sync & more"}, envs={"OWN": "1"})
for part in (commands, terminals, files, life):
    part(box)
    print(part.__name__)
interpreter()
print("interpreter")
asyncio.run(asynchronous())
print("asynchronous")
sys.exit(0)
