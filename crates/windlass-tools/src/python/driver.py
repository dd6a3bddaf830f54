# Runs pieces of code, one line of JSON in, one line of JSON out, each in a namespace of its own.
# The pipes move away from 0 and 1 first: what the code prints or reads never meets them.
import ast, base64, builtins, io, json, os, resource, sys, textwrap, traceback, types

NAME = "<code>"
# The reader redacts secrets, and then truncates the text to its limit.
TOLD_MAX = 1 << 20
LIMITS = json.loads(sys.argv[1])
# Taken now: the code may put others in their place.
own_number, process_number, leave = os.getpid(), os.getpid, os._exit
requests = os.fdopen(os.dup(0), "rb", buffering=1 << 16)
replies = os.fdopen(os.dup(1), "wb", buffering=0)
nothing = os.open(os.devnull, os.O_RDWR)
os.dup2(nothing, 0)
os.dup2(2, 1)
sys.stdin = open(os.devnull)
if LIMITS["memory"]:
    resource.setrlimit(resource.RLIMIT_AS, (LIMITS["memory"], LIMITS["memory"]))


class Printed:
    """What a call prints to both streams, in order and up to a limit."""

    def __init__(self):
        self.clear()

    def clear(self):
        self.parts, self.room, self.cut = [], LIMITS["print"], False

    def add(self, stream, text):
        if len(text) > self.room:
            self.cut = True
            text = text[: self.room]
        self.room -= len(text)
        if text:
            if not self.parts or self.parts[-1][0] != stream:
                self.parts.append((stream, []))
            self.parts[-1][1].append(text)


class PrintedStream(io.TextIOBase):
    encoding = "utf-8"

    def __init__(self, name, printed):
        self.stream, self.printed = name, printed
        self.buffer = PrintedBytes(self)

    def write(self, text):
        self.printed.add(self.stream, text)
        return len(text)

    def writable(self):
        return True


class PrintedBytes(io.RawIOBase):
    def __init__(self, text):
        self.text = text

    def write(self, data):
        self.text.write(bytes(data).decode("utf-8", "replace"))
        return len(data)

    def writable(self):
        return True


class NotJson(Exception):
    """The result has no form in JSON."""


class Result(dict):
    """A tool's result. Other names of what is in it are found when they are asked for, but not listed: printed, returned
    or copied it is what it was."""

    def __init__(self, own, others):
        super().__init__(own)
        self.others = others

    def __missing__(self, name):
        return self.others[name]

    def __contains__(self, name):
        return super().__contains__(name) or name in self.others

    def get(self, name, default=None):
        return self[name] if name in self else default


REPLY, TABLE = {"status_code", "headers", "data"}, {"rows", "rowcount", "columns"}


def seen(value, code):
    """A value with the other names of what is in results, as far as the code has them: `body` is the data of a reply,
    and the columns of an only row are found beside `rows`."""
    if isinstance(value, list):
        return [seen(item, code) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == REPLY:
        others = {"body": value["data"]}
    elif TABLE <= value.keys():
        rows = value["rows"]
        others = rows[0] if isinstance(rows, list) and len(rows) == 1 and isinstance(rows[0], dict) else {}
        value = {name: item if name in TABLE else seen(item, code) for name, item in value.items()}
    else:
        return {name: seen(item, code) for name, item in value.items()}
    return Result(value, others) if any(name in code for name in others) else value


printed = Printed()
output, errors = PrintedStream("out", printed), PrintedStream("err", printed)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef,
          ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Program:
    """One text, compiled once for the names its inputs have."""

    def __init__(self, code, names):
        tree = parse(code)
        self.main = any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == "main"
                        for node in tree.body)
        self.stores, returns, hidden = False, False, set()
        pending = list(tree.body)
        while pending:
            node = pending.pop()
            if isinstance(node, ast.Return):
                returns = True
            elif isinstance(node, ast.Name) and node.id == "result" and isinstance(node.ctx, ast.Store):
                self.stores = True
            elif isinstance(node, ast.Global):
                hidden.update(node.names)
            if not isinstance(node, SCOPES):
                pending.extend(ast.iter_child_nodes(node))
        self.body = self.expression = False
        if returns:
            self.names = [name for name in names if usable(name) and name not in hidden]
            tree = as_function(tree, self.names)
            self.body = True
        elif len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr):
            self.expression = True
            tree = ast.Expression(tree.body[0].value)
        self.compiled = compile(tree, NAME, "eval" if self.expression else "exec")

    def run(self, inputs, space, data):
        if self.expression:
            return eval(self.compiled, space)
        given = space.get("result", space)
        exec(self.compiled, space)
        if self.body:
            return space["__body__"](**{name: space[name] for name in self.names})
        result = space.get("result", space)
        if result is not space and (self.stores or result is not given):
            return result
        if self.main and callable(space.get("main")):
            return call_main(space["main"], inputs, data)
        return None


