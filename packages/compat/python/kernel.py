"""A Python interpreter that keeps its state: requests as lines of JSON on standard input, results on standard output."""

import ast
import asyncio
import base64
import codecs
import inspect
import io
import json
import linecache
import os
import signal
import sys
import threading
import time
import traceback

OWN_FILE = sys._getframe().f_code.co_filename
MARK = b"\0end-of-output-" + os.urandom(16).hex().encode() + b"\0"
FORMS = {
    "html": "_repr_html_",
    "markdown": "_repr_markdown_",
    "svg": "_repr_svg_",
    "latex": "_repr_latex_",
    "json": "_repr_json_",
    "javascript": "_repr_javascript_",
    "png": "_repr_png_",
    "jpeg": "_repr_jpeg_",
}

replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
requests = os.fdopen(os.dup(0), "r", encoding="utf-8")
lock = threading.Lock()


def say(**message):
    with lock:
        replies.write(json.dumps(message) + "\n")
        replies.flush()


class Output:
    """What arrives on a descriptor, also from other programs."""

    def __init__(self, descriptor, name):
        self.descriptor = descriptor
        self.name = name
        self.ended = threading.Event()
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.reader, writer = os.pipe()
        os.dup2(writer, descriptor)
        os.close(writer)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        kept = b""
        while True:
            data = kept + os.read(self.reader, 65536)
            at = data.find(MARK)
            if at >= 0:
                self.pass_on(data[:at])
                kept = data[at + len(MARK):]
                self.ended.set()
                continue
            # The mark may have arrived in part.
            start = data.rfind(b"\0")
            is_part = start >= 0 and MARK.startswith(data[start:])
            kept = data[start:] if is_part else b""
            self.pass_on(data[:start] if is_part else data)

    def pass_on(self, data):
        text = self.decoder.decode(data)
        if text:
            say(type=self.name, text=text, timestamp=time.time_ns())

    def flush(self):
        self.ended.clear()
        os.write(self.descriptor, MARK)
        self.ended.wait(5)


def forms_of(value):
    found = {"text": repr(value)}
    for name, method in FORMS.items():
        try:
            shown = getattr(value, method)() if hasattr(type(value), method) else None
        except Exception:
            continue
        if isinstance(shown, bytes):
            shown = base64.b64encode(shown).decode()
        if shown:
            found[name] = shown
    return found


def display(*values):
    for value in values:
        say(type="result", is_main_result=False, **forms_of(value))


def show_figures():
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return
    for number in pyplot.get_fignums():
        figure = pyplot.figure(number)
        image = io.BytesIO()
        figure.savefig(image, format="png", bbox_inches="tight")
        say(
            type="result",
            is_main_result=False,
            text=repr(figure),
            png=base64.b64encode(image.getvalue()).decode(),
        )
    pyplot.close("all")


def run(code, name, scope):
    """Executes the code. Returns the value of the last statement, if it is an expression."""
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    tree = ast.parse(code, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    execute(tree, "exec", name, scope)
    if last is not None:
        return execute(ast.Expression(last.value), "eval", name, scope)


def execute(tree, mode, name, scope):
    compiled = compile(tree, name, mode, flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    value = eval(compiled, scope)
    return loop.run_until_complete(value) if compiled.co_flags & inspect.CO_COROUTINE else value


def explain(error):
    trace = error.__traceback__
    while trace and trace.tb_frame.f_code.co_filename == OWN_FILE:
        trace = trace.tb_next
    lines = traceback.format_exception(type(error), error, trace)
    say(type="error", name=type(error).__name__, value=str(error), traceback="".join(lines))


def ignore(*_):
    """Unlike SIG_IGN, children do not inherit it."""


def serve():
    handler = signal.default_int_handler
    signal.signal(signal.SIGINT, ignore)
    scope = {"__name__": "__main__", "__builtins__": __builtins__, "display": display}
    for count, line in enumerate(iter(requests.readline, ""), 1):
        given = json.loads(line)
        variables = given.get("env_vars") or {}
        before = {name: os.environ.get(name) for name in variables}
        try:
            try:
                signal.signal(signal.SIGINT, handler)
                os.environ.update(variables)
                value = run(given["code"], f"<cell {count}>", scope)
                if value is not None:
                    scope["_"] = value
                    say(type="result", is_main_result=True, **forms_of(value))
                show_figures()
            finally:
                handler = signal.signal(signal.SIGINT, ignore) or handler
        except BaseException as error:
            explain(error)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass
        for output in outputs:
            output.flush()
        say(type="number_of_executions", execution_count=count)
        say(type="end_of_execution")


os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
outputs = [Output(1, "stdout"), Output(2, "stderr")]
sys.stdout = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8", errors="replace")
sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, encoding="utf-8", errors="replace")
sys.path.insert(0, "")
os.environ.setdefault("MPLBACKEND", "Agg")
loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)
serve()
