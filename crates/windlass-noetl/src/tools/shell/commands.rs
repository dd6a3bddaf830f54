//! Programs that give a text among their words to a shell, or run it as a program in a language of their own.

use super::nested::NestedProgram;
use super::words::{base_name, own_words, program_of_argument, value_position};

/// Options of a program that take a value: letters, and long names.
struct OptionValues {
    letters: &'static str,
    names: &'static [&'static str],
}

/// The position of the next word among the words of a program.
#[derive(Debug, PartialEq)]
enum NextWord<'w> {
    /// The value of this option, a letter or a long name.
    Value(&'w str),
    /// An operand after this many others.
    Operand(usize),
}

const AWK: OptionValues =
    OptionValues { letters: "Fvfeil", names: &["--field-separator", "--assign", "--file", "--source"] };
const SED: OptionValues = OptionValues { letters: "efl", names: &["--expression", "--file", "--line-length"] };
const SCRIPT: OptionValues =
    OptionValues { letters: "cEIOBoTm", names: &["--command", "--echo", "--log-in", "--log-out", "--log-timing"] };
const WATCH: OptionValues = OptionValues { letters: "nq", names: &["--interval", "--equexit"] };
const TMUX: OptionValues = OptionValues { letters: "sntcxyFeLSf", names: &[] };
const PARALLEL: OptionValues = OptionValues {
    letters: "jPIanNLdCSsEU",
    names: &[
        "--jobs",
        "--arg-file",
        "--colsep",
        "--delay",
        "--joblog",
        "--results",
        "--tmpdir",
        "--timeout",
        "--workdir",
    ],
};
const XARGS: OptionValues = OptionValues {
    letters: "adEILnPs",
    names: &["--arg-file", "--delimiter", "--max-args", "--max-procs", "--max-lines", "--max-chars"],
};
const ENTR: OptionValues = OptionValues { letters: "", names: &[] };
const MYSQL: OptionValues =
    OptionValues { letters: "uhPDSe", names: &["--user", "--host", "--port", "--database", "--socket", "--execute"] };

/// Options of `jq` and the number of their values.
const JQ: [(&str, usize); 8] = [
    ("--arg", 2),
    ("--argjson", 2),
    ("--slurpfile", 2),
    ("--rawfile", 2),
    ("--indent", 1),
    ("-L", 1),
    ("-f", 1),
    ("--from-file", 1),
];
/// Options of `sqlite3` and `duckdb` with a value that is no SQL.
const SQLITE: [&str; 7] = ["-separator", "-newline", "-nullvalue", "-init", "-vfs", "-mmap", "-maxsize"];
/// Commands of `tmux` that run a text, also under their short names.
const TMUX_COMMANDS: [&str; 15] = [
    "new",
    "new-session",
    "neww",
    "new-window",
    "splitw",
    "split-window",
    "respawnp",
    "respawn-pane",
    "respawn-window",
    "run",
    "run-shell",
    "if-shell",
    "pipe-pane",
    "popup",
    "send-keys",
];
/// The file names of the standard input.
const INPUT_FILES: [&str; 3] = ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"];