def parse(code):
    try:
        return ast.parse(code, NAME)
    except IndentationError:
        return ast.parse(textwrap.dedent(code), NAME)


def usable(name):
    import keyword
    return name.isidentifier() and not keyword.iskeyword(name)


def as_function(tree, names):
    """A text with `return` is the body of a function; its inputs are parameters, so that it can assign to them."""
    outer = ast.parse("def __body__(%s): pass" % ", ".join(names), NAME)
    end = ast.parse("def f():\n return locals().get('result')", NAME).body[0].body
    outer.body[0].body = tree.body + end
    return outer


def call_main(main, inputs, data):
    import inspect
    positional, named, missing, rest = [], {}, [], False
    for parameter in inspect.signature(main).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            rest = True
            continue
        if parameter.name in inputs:
            value = inputs[parameter.name]
        elif parameter.name == "input_data":
            value = data
        elif parameter.default is not parameter.empty:
            continue
        else:
            missing.append(parameter.name)
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append(value)
        else:
            named[parameter.name] = value
    if len(missing) == 1 and not named and not positional:
        positional, missing = [data], []
    if missing:
        known = ", ".join(inputs) or "none"
        raise TypeError("main() needs %s; the inputs are: %s" % (", ".join(missing), known))
    if rest:
        named.update((key, value) for key, value in inputs.items() if key not in named)
    result = main(*positional, **named)
    if inspect.iscoroutine(result):
        import asyncio
        result = asyncio.run(result)
    return result


class Converter:
    """What JSON does not know, by what it most likely means."""

    def __init__(self):
        self.decimals = False

    def __call__(self, value):
        kind = type(value).__name__
        if kind == "Decimal":
            if not value.is_finite():
                raise NotJson("the result holds the number %s, which JSON does not have" % value)
            self.decimals = True
            return "\0" + format(value, "f")
        if isinstance(value, (bytes, bytearray, memoryview)):
            return base64.b64encode(bytes(value)).decode()
        if isinstance(value, (set, frozenset)):
            try:
                return sorted(value)
            except TypeError:
                return list(value)
        if kind == "timedelta":
            return value.total_seconds()
        for method, arguments in (("isoformat", ()), ("model_dump", ()), ("to_dict", ("records",)), ("tolist", ()),
                                  ("_asdict", ())):
            convert = getattr(value, method, None)
            if convert is not None and not isinstance(value, type):
                try:
                    return convert(*arguments)
                except TypeError:
                    return convert()
        if hasattr(value, "__dataclass_fields__"):
            return {name: getattr(value, name) for name in value.__dataclass_fields__}
        if kind == "UUID" or hasattr(value, "__fspath__"):
            return str(value)
        if "enum" in sys.modules and isinstance(value, sys.modules["enum"].Enum):
            return value.value
        if hasattr(value, "keys") and hasattr(value, "__getitem__"):
            return {key: value[key] for key in value.keys()}
        if hasattr(value, "__iter__"):
            return list(value)
        raise NotJson("the result holds a value of type %s, which has no form in JSON" % kind)


