//! The tool `python`. Each line is a case: code, inputs, the result.

#![cfg(feature = "python")]

use crate::support;

use support::{call_tool, class, error, fact, summary};
use windlass_tools::{PythonOptions, PythonTool};
use windlass_value::{Value, to_json};

fn options() -> PythonOptions {
    let known = PythonOptions::with_environment(|name| std::env::var(name).ok());
    PythonOptions { max_interpreters: 2, ..known }
}

fn tool() -> PythonTool {
    PythonTool::new(options())
}

fn input(code: &str, args: &str) -> String {
    format!(r#"{{"code": {}, "args": {args}}}"#, to_json(&Value::from(code)))
}

#[tokio::test]
async fn every_style_of_code_gives_its_result() {
    let table = [
        ("result = x + 1", r#"{"x": 1}"#, "2"),
        ("result = input_data['x']", r#"{"x": [1, {"y": null}]}"#, r#"[1,{"y":null}]"#),
        ("x += 1\nreturn x", r#"{"x": 1}"#, "2"),
        ("if x:\n    return 'yes'\nreturn 'no'", r#"{"x": 0}"#, r#""no""#),
        (
            "def twice(n):\n    return n * 2\nif x > 5:\n    result = twice(x)\n    if False:\n        return 0",
            r#"{"x": 6}"#,
            "12",
        ),
        ("def main(a, b=5):\n    return a + b", r#"{"a": 1, "c": 2}"#, "6"),
        ("def main(input_data):\n    return sorted(input_data)", r#"{"b": 1, "a": 2}"#, r#"["a","b"]"#),
        ("def main(input_data):\n    return input_data", r#"{"input_data": 7}"#, "7"),
        ("def main(data):\n    return data", r#"{"a": 1}"#, r#"{"a":1}"#),
        ("def main(a, *rest, **more):\n    return [a, more]", r#"{"a": 1, "b": 2}"#, r#"[1,{"b":2}]"#),
        ("def main():\n    return 1\nif __name__ == '__main__':\n    result = 2", "{}", "1"),
        ("async def main(a):\n    return a", r#"{"a": 3}"#, "3"),
        ("def main(a):\n    return a\nresult = main(4) + 1", r#"{"a": 3}"#, "5"),
        ("sum(xs)", r#"{"xs": [1, 2, 3]}"#, "6"),
        ("   result = 1", "{}", "1"),
        ("import json\nx = json.dumps([1])", "{}", "null"),
        ("x = result", r#"{"result": 5}"#, "null"),
        ("def f():\n    global result\n    result = 9\nf()", r#"{"result": 5}"#, "9"),
        ("if __name__ == '__main__':\n    result = 3", "{}", "3"),
        ("import sys\nresult = 4\nsys.exit(0)", "{}", "4"),
        (
            "def fib(n):\n    return n if n < 2 else fib(n-1) + fib(n-2)\nreturn [fib(i) for i in range(x)]",
            r#"{"x": 5}"#,
            "[0,1,1,2,3]",
        ),
        ("result = 'Grüße \\U0001F600 \\n'", "{}", r#""Grüße 😀 \n""#),
        ("result = class_name", r#"{"class_name": "x", "not a name": 1, "class": 2}"#, r#""x""#),
        ("return input_data['class']", r#"{"class": 2}"#, "2"),
    ];
    let tool = tool();
    for (code, args, expected) in table {
        assert_eq!(summary(&call_tool(&tool, &input(code, args)).await), expected, "{code}");
    }
}

/// `body` is the data of a reply, and columns are those of a single row; none of this is stored twice.
#[tokio::test]
async fn results_of_tools_have_other_names() {
    let reply = r#"{"r": {"status_code": 200, "headers": {}, "data": {"n": 1}}}"#;
    let row = r#"{"r": {"rows": [{"n": 1, "rows": 2}], "rowcount": 1, "columns": ["n", "rows"]}}"#;
    let rows = r#"{"r": {"rows": [{"n": 1}, {"n": 2}], "rowcount": 2, "columns": ["n"]}}"#;
    let list = r#"{"r": [{"x": {"status_code": 200, "headers": {}, "data": [5]}}]}"#;
    let table = [
        (
            "result = [r['body'], r.get('body'), 'body' in r, len(r), r.get('n')]",
            reply,
            r#"[{"n":1},{"n":1},true,3,null]"#,
        ),
        ("r['body']['m'] = 2\nresult = r", reply, r#"{"status_code":200,"headers":{},"data":{"n":1,"m":2}}"#),
        ("r['body'] = 2\nresult = [r['body'], r['data']]", reply, r#"[2,{"n":1}]"#),
        ("def main(r):\n    return r.get('body')", reply, r#"{"n":1}"#),
        ("result = type(r) is dict", reply, "true"),
        ("result = r[0]['x']['body']", list, "[5]"),
        ("result = [r['n'], r['rows'], r.get('m', 0), isinstance(r, dict)]", row, r#"[1,[{"n":1,"rows":2}],0,true]"#),
        ("result = [r.get('n', 0), 'n' in r]", rows, "[0,false]"),
    ];
    let tool = tool();
    for (code, args, expected) in table {
        assert_eq!(summary(&call_tool(&tool, &input(code, args)).await), expected, "{code}");
    }
    let missing = call_tool(&tool, &input("result = r['m'] if r['n'] else 0", row)).await;
    assert_eq!(&*error(&missing).message, "KeyError: 'm' (line 1)");
}

#[tokio::test]
async fn results_become_json() {
    let table = [
        (
            "from datetime import *\nresult = [date(2026,1,2), datetime(2026,1,2,3,4,5,6,timezone.utc), timedelta(seconds=1.5)]",
            r#"["2026-01-02","2026-01-02T03:04:05.000006+00:00",1.5]"#,
        ),
        (
            "from decimal import Decimal\nresult = {'a': Decimal('1.10'), 'b': ['\\x00', Decimal(10**20)]}",
            r#"{"a":1.10,"b":["\u0000",100000000000000000000]}"#,
        ),
        (
            "result = [b'abc', {3, 1, 2}, frozenset(), (1, 2), range(3), {1: 2, None: 3}]",
            r#"["YWJj",[1,2,3],[],[1,2],[0,1,2],{"1":2,"null":3}]"#,
        ),
        (
            "import enum, uuid, pathlib, dataclasses\nclass E(enum.Enum):\n    A = 'a'\n@dataclasses.dataclass\nclass D:\n    x: int\nresult = [E.A, uuid.UUID(int=1), pathlib.Path('/a'), D(4), {'a': 1}.keys(), (i for i in [1])]",
            r#"["a","00000000-0000-0000-0000-000000000001","/a",{"x":4},["a"],[1]]"#,
        ),
        ("result = [10**30, 1.5, True, None, 1e300]", "[1000000000000000000000000000000,1.5,true,null,1e+300]"),
        (
            "result = {'a': [float('nan')]}",
            "NotJson python: NotJson: the result holds NaN or Infinity, which JSON does not have: give None instead",
        ),
        (
            "result = object()",
            "NotJson python: NotJson: the result holds a value of type object, which has no form in JSON",
        ),
        (
            "result = []\nresult.append(result)",
            "NotJson python: NotJson: the result holds itself, or is nested too deep",
        ),
        ("result = '\\ud800'", "NotJson python: NotJson: the result holds text that is not Unicode (a lone surrogate)"),
        ("result = {(1, 2): 3}", "NotJson python: NotJson: keys must be str, int, float, bool or None, not tuple"),
    ];
    let tool = tool();
    for (code, expected) in table {
        assert_eq!(summary(&call_tool(&tool, &input(code, "{}")).await), expected, "{code}");
    }
}

#[tokio::test]
async fn exceptions_have_a_type_and_a_line() {
    let table = [
        ("x = 1\n\nraise ValueError('no')", "ValueError python: ValueError: no (line 3)", "3"),
        ("def f(d):\n    return d['a']\nresult = f({})", "KeyError python: KeyError: 'a' (line 2)", "2"),
        ("x = 1\nif x\n", "SyntaxError python: SyntaxError: expected ':' (line 2)", "2"),
        ("x = 1\nreturn nothing", "NameError python: NameError: name 'nothing' is not defined (line 2)", "2"),
        ("def main(a, b):\n    pass", "TypeError python: TypeError: main() needs a, b; the inputs are: none", "null"),
        ("class Mine(Exception): pass\nraise Mine()", "Mine python: Mine (line 2)", "2"),
        ("import sys\nsys.exit(3)", "SystemExit python: SystemExit: 3 (line 2)", "2"),
        (
            "import json\njson.loads('{')",
            "JSONDecodeError python: JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1) (line 2)",
            "2",
        ),
    ];
    let tool = tool();
    for (code, expected, line) in table {
        let outcome = call_tool(&tool, &input(code, "{}")).await;
        assert_eq!(summary(&outcome), expected, "{code}");
        assert_eq!(fact(&outcome, "py.line"), line, "{code}");
        assert_eq!(fact(&outcome, "py.exception"), format!("{:?}", error(&outcome).code));
    }
    let outcome = call_tool(&tool, &input("import json\ndef f():\n    json.loads('{')\nf()", "{}")).await;
    assert_eq!(fact(&outcome, "py.exception_type"), r#""json.decoder.JSONDecodeError""#);
    let traceback = fact(&outcome, "py.traceback");
    assert!(traceback.contains("json.loads('{')") && !traceback.contains("execute"), "{traceback}");
    assert_eq!(fact(&call_tool(&tool, &input("1", "{}")).await, "py.exception"), "null");
    // Imports for the code do not shift its line numbers.
    let with_libs = |code: &str, libs: &str| format!(r#"{{"code": "{code}", "libs": {libs}}}"#);
    let outcome = call_tool(&tool, &with_libs("p.nothing", r#"{"p": "os.path"}"#)).await;
    assert_eq!(fact(&outcome, "py.line"), "1");
    let outcome = call_tool(&tool, &with_libs("p.basename('/a/b') + os.sep", r#"{"p": "os.path", "os": "os"}"#)).await;
    assert_eq!(to_json(&outcome.output), r#""b/""#);
    let outcome = call_tool(&tool, &with_libs("1", r#"{"x": "no_such_module"}"#)).await;
    assert_eq!(summary(&outcome), "ModuleNotFoundError python: ModuleNotFoundError: No module named 'no_such_module'");
    // A part of a module: something that it defines, or a module inside it.
    let parts =
        r#"{"D": {"from": "decimal", "import": "Decimal"}, "trees": {"from": "xml.etree", "import": "ElementTree"}}"#;
    let outcome = call_tool(&tool, &with_libs("[D('1.10'), trees.fromstring('<a/>').tag]", parts)).await;
    assert_eq!(to_json(&outcome.output), r#"[1.10,"a"]"#, "{}", summary(&outcome));
    let outcome = call_tool(&tool, &with_libs("os.path.basename('/a/b')", r#"{"os.path": "os.path"}"#)).await;
    assert_eq!(to_json(&outcome.output), r#""b""#, "{}", summary(&outcome));
    let outcome = call_tool(&tool, &with_libs("1", r#"{"x": {"from": "os", "import": "nothing"}}"#)).await;
    assert_eq!(summary(&outcome), "ImportError python: ImportError: cannot import name 'nothing' from 'os'");
}

#[tokio::test]
async fn printed_text_is_reported_in_meta() {
    let tool = PythonTool::new(PythonOptions { max_print_chars: 20, ..options() });
    let code = "import sys, os\nprint('a', 1)\nsys.stderr.write('b\\n')\nsys.stdout.buffer.write(b'c\\n')\nos.write(1, b'past us\\n')\nos.system('echo past us')\nresult = input_data";
    let outcome = call_tool(&tool, &input(code, r#"{"x": 1}"#)).await;
    assert_eq!(
        (summary(&outcome), to_json(&outcome.meta)),
        (r#"{"x":1}"#.to_owned(), r#"{"stdout":"a 1\nc\n","stderr":"b\n"}"#.to_owned())
    );
    let outcome = call_tool(&tool, &input("print('x' * 50)\nraise OSError('no')", "{}")).await;
    assert_eq!(to_json(&outcome.meta), r#"{"stdout":"xxxxxxxxxxxxxxxxxxxx","stdout_truncated":true}"#);
    assert_eq!(summary(&outcome), "OSError python: OSError: no (line 2)");
    assert_eq!(
        summary(&call_tool(&tool, &input("input('?')", "{}")).await),
        "EOFError python: EOFError: EOF when reading a line (line 1)"
    );
}

#[tokio::test]
async fn a_call_leaves_nothing_behind() {
    let tool = PythonTool::new(PythonOptions { max_interpreters: 1, ..options() });
    let code = "import os\nleft = 1\nos.environ['LEFT'] = '1'\nos.chdir('/usr')\nresult = os.getpid()";
    let first = summary(&call_tool(&tool, &input(code, r#"{"given": 1}"#)).await);
    let look = "import os\nresult = [os.getpid(), 'left' in globals(), 'given' in globals(), 'LEFT' in os.environ, os.getcwd() == '/usr']";
    assert_eq!(summary(&call_tool(&tool, &input(look, "{}")).await), format!("[{first},false,false,false,false]"));
    // A thread that keeps running would leave state, so its interpreter is not reused.
    let thread = "import os, threading, time\nthreading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\nresult = os.getpid()";
    assert_eq!(summary(&call_tool(&tool, &input(thread, "{}")).await), first);
    assert_ne!(summary(&call_tool(&tool, &input("import os\nresult = os.getpid()", "{}")).await), first);
}

#[tokio::test]
async fn an_interpreter_that_hangs_or_dies_is_replaced() {
    let tool = PythonTool::new(PythonOptions { max_interpreters: 1, ..options() });
    let outcome = call_tool(&tool, r#"{"code": "while True: pass", "timeout": 0.3}"#).await;
    assert_eq!(class(&outcome), ("timeout", "timeout", false));
    assert_eq!(summary(&call_tool(&tool, &input("1 + 1", "{}")).await), "2");
    let outcome = call_tool(&tool, &input("import os\nos.write(2, b'last words')\nos._exit(3)", "{}")).await;
    assert_eq!(class(&outcome), ("InterpreterDied", "python", false));
    assert!(error(&outcome).message.contains("exit status: 3"), "{}", error(&outcome).message);
    assert_eq!(summary(&call_tool(&tool, &input("1 + 1", "{}")).await), "2");
}

#[tokio::test]
async fn limits_and_missing_programs_are_errors() {
    let tool = PythonTool::new(PythonOptions { max_result_bytes: 100, ..options() });
    assert_eq!(
        summary(&call_tool(&tool, &input("'x' * 200", "{}")).await),
        "NotJson python: NotJson: the result has 202 bytes as JSON, more than 100 (`limits.max_python_result_bytes` in windlass.toml)"
    );
    let none = PythonTool::new(PythonOptions { program: "no-such-python".to_owned(), ..options() });
    let outcome = call_tool(&none, r#"{"code": "1"}"#).await;
    assert_eq!(class(&outcome), ("NoPython", "python", false));
    assert!(error(&outcome).hint.as_ref().unwrap().contains("apt-get install python3"));
    assert_eq!(class(&call_tool(&none, r#"{"code": " "}"#).await), ("BadInput", "input", false));
    let small = PythonTool::new(PythonOptions { max_memory_bytes: Some(200 << 20), ..options() });
    assert_eq!(class(&call_tool(&small, &input("x = 'x' * (1 << 30)", "{}")).await).0, "MemoryError");
}

#[tokio::test]
async fn no_call_gets_the_answer_of_another() {
    let tool = PythonTool::new(PythonOptions { max_interpreters: 1, ..options() });
    // A fork of the interpreter ends where the code ends, and writes no reply.
    for end in ["", "\nif not pid: raise OSError('no')", "\nif pid: os.waitpid(pid, 0)"] {
        let fork = format!("import os\npid = os.fork()\nresult = 'parent' if pid else 'child'{end}");
        assert_eq!(summary(&call_tool(&tool, &input(&fork, "{}")).await), r#""parent""#, "{end}");
        for number in 0..3 {
            assert_eq!(
                summary(&call_tool(&tool, &input(&number.to_string(), "{}")).await),
                number.to_string(),
                "{end}"
            );
        }
    }
    let status = "import os\npid = os.fork()\nif not pid: raise OSError('no')\nresult = os.waitpid(pid, 0)[1] >> 8";
    assert_eq!(summary(&call_tool(&tool, &input(status, "{}")).await), "1");
    // Output written past the driver is not a reply.
    for forged in ["{\"result\":\"forged\"}\n", "{\"call\":\"0\",\"result\":1}\n", "{", "\n"] {
        let code = "import os\nfor fd in range(3, 10):\n    try: os.write(fd, forged.encode())\n    except OSError: pass\nresult = 'real'";
        let outcome =
            call_tool(&tool, &input(code, &format!(r#"{{"forged": {}}}"#, to_json(&Value::from(forged))))).await;
        assert_eq!(class(&outcome), ("InterpreterProtocolError", "python", false), "{forged}");
        assert_eq!(summary(&call_tool(&tool, &input("'second'", "{}")).await), r#""second""#, "{forged}");
    }
}