/// Returns the program that the next word, which begins with `current`, becomes a part of. `own` begins with the name of
/// the program that runs.
pub(super) fn program_of_operand(own: &[String], current: &str) -> Option<NestedProgram> {
    let (name, rest) = own.split_first()?;
    let next = |values: &OptionValues| next_word(rest, current, values);
    let refused = |is_code: bool, program: NestedProgram| is_code.then_some(program);
    match base_name(name) {
        "flock" => refused(matches!(rest.last().map(String::as_str), Some("-c" | "--command")), NestedProgram::Shell),
        "script" => refused(matches!(next(&SCRIPT), NextWord::Value("c" | "--command")), NestedProgram::Shell),
        "watch" => refused(!rest.iter().any(|word| is_exec(word)) && is_operand(&next(&WATCH)), NestedProgram::Shell),
        "parallel" => refused(is_operand(&next(&PARALLEL)) && !follows_arguments(rest), NestedProgram::Shell),
        "entr" => {
            let by_shell = rest.iter().any(|word| word.starts_with('-') && word.contains('s'));
            refused(by_shell && next(&ENTR) == NextWord::Operand(0), NestedProgram::Shell)
        }
        "tmux" => {
            let runs = rest.iter().any(|word| TMUX_COMMANDS.contains(&word.as_str()));
            refused(runs && is_operand(&next(&TMUX)), NestedProgram::Shell)
        }
        "git" => refused(is_git_command(rest, current), NestedProgram::Shell),
        "awk" | "gawk" | "mawk" | "nawk" => {
            refused(is_program(rest, &next(&AWK), &["e", "--source"]), NestedProgram::Script)
        }
        "sed" | "gsed" => refused(is_program(rest, &next(&SED), &["e", "--expression"]), NestedProgram::Script),
        "pwsh" | "powershell" | "pwsh.exe" | "powershell.exe" => refused(is_powershell(rest), NestedProgram::Script),
        "jq" | "gojq" | "jaq" => refused(is_jq_filter(rest), NestedProgram::Interpreter),
        "sqlite3" | "duckdb" => refused(is_sqlite_statement(rest), NestedProgram::Interpreter),
        "mysql" | "mariadb" => {
            refused(matches!(next(&MYSQL), NextWord::Value("e" | "--execute")), NestedProgram::Interpreter)
        }
        "xargs" => program_of_argument(&rest[operands_start(rest, &XARGS)..], current),
        "find" => {
            let runs = |word: &String| matches!(word.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir");
            rest.iter().rposition(runs).and_then(|at| program_of_argument(&rest[at + 1..], current))
        }
        _ => None,
    }
}

/// Returns the program that one of these commands reads from its standard input.
pub(super) fn program_of_operand_input(own: &[String]) -> Option<NestedProgram> {
    let (name, rest) = own.split_first()?;
    let has_file = |option: &str| rest.iter().any(|word| word == option);
    match base_name(name) {
        "source" | "." => rest.first().is_some_and(|file| is_input_file(file)).then_some(NestedProgram::Eval),
        "at" | "batch" => (!["-f", "-l", "-r", "-d", "-c"].into_iter().any(has_file)).then_some(NestedProgram::Shell),
        "crontab" => rest.last().is_some_and(|file| file == "-" || is_input_file(file)).then_some(NestedProgram::Shell),
        "parallel" => {
            let command = operands_start(rest, &PARALLEL);
            (command >= rest.len()).then_some(NestedProgram::Shell)
        }
        "xargs" => xargs_program(rest),
        _ => None,
    }
}

/// Returns true if the file is the standard input.
pub(super) fn is_input_file(file: &str) -> bool {
    INPUT_FILES.contains(&file)
}

/// Returns the program that the words which `xargs` reads become a part of: instead of the text of its `-I`, or after
/// its own words.
fn xargs_program(words: &[String]) -> Option<NestedProgram> {
    let start = operands_start(words, &XARGS);
    let (options, command) = words.split_at(start.min(words.len()));
    let attached = |word: &String| {
        ["-I", "-i", "--replace="].iter().find_map(|option| word.strip_prefix(option)).map(str::to_owned)
    };
    let replaced = options.iter().enumerate().find_map(|(at, word)| match word.as_str() {
        "-I" => options.get(at + 1).cloned(),
        "-i" | "--replace" => Some("{}".to_owned()),
        _ => attached(word),
    });
    let Some(replaced) = replaced.filter(|text| !text.is_empty()) else {
        return program_of_argument(command, "");
    };
    command.iter().enumerate().find_map(|(at, word)| {
        let (before, _) = word.split_once(&replaced)?;
        program_of_argument(own_words(&command[..at]), before)
    })
}

fn is_operand(next: &NextWord) -> bool {
    matches!(next, NextWord::Operand(_))
}

/// Returns true if the next word is the program: the value of one of these options, or the first operand without them.
fn is_program(rest: &[String], next: &NextWord, options: &[&str]) -> bool {
    let names_program = |word: &String| {
        let takes = |letter: &str| value_position(word, letter).is_some();
        takes("f") || takes("e") || ["--file", "--expression", "--source"].iter().any(|name| word.starts_with(name))
    };
    match next {
        NextWord::Value(option) => options.contains(option),
        NextWord::Operand(0) => !rest.iter().any(names_program),
        NextWord::Operand(_) => false,
    }
}

/// Returns true for the option of `watch` that runs the words without a shell.
fn is_exec(word: &str) -> bool {
    word == "--exec" || word.starts_with('-') && !word.starts_with("--") && word.contains('x')
}

/// Returns true after the words of `parallel` that begin a list of arguments, which it quotes.
fn follows_arguments(rest: &[String]) -> bool {
    let lists = |word: &String| word.starts_with(":::");
    let command = operands_start(rest, &PARALLEL);
    rest.iter().position(lists).is_some_and(|at| at > command)
}

/// Returns true if the word of `git` is a command: `rebase -x`, `submodule foreach`, `filter-branch --…-filter`.
fn is_git_command(rest: &[String], current: &str) -> bool {
    let has = |name: &str| rest.iter().any(|word| word == name);
    let last = rest.last().map(String::as_str).unwrap_or_default();
    let is_exec = matches!(last, "-x" | "--exec") || current.starts_with("--exec=") || current.starts_with("-x");
    has("rebase") && is_exec
        || has("submodule") && has("foreach")
        || has("filter-branch") && last.starts_with("--") && last.ends_with("-filter")
        || last == "-c" && current.starts_with("alias.")
}

/// Returns true after `-Command` of PowerShell and its abbreviations: all words that follow are code.
fn is_powershell(rest: &[String]) -> bool {
    let is_command = |word: &String| {
        let word = word.to_ascii_lowercase();
        let name = word.strip_prefix(['-', '/']).unwrap_or_default().to_owned();
        !name.is_empty() && ("commandwithargs".starts_with(&name) || "encodedcommand".starts_with(&name))
    };
    rest.iter().any(is_command)
}

/// Returns true if the next word is the filter of `jq`.
fn is_jq_filter(rest: &[String]) -> bool {
    let (mut at, mut has_filter) = (0, false);
    while let Some(word) = rest.get(at) {
        let values = JQ.iter().find(|(option, _)| option == word).map_or(0, |(_, values)| *values);
        has_filter |= matches!(word.as_str(), "-f" | "--from-file") || !word.starts_with('-');
        at += 1 + values;
    }
    !has_filter && at == rest.len()
}

/// Returns true if the next word is a statement: after the file, or the value of `-c` or `-cmd`.
fn is_sqlite_statement(rest: &[String]) -> bool {
    let last = rest.last().map(String::as_str).unwrap_or_default();
    if matches!(last, "-c" | "-s" | "-cmd" | "--cmd") {
        return true;
    }
    let (mut at, mut operands) = (0, 0);
    while let Some(word) = rest.get(at) {
        let is_option = word.starts_with('-');
        operands += usize::from(!is_option);
        at += 1 + usize::from(is_option && SQLITE.contains(&word.as_str()));
    }
    operands > 0 && at == rest.len()
}

/// Returns the position of the first operand.
fn operands_start(rest: &[String], values: &OptionValues) -> usize {
    let mut at = 0;
    while let Some(word) = rest.get(at).filter(|word| word.len() > 1 && word.starts_with('-')) {
        at += 1 + usize::from(option_value(word, values).is_some());
        if word == "--" {
            break;
        }
    }
    at.min(rest.len())
}

/// Returns the option whose value is the word after this one.
fn option_value<'w>(word: &'w str, values: &OptionValues) -> Option<&'w str> {
    if values.names.contains(&word) {
        return Some(word);
    }
    let end = value_position(word, values.letters).filter(|end| *end == word.len())?;
    word.get(end - 1..)
}

fn next_word<'w>(rest: &'w [String], current: &'w str, values: &OptionValues) -> NextWord<'w> {
    let (mut at, mut operands, mut ended) = (0, 0, false);
    while let Some(word) = rest.get(at) {
        at += 1;
        if ended || !word.starts_with('-') || word.len() == 1 {
            operands += 1;
        } else if word == "--" {
            ended = true;
        } else if let Some(option) = option_value(word, values) {
            if at == rest.len() {
                return NextWord::Value(option);
            }
            at += 1;
        }
    }
    if !ended && current.starts_with('-') {
        if let Some((name, _)) = current.split_once('=').filter(|(name, _)| values.names.contains(name)) {
            return NextWord::Value(name);
        }
        if let Some(end) = value_position(current, values.letters) {
            return NextWord::Value(&current[end - 1..end]);
        }
    }
    NextWord::Operand(operands)
}
