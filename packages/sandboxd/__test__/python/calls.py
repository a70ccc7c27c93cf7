"""Every call of the official client of agent-sandbox on a sandbox, by a Kubernetes API server and straight to sandboxd.

Arguments: the URL of the API server, the REST port, the gRPC port. Prints a line for each group of calls that works.
"""

import asyncio
import io
import sys

import kubernetes
import kubernetes_asyncio
from k8s_agent_sandbox import (
    AsyncSandboxClient,
    SandboxClient,
    SandboxdInClusterConnectionConfig,
)
from k8s_agent_sandbox.models import (
    SandboxDirectConnectionConfig,
)
from k8s_agent_sandbox.exceptions import SandboxRequestError

CLUSTER, REST, GRPC = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
BYTES = bytes(range(256)) * 2000


def config(mode):
    return SandboxdInClusterConnectionConfig(mode=mode, rest_port=REST, grpc_port=GRPC)


def raises(kind, text, call):
    try:
        call()
    except kind as error:
        assert text in str(error), f"{error!r} has no {text!r}"
        return error
    raise AssertionError(f"nothing was raised where {text!r} was expected")


def status_of(call):
    return raises(SandboxRequestError, "", call).status_code


def commands(sandbox):
    run = sandbox.commands.run
    result = run("echo out; echo err >&2; exit 7")
    assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 7), result
    assert run("echo 'a  b' | wc -c").stdout.strip() == "5"
    assert run("kill -9 $$").exit_code == 137
    assert run("echo $GREETING", env={"GREETING": "hi there"}).stdout == "hi there\n"
    run("mkdir -p deep/er")
    assert run("pwd", cwd="deep/er").stdout.endswith("/deep/er\n")
    raises(RuntimeError, "PERMISSION_DENIED", lambda: run("pwd", cwd="../.."))
    raises(RuntimeError, "NOT_FOUND", lambda: run("pwd", cwd="none"))
    raises(ValueError, "invalid env key", lambda: run("true", env={"A=B": ""}))
    raises(RuntimeError, "INVALID_ARGUMENT", lambda: run("true", env={"A-B": ""}))
    late = run("sleep 60", command_timeout=0.5)
    assert (late.timed_out, late.exit_code) == (True, 124), late
    raises(RuntimeError, "DEADLINE_EXCEEDED", lambda: run("sleep 60", timeout=0.5))
    assert len(run("seq 200000").stdout) == 1288895
    raises(RuntimeError, "RESOURCE_EXHAUSTED", lambda: run("yes"))
    assert run("echo $SANDBOXD_REST_ADDR").stdout == f"127.0.0.1:{REST}\n"
    print("commands")


def files(sandbox):
    files = sandbox.files
    files.write("text.txt", "häl\n")
    assert files.read("text.txt") == "häl\n".encode()
    files.write("a/b/c d%20#?.bin", BYTES)
    assert files.read("a/b/c d%20#?.bin") == BYTES
    files.write("/a//streamed", io.BytesIO(BYTES))
    destination = io.BytesIO()
    assert files.read_to("a/streamed", destination) == len(BYTES)
    assert destination.getvalue() == BYTES
    raises(RuntimeError, "exceeds limit", lambda: files.read_to("a/streamed", io.BytesIO(), max_bytes=10))
    files.write("text.txt", bytearray(b"new"))
    assert sandbox.commands.run("cat text.txt; ls -A").stdout.startswith("new")
    listed = {entry.name: entry for entry in files.list("a")}
    assert sorted(listed) == ["b", "streamed"], listed
    assert (listed["b"].type, listed["streamed"].type) == ("directory", "file")
    assert (listed["streamed"].size, listed["streamed"].mode) == (len(BYTES), "0644")
    assert listed["streamed"].modified.tzinfo is not None
    assert {entry.name for entry in files.list("")} >= {"a", "text.txt"}
    assert {entry.name for entry in files.list("/")} >= {"a", "text.txt"}
    assert files.exists("a/b") and files.exists("text.txt") and not files.exists("none")
    assert status_of(lambda: files.read("none")) == 404
    assert status_of(lambda: files.write("a", b"")) == 400
    assert status_of(lambda: files.delete("a")) == 409
    files.delete("a", recursive=True)
    files.delete("text.txt")
    assert not files.exists("a")
    assert status_of(lambda: files.delete("text.txt")) == 404
    for path in ["../secret", "a/../../secret", "/../../etc/passwd"]:
        assert status_of(lambda: files.read(path, allow_unsafe_paths=True)) == 403, path
        assert status_of(lambda: files.write(path, b"x", allow_unsafe_paths=True)) == 403, path
        assert status_of(lambda: files.list(path)) == 403, path
        assert status_of(lambda: files.delete(path)) == 403, path
    sandbox.commands.run("ln -s /etc out")
    assert status_of(lambda: files.read("out/passwd")) == 403
    sandbox.commands.run("rm out")
    print("files")


