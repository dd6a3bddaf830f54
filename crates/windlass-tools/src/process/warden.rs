//! Ends what tools have started when this program ends without doing so, killed for instance.
//!
//! A small shell program is told of every process group that begins and ends. Its input ends with this program, however
//! that comes about; then it kills the groups that are left.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::process::Pid;

const SCRIPT: &str = r#"
trap '' HUP INT TERM
groups=' '
while read -r sign group; do
    case $sign in
        +) groups="$groups$group " ;;
        -) case $groups in *" $group "*) groups="${groups%% $group *} ${groups#* $group }" ;; esac ;;
    esac
done
for group in $groups; do
    kill -KILL "-$group"
done
"#;

/// The warden of this program. It is started with the first group.
static WARDEN: Mutex<Option<Child>> = Mutex::new(None);

pub(super) fn begins(group: Pid) {
    let mut warden = WARDEN.lock().unwrap_or_else(PoisonError::into_inner);
    if tell(&mut warden, '+', group) {
        return;
    }
    if let Some(mut gone) = warden.take() {
        let _ = gone.kill().and_then(|()| gone.wait());
    }
    // Without a shell on this machine there is no warden; nothing else depends on it.
    *warden = start().ok();
    tell(&mut warden, '+', group);
}

pub(super) fn ends(group: Pid) {
    tell(&mut WARDEN.lock().unwrap_or_else(PoisonError::into_inner), '-', group);
}

/// Whether the warden could be told.
fn tell(warden: &mut Option<Child>, sign: char, group: Pid) -> bool {
    let line = format!("{sign} {}\n", group.as_raw_nonzero());
    let input = warden.as_mut().and_then(|warden| warden.stdin.as_mut());
    input.is_some_and(|input| input.write_all(line.as_bytes()).is_ok())
}

fn start() -> std::io::Result<Child> {
    let mut command = Command::new("/bin/sh");
    // A group of its own: what is sent to this program's group is not for the warden.
    command.args(["-c", SCRIPT]).env_clear().current_dir("/").process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}
