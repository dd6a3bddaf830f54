//! Kills the child processes of tools if this program ends without doing so, for instance when it is killed.
//!
//! A small shell program, the reaper, receives a line for every process group that starts and ends. Its input ends
//! with this program, for whatever reason; then it kills the remaining groups.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::Pid;

/// Protocol: `?` a group is about to start, `+` it has started with this id, `!` it has not, `-` the group has ended.
///
/// If this program is killed between `?` and `+`, the id of the group is unknown. The reaper finds its processes by
/// the mark in their environment. The mark may appear a moment after the kill, when the child has executed its
/// program.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
groups=' '
coming=0
while read -r sign group; do
    case $sign in
        \?) coming=$((coming + 1)) ;;
        !) coming=$((coming - 1)) ;;
        +) coming=$((coming - 1)); groups="$groups$group " ;;
        -) case $groups in *" $group "*) groups="${groups%% $group *} ${groups#* $group }" ;; esac ;;
    esac
done
for group in $groups; do
    kill -KILL "-$group"
done
[ "$coming" -gt 0 ] || exit 0
for round in 1 2 3 4 5; do
    for process in /proc/[0-9]*; do
        if tr '\0' '\n' < "$process/environ" | grep -qx "$1"; then
            kill -KILL "${process#/proc/}"
        fi
    done
    sleep 0.1
done
"#;

/// The environment variable that marks all programs started by this one.
pub(super) const MARK_VARIABLE: &str = "WINDLASS_PROCESS_MARK";

/// Returns the value of the mark, which is unique per process.
pub(super) fn mark_value() -> &'static str {
    static OWN: OnceLock<String> = OnceLock::new();
    OWN.get_or_init(|| {
        let begun = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        format!("{}-{begun:x}", std::process::id())
    })
}

/// The reaper of this program, started with the first group.
static REAPER: Mutex<Option<Child>> = Mutex::new(None);

/// Announces that a program is about to start.
pub(super) fn announce_start() {
    let mut reaper = REAPER.lock().unwrap_or_else(PoisonError::into_inner);
    if send_line(&mut reaper, "?") {
        return;
    }
    if let Some(mut gone) = reaper.take() {
        let _ = gone.kill().and_then(|()| gone.wait());
    }
    // Without a shell on this machine there is no reaper; nothing else depends on it.
    *reaper = start().ok();
    send_line(&mut reaper, "?");
}

/// Reports the group of the started program, or `None` if it did not start.
pub(super) fn report_started(group: Option<Pid>) {
    let line = group.map_or("!".to_owned(), |group| format!("+ {}", group.as_raw_nonzero()));
    send_line(&mut REAPER.lock().unwrap_or_else(PoisonError::into_inner), &line);
}

pub(super) fn report_ended(group: Pid) {
    let line = format!("- {}", group.as_raw_nonzero());
    send_line(&mut REAPER.lock().unwrap_or_else(PoisonError::into_inner), &line);
}

/// Returns true if the line was sent to the reaper.
fn send_line(reaper: &mut Option<Child>, line: &str) -> bool {
    let input = reaper.as_mut().and_then(|reaper| reaper.stdin.as_mut());
    input.is_some_and(|input| input.write_all(format!("{line}\n").as_bytes()).is_ok())
}

fn start() -> std::io::Result<Child> {
    let mut command = Command::new("/bin/sh");
    // A separate group, so that signals to this program's group do not reach the reaper.
    let mark = format!("{MARK_VARIABLE}={}", mark_value());
    command.args(["-c", SCRIPT, "reaper", &mark]).env_clear().current_dir("/").process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}