def lifecycle(client, sandbox):
    assert sandbox.status()[0] == "SandboxReady", sandbox.status()
    assert client.list_active_sandboxes() == [("default", sandbox.claim_name)]
    assert client.list_all_sandboxes() == [sandbox.claim_name]
    again = client.get_sandbox(sandbox.claim_name)
    assert again.commands.run("echo again").stdout == "again\n"
    sandbox.terminate()
    assert client.list_all_sandboxes() == []
    print("lifecycle")


def synchronous(mode):
    cluster = kubernetes.client.Configuration(host=CLUSTER)
    api = kubernetes.client.ApiClient(cluster)
    with SandboxClient(connection_config=config(mode), api_client=api) as client:
        sandbox = client.create_sandbox(warmpool="nacre", labels={"team": "one"})
        commands(sandbox)
        files(sandbox)
        lifecycle(client, sandbox)
    print(f"synchronous by {mode}")


async def asynchronous(mode):
    cluster = kubernetes_asyncio.client.Configuration(host=CLUSTER)
    async with kubernetes_asyncio.client.ApiClient(cluster) as api:
        async with AsyncSandboxClient(connection_config=config(mode), api_client=api) as client:
            sandbox = await client.create_sandbox(warmpool="nacre")
            results = await asyncio.gather(*(sandbox.commands.run(f"echo {number}") for number in range(20)))
            assert [result.stdout for result in results] == [f"{number}\n" for number in range(20)]
            late = await sandbox.commands.run("sleep 60", command_timeout=0.5)
            assert (late.timed_out, late.exit_code) == (True, 124), late
            assert (await sandbox.commands.run("pwd", env={"A": "1"}, cwd=".")).exit_code == 0
            await sandbox.files.write("x/y", BYTES)
            await sandbox.files.write("x/z", io.BytesIO(BYTES))
            assert await sandbox.files.read("x/y") == BYTES
            assert await sandbox.files.read("x/z") == BYTES

            class Sink:
                content = b""

                async def write(self, piece):
                    self.content += piece
                    return len(piece)

            sink = Sink()
            assert await sandbox.files.read_to("x/y", sink) == len(BYTES) and sink.content == BYTES
            assert [entry.name for entry in await sandbox.files.list("x")] == ["y", "z"]
            assert await sandbox.files.exists("x") and not await sandbox.files.exists("none")
            await sandbox.files.delete("x", recursive=True)
            await sandbox.terminate()
    print(f"asynchronous by {mode}")


def legacy():
    cluster = kubernetes.client.Configuration(host=CLUSTER)
    direct = SandboxDirectConnectionConfig(api_url=f"http://127.0.0.1:{REST}")
    api = kubernetes.client.ApiClient(cluster)
    with SandboxClient(connection_config=direct, api_client=api) as client:
        sandbox = client.create_sandbox(warmpool="nacre")
        result = sandbox.commands.run("echo out; echo err >&2; exit 7")
        assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 7), result
        late = sandbox.commands.run("sleep 60", command_timeout=0.5)
        assert (late.timed_out, late.exit_code) == (True, 124), late
        files = sandbox.files
        files.write("old/häl lo.bin", BYTES)
        files.write("old/streamed", io.BytesIO(BYTES))
        assert files.read("old/häl lo.bin") == BYTES and files.read("old/streamed") == BYTES
        assert sorted(entry.name for entry in files.list("old")) == ["häl lo.bin", "streamed"]
        assert files.exists("old/streamed") and not files.exists("none")
        assert status_of(lambda: files.read("none")) == 404
        assert status_of(lambda: files.write("../out", b"x", allow_unsafe_paths=True)) == 403
        assert status_of(lambda: files.read("../out", allow_unsafe_paths=True)) == 403
        sandbox.commands.run("rm -r old")
        sandbox.terminate()
    print("legacy by its URL")


legacy()
for mode in ["in-cluster-pod-ip", "in-cluster-service"]:
    synchronous(mode)
    asyncio.run(asynchronous(mode))