def as_json(value):
    converter = Converter()
    try:
        text = json.dumps(value, default=converter, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        data = text.encode()
    except NotJson:
        raise
    except UnicodeEncodeError:
        raise NotJson("the result holds text that is not Unicode (a lone surrogate)") from None
    except (TypeError, ValueError, RecursionError) as error:
        message = str(error)
        if "Out of range float" in message:
            message = "the result holds NaN or Infinity, which JSON does not have: give None instead"
        elif "Circular" in message or isinstance(error, RecursionError):
            message = "the result holds itself, or is nested too deep"
        raise NotJson(message) from None
    if len(data) > LIMITS["result"]:
        message = "the result has %d bytes as JSON, more than %d (`limits.max_python_result_bytes` in windlass.toml)"
        raise NotJson(message % (len(data), LIMITS["result"]))
    return data, converter.decimals


def told(error, code):
    """An exception: its type, its words, and where in the code it came from."""
    line, frames = None, error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != NAME:
        frames = frames.tb_next
    at = frames
    while at is not None:
        if at.tb_frame.f_code.co_filename == NAME:
            line = at.tb_lineno
        at = at.tb_next
    if isinstance(error, SyntaxError) and error.filename == NAME:
        line = error.lineno
        message = error.msg
    else:
        try:
            message = str(error)
        except Exception:
            message = "(its text cannot be made)"
    if isinstance(error, NotJson):
        frames = None
    import linecache
    linecache.cache[NAME] = (len(code), None, code.splitlines(True), NAME)
    try:
        lines = traceback.format_exception(type(error), error, frames)
    except Exception:
        lines = []
    kind = type(error)
    full = kind.__name__ if kind.__module__ in ("builtins", "__main__") else kind.__module__ + "." + kind.__name__
    return {"type": kind.__name__, "full": full, "message": message[:TOLD_MAX], "line": line,
            "traceback": "".join(lines)[-TOLD_MAX:]}


programs = {}


def program(code, names):
    key = (code, names)
    found = programs.get(key)
    if found is None:
        if len(programs) >= 256:
            programs.clear()
        found = programs[key] = Program(code, names)
    return found


def library(name, lib):
    """What an import statement binds: `import lib as name`, `import a.b` (which binds `a`), `from a import b as name`."""
    import importlib
    if isinstance(lib, dict):
        module, part = importlib.import_module(lib["from"]), lib["import"]
        if hasattr(module, part):
            return getattr(module, part)
        try:
            return importlib.import_module(module.__name__ + "." + part)
        except ModuleNotFoundError:
            raise ImportError("cannot import name %r from %r" % (part, module.__name__)) from None
    module = importlib.import_module(lib)
    return module if "." not in name else sys.modules[name.partition(".")[0]]


def execute(code, inputs, libs):
    data = inputs.get("input_data", inputs)
    space = None
    try:
        found = program(code, tuple(inputs))
        # Code that guards a call of its own main with __name__ is called by its main here.
        module = types.ModuleType("playbook_code" if found.main else "__main__")
        sys.modules[module.__name__] = module
        space = module.__dict__
        space["__builtins__"] = builtins
        for name, lib in libs.items():
            space[name.partition(".")[0]] = library(name, lib)
        space.update(inputs)
        space["input_data"] = data
        try:
            result = found.run(inputs, space, data)
        except SystemExit as end:
            if end.code not in (None, 0):
                raise
            result = space.get("result")
        result, decimals = as_json(result)
        return b'"result":' + result + (b',"decimals":true' if decimals else b"")
    except BaseException as error:
        return b'"error":' + json.dumps(told(error, code)).encode()
    finally:
        if space is not None:
            space.clear()


def worn_out():
    """Whether this interpreter should not be used again: something still runs in it, or it has grown."""
    threading = sys.modules.get("threading")
    if threading is not None and threading.active_count() > 1:
        return True
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > LIMITS["grown"]


def drive():
    home, environment = os.getcwd(), dict(os.environ)
    own = sys.modules["__main__"]
    for line in requests:
        request = json.loads(line)
        if b'"status_code":' in line or b'"rowcount":' in line:
            inputs, code = request["inputs"], request["code"]
            request["inputs"] = {name: seen(value, code) for name, value in inputs.items()}
        printed.clear()
        sys.stdout, sys.stderr = output, errors
        answer = execute(request["code"], request["inputs"], request.get("libs", {}))
        if process_number() != own_number:
            # A copy that the code has made of this process: the call is not its to answer.
            leave(1 if answer.startswith(b'"error"') else 0)
        sys.modules["__main__"] = own
        sys.modules.pop("playbook_code", None)
        if printed.parts:
            parts = [[stream, "".join(texts)] for stream, texts in printed.parts]
            answer += b',"printed":' + json.dumps(parts).encode()
        if printed.cut:
            answer += b',"cut":true'
        if worn_out():
            answer += b',"retire":true'
        replies.write(b'{"call":"' + request["call"].encode() + b'",' + answer + b"}\n")
        try:
            if os.getcwd() != home:
                os.chdir(home)
        except OSError:
            os.chdir(home)
        if os.environ != environment:
            os.environ.clear()
            os.environ.update(environment)


drive()
