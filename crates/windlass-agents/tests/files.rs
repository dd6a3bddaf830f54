//! File tools: their results, and that no path leads out of the work folder.

use crate::common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use common::{Scene, object};

/// Creates a work folder with files, and files outside it that must stay unreachable.
fn scene() -> Scene {
    let scene = Scene::new();
    fs::write(scene.outside("secret.txt"), "treasure").unwrap();
    fs::create_dir_all(scene.work("a/b")).unwrap();
    fs::write(scene.work("a/one.txt"), "one\ntwo\nthree\n").unwrap();
    fs::write(scene.work("a/b/two.rs"), "fn main() {}\n// two\n").unwrap();
    fs::write(scene.work(".hidden"), "two\n").unwrap();
    fs::write(scene.work("bin"), b"a\0b").unwrap();
    fs::write(scene.work("new\nline"), "two\n").unwrap();
    symlink("one.txt", scene.work("a/inside")).unwrap();
    symlink(scene.work("a/one.txt"), scene.work("absolute")).unwrap();
    symlink("../../secret.txt", scene.work("a/out")).unwrap();
    symlink(scene.outside("secret.txt"), scene.work("out")).unwrap();
    symlink(scene.outside(""), scene.work("outdir")).unwrap();
    symlink("../nowhere-yet.txt", scene.work("dangling")).unwrap();
    symlink("later.txt", scene.work("later")).unwrap();
    symlink("loop2", scene.work("loop1")).unwrap();
    symlink("loop1", scene.work("loop2")).unwrap();
    symlink(".", scene.work("self")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        scene.work("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    scene
}

#[tokio::test]
async fn reads_never_leave_the_work_folder() {
    let scene = scene();
    let absolute = scene.work("a/one.txt").display().to_string();
    let elsewhere = scene.outside("secret.txt").display().to_string();
    let sibling = format!("{}-not/x", scene.folder());
    // The path; the expected error when it is read; `Ok`: the text.
    let table: Vec<(&str, Result<&str, &str>)> = vec![
        ("a/one.txt", Ok("one\ntwo\nthree\n")),
        ("./a//one.txt", Ok("one\ntwo\nthree\n")),
        ("a/b/../one.txt", Ok("one\ntwo\nthree\n")),
        ("a/inside", Ok("one\ntwo\nthree\n")),
        ("absolute", Ok("one\ntwo\nthree\n")),
        ("self/self/a/one.txt", Ok("one\ntwo\nthree\n")),
        ("new\nline", Ok("two\n")),
        (&absolute, Ok("one\ntwo\nthree\n")),
        ("../secret.txt", Err("outside")),
        ("a/../../secret.txt", Err("outside")),
        ("a/b/../../../secret.txt", Err("outside")),
        ("self/../secret.txt", Err("outside")),
        ("self/../../secret.txt", Err("outside")),
        ("/etc/passwd", Err("outside")),
        (&elsewhere, Err("outside")),
        (&sibling, Err("outside")),
        ("a/out", Err("outside")),
        ("out", Err("outside")),
        ("outdir/secret.txt", Err("outside")),
        ("dangling", Err("outside")),
        ("loop1", Err("loop of symbolic links")),
        ("a/one.txt/x", Err("not a folder")),
        ("nothing", Err("there is no")),
        ("no/thing", Err("there is no")),
        ("a", Err("is a folder")),
        (".", Err("is a folder")),
        ("pipe", Err("is a pipe")),
        ("bin", Err("binary file of 3 bytes")),
        ("", Err("is not a usable path")),
        ("a\0b", Err("is not a usable path")),
    ];
    for (path, expected) in table {
        let answer = scene.call("read", object([("path", path)])).await;
        match expected {
            Ok(text) => assert_eq!((answer.content.as_str(), answer.error), (text, false), "{path}"),
            Err(why) => assert!(answer.error && answer.content.contains(why), "{path:?}: {answer:?}"),
        }
        assert!(!answer.content.contains("treasure"), "{path}");
        assert!(!answer.error || !answer.content.contains('\n'), "a name cannot fake lines: {answer:?}");
    }
}

#[tokio::test]
async fn writes_never_leave_the_work_folder() {
    let scene = scene();
    let elsewhere = scene.outside("made.txt").display().to_string();
    for (path, expected) in [
        ("../made.txt", "outside"),
        ("made/../../made.txt", "outside"),
        (&elsewhere, "outside"),
        ("a/out", "outside"),
        ("outdir/made.txt", "outside"),
        ("outdir/deep/made.txt", "outside"),
        ("dangling", "outside"),
        ("loop1", "loop of symbolic links"),
        ("a", "is a folder"),
        (".", "is a folder"),
        ("pipe", "is a pipe"),
        ("a/one.txt/x", "not a folder"),
    ] {
        let answer = scene.call("write", object([("path", path), ("content", "x")])).await;
        assert!(answer.error && answer.content.contains(expected), "{path}: {answer:?}");
    }
    let outside: Vec<_> = fs::read_dir(scene.outside("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(outside.len(), 2, "only the work folder and what was there: {outside:?}");
    assert_eq!(fs::read_to_string(scene.outside("secret.txt")).unwrap(), "treasure");
    assert!(!scene.work("made").exists(), "a refused path makes no folders");
}

#[tokio::test]
async fn files_are_replaced_atomically() {
    let scene = scene();
    for (path, new) in
        [("x/y/z.txt", true), ("x/y/z.txt", false), ("a/inside", false), ("later", true), ("odd\nname", true)]
    {
        let answer = scene.call("write", object([("path", path), ("content", "text")])).await;
        assert!(!answer.error && answer.content.contains("4 bytes"), "{path}: {answer:?}");
        assert_eq!(answer.content.contains("a new file"), new, "{path}: {answer:?}");
        assert_eq!(fs::read_to_string(scene.work(path)).unwrap(), "text");
    }
    assert_eq!(fs::metadata(scene.work("x/y/z.txt")).unwrap().mode() & 0o777, 0o600);
    assert_eq!(fs::read_to_string(scene.work("later.txt")).unwrap(), "text", "through the link, which stays one");
    assert!(fs::symlink_metadata(scene.work("later")).unwrap().is_symlink());
    fs::write(scene.work("run.sh"), "old").unwrap();
    fs::set_permissions(scene.work("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    let before = fs::metadata(scene.work("run.sh")).unwrap().ino();
    scene.call("write", object([("path", "run.sh"), ("content", "new")])).await;
    let after = fs::metadata(scene.work("run.sh")).unwrap();
    assert_eq!((after.mode() & 0o777, after.ino() != before), (0o755, true), "replaced, with the rights it had");
    let left: Vec<_> = fs::read_dir(scene.work("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains(".tmp")), "{left:?}");
}

#[tokio::test]
async fn a_range_of_lines_is_read() {
    let scene = scene();
    fs::write(scene.work("empty"), "").unwrap();
    fs::write(scene.work("latin"), b"caf\xe9\n").unwrap();
    let line = "x".repeat(1000) + "\n";
    fs::write(scene.work("long"), line.repeat(2000)).unwrap();
    fs::write(scene.work("wide"), "y".repeat(3 << 20)).unwrap();
    for (arguments, expected) in [
        (r#"{"path": "a/one.txt", "offset": 2}"#, "two\nthree\n"),
        (r#"{"path": "a/one.txt", "limit": 1}"#, "one\n"),
        (r#"{"path": "a/one.txt", "offset": 2.0, "limit": 1}"#, "two\n"),
        (r#"{"path": "a/one.txt", "offset": 3, "limit": 99}"#, "three\n"),
        (r#"{"path": "a/one.txt", "offset": 9}"#, "`a/one.txt` has only 3 lines"),
        (r#"{"path": "a/one.txt", "offset": 18446744073709551615}"#, "`a/one.txt` has only 3 lines"),
        (r#"{"path": "empty"}"#, "(the file is empty)"),
        (r#"{"path": "latin"}"#, "caf\u{fffd}\n"),
    ] {
        assert_eq!(scene.call_json("read", arguments).await.content, expected, "{arguments}");
    }
    let long = scene.call_json("read", r#"{"path": "long"}"#).await;
    assert!(
        long.content.ends_with("… cut after 1 MiB: continue with offset 1048") && long.content.len() < (1 << 20) + 100
    );
    let rest = scene.call_json("read", r#"{"path": "long", "offset": 1048}"#).await;
    assert_eq!(rest.content.len(), 953 * 1001);
    let wide = scene.call_json("read", r#"{"path": "wide"}"#).await;
    assert!(wide.content.ends_with("the rest is omitted") && wide.content.len() < (1 << 20) + 100);
}

#[tokio::test]
async fn glob_and_grep_find_names_and_lines() {
    let scene = scene();
    for (tool, arguments, expected) in [
        ("glob", r#"{"pattern": "**/*.rs"}"#, "a/b/two.rs"),
        ("glob", r#"{"pattern": "./a/*"}"#, "a/inside\na/one.txt\na/out"),
        ("glob", r#"{"pattern": "*.{txt,rs}", "path": "a/b"}"#, "a/b/two.rs"),
        ("glob", r#"{"pattern": "new*"}"#, "new\\nline"),
        ("glob", r#"{"pattern": ".h*"}"#, ".hidden"),
        ("glob", r#"{"pattern": "*.md"}"#, "no file matches `*.md`"),
        ("glob", r#"{"pattern": "**/secret*"}"#, "no file matches `**/secret*`"),
        (
            "glob",
            r#"{"pattern": "*", "path": "outdir"}"#,
            "`outdir` is outside the work folder; only files in it can be used",
        ),
        ("grep", r#"{"pattern": "^t"}"#, "a/one.txt:2:two\na/one.txt:3:three\nnew\\nline:1:two"),
        ("grep", r#"{"pattern": "TWO", "ignore_case": true, "glob": "*.rs"}"#, "a/b/two.rs:2:// two"),
        ("grep", r#"{"pattern": "two", "glob": "a/**"}"#, "a/b/two.rs:2:// two\na/one.txt:2:two"),
        ("grep", r#"{"pattern": "two", "path": "a/one.txt"}"#, "a/one.txt:2:two"),
        ("grep", r#"{"pattern": "two", "glob": ".h*"}"#, ".hidden:1:two"),
        ("grep", r#"{"pattern": "treasure"}"#, "no line matches `treasure`"),
        (
            "grep",
            r#"{"pattern": "o", "limit": 1}"#,
            "a/b/two.rs:2:// two\n… there may be more: only the first 1 are shown; narrow the search",
        ),
    ] {
        assert_eq!(scene.call_json(tool, arguments).await.content, expected, "{tool} {arguments}");
    }
    for (tool, arguments, why) in [
        ("glob", r#"{"pattern": "a[b"}"#, "not a valid glob pattern"),
        ("grep", r#"{"pattern": "(a"}"#, "not a valid regular expression"),
        ("grep", r#"{"pattern": "(\\w{1000}){1000}"}"#, "not a valid regular expression"),
    ] {
        let answer = scene.call_json(tool, arguments).await;
        assert!(answer.error && answer.content.contains(why), "{arguments}: {answer:?}");
    }
    for number in 0..1100 {
        fs::write(scene.work(&format!("a/b/{number}.many")), "").unwrap();
    }
    let many = scene.call_json("glob", r#"{"pattern": "**/*.many"}"#).await.content;
    assert_eq!(many.lines().count(), 1001, "capped, and said so");
}

#[tokio::test]
async fn context_files_are_text_or_media() {
    use windlass_agents::AgentFiles;
    use windlass_runtime::{Tool, ToolCall};
    use windlass_value::{Value, parse_json, to_json};
    let scene = scene();
    fs::write(scene.work("p.PNG"), [137, 80]).unwrap();
    fs::write(scene.work("d.pdf"), "%PDF").unwrap();
    fs::File::create(scene.work("huge.txt")).unwrap().set_len((10 << 20) + 1).unwrap();
    let run = |paths: &str, lenient: bool| {
        let mut input = windlass_value::Map::new();
        input.insert("folder", scene.folder());
        input.insert("paths", parse_json(paths).unwrap());
        input.insert("lenient", lenient);
        AgentFiles::default().call(ToolCall::for_test(Value::map(input)))
    };
    let good = run(r#"["a/one.txt", "p.PNG", "d.pdf", "a/inside"]"#, false).await;
    assert_eq!(
        to_json(&good.output),
        r#"[{"path":"a/one.txt","text":"one\ntwo\nthree\n"},{"path":"p.PNG","media":"image/png","data":"iVA="},{"path":"d.pdf","media":"application/pdf","data":"JVBERg=="},{"path":"a/inside","text":"one\ntwo\nthree\n"}]"#
    );
    let bad = r#"["a/one.txt", "out", "../secret.txt", "huge.txt", "none.md", "bin", "pipe"]"#;
    let noted = to_json(&run(bad, true).await.output);
    assert_eq!((noted.matches("\"problem\"").count(), noted.contains("treasure")), (6, false), "{noted}");
    let error = run(bad, false).await.error.unwrap();
    assert_eq!(&*error.kind, "files");
    for name in ["`out`", "`../secret.txt`", "`huge.txt`", "`none.md`", "`bin`", "`pipe`"] {
        assert!(error.message.contains(name), "{name}: {}", error.message);
    }
}

#[tokio::test]
async fn protected_paths_are_not_touched() {
    let scene = Scene::with_protected(|work| windlass_agents::ProtectedPaths {
        no_access: vec![work.join("runs")],
        read_only: vec![work.join("flow.yaml"), work.join("missing/own.toml")],
    });
    for folder in [".git/hooks", ".windlass", "sub/.Windlass", "runs"] {
        fs::create_dir_all(scene.work(folder)).unwrap();
    }
    for file in ["windlass.toml", ".windlass/db", "sub/.Windlass/db", "runs/db", "flow.yaml", ".git/config"] {
        fs::write(scene.work(file), "treasure\n").unwrap();
    }
    symlink(".git", scene.work("link")).unwrap();
    symlink("windlass.toml", scene.work("settings")).unwrap();
    symlink("runs", scene.work("past")).unwrap();
    let absolute = scene.work("flow.yaml").display().to_string();
    // The path; whether it can be read; whether it can be written.
    for (path, read, written) in [
        ("windlass.toml", true, false),
        ("./a/../windlass.toml", false, false),
        ("new/Windlass.TOML", false, false),
        ("settings", true, false),
        (".windlass/db", false, false),
        (".windlass/new/x", false, false),
        ("sub/.Windlass/db", false, false),
        ("sub/../runs/db", false, false),
        ("runs", false, false),
        ("past/db", false, false),
        ("RUNS/db", false, false),
        ("flow.yaml", true, false),
        (&absolute, true, false),
        ("missing/own.toml", false, false),
        (".git/config", true, false),
        (".git", false, false),
        ("link/hooks/pre-commit", false, false),
        ("sub/.git/hooks/x", false, false),
        ("gitignore", false, true),
        (".gitignore", false, true),
        ("runs2", false, true),
        ("sub/ok.txt", false, true),
    ] {
        let found = scene.call("read", object([("path", path)])).await;
        assert_eq!(!found.error, read, "read {path}: {found:?}");
        let found = scene.call("write", object([("path", path), ("content", "mine")])).await;
        assert_eq!(!found.error, written, "write {path}: {found:?}");
    }
    let found = scene.call("write", object([("path", "windlass.toml"), ("content", "")])).await.content;
    assert_eq!(found, "`windlass.toml` is a settings file, which cannot be written; file tools cannot access it");
    assert!(!scene.work(".windlass/new").exists(), "nothing is made on the way");
    // Searches skip protected paths.
    let found = scene.call("grep", object([("pattern", "treasure"), ("glob", "{.*,*,**/.*/*}")])).await.content;
    assert!(found.contains("flow.yaml") && !found.contains("runs/") && !found.contains("indlass/"), "{found}");
    let found = scene.call("glob", object([("pattern", "{.windlass/*,runs/*,sub/.Windlass/*}")])).await.content;
    assert!(found.starts_with("no file"), "{found}");
}
