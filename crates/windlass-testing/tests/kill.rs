//! kill -9 at commit boundaries and at random moments; afterwards the run must end as if nothing had happened.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_testing::crash::{SeededRng, Trial, parse_result, run_command, spawn_command};
use windlass_testing::test_service::TestService;

const DEFINITIONS: [&str; 4] = ["until.json", "foreach.json", "nested.json", "retry.json"];

/// Minimum number of kills by the end: a test that kills no process proves nothing.
const MIN_KILLS: u64 = 200;

struct Reference {
    result: Value,
    effects: BTreeMap<(String, String), u64>,
}

fn reference(service: &TestService, definition: &str, number: u64) -> Reference {
    let trial = Trial::new(service, definition, number);
    let output = run_command(trial.run(&[]));
    let result = parse_result(&output);
    assert_eq!(result["status"], "succeeded", "{definition}: {result:#}");
    let effects = trial.effects();
    assert!(
        effects.values().all(|times| *times == 1),
        "{definition}: an effect ran twice without a crash: {effects:?}"
    );
    Reference { result, effects }
}

/// Asserts the same result, no lost effect, none under another key, and none repeated more often than it was
/// interrupted.
fn check(what: &str, reference: &Reference, trial: &Trial<'_>, result: &Value, kills: u64) {
    assert_eq!(*result, reference.result, "{what}: another result");
    let effects = trial.effects();
    let keys = |effects: &BTreeMap<(String, String), u64>| effects.keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&effects), keys(&reference.effects), "{what}: other effects");
    let max = effects.values().copied().max().unwrap_or(0);
    assert!(max <= 1 + kills, "{what}: an effect ran {max} times after {kills} kills");
}

fn was_killed(output: &std::process::Output) -> bool {
    use std::os::unix::process::ExitStatusExt;
    output.status.signal() == Some(9)
}

#[test]
fn runs_survive_kills_at_every_commit_and_at_random_moments() {
    let service = TestService::start().expect("the service starts");
    let (mut number, mut kills) = (0, 0);
    for definition in DEFINITIONS {
        let reference = reference(&service, definition, number);
        number += 1;
        kills += kill_at_every_commit(&service, definition, &reference, &mut number);
        kills += kill_at_random_moments(&service, definition, &reference, &mut number);
    }
    println!("{kills} kills survived");
    assert!(kills >= MIN_KILLS, "only {kills} kills");
}

/// Kills before and after each commit of the run, and once more during the resume.
fn kill_at_every_commit(service: &TestService, definition: &str, reference: &Reference, number: &mut u64) -> u64 {
    let mut kills = 0;
    for moment in ["before", "after"] {
        for commit in 1.. {
            let trial = Trial::new(service, definition, *number);
            *number += 1;
            let point = format!("{moment}:{commit}");
            if !was_killed(&run_command(trial.run(&["--crash-at", &point]))) {
                break;
            }
            let again = run_command(trial.resume(&["--crash-at", &format!("{moment}:2")]));
            let killed = 1 + u64::from(was_killed(&again));
            let result = trial.run_to_end();
            check(&format!("{definition} killed {point}"), reference, &trial, &result, killed);
            kills += killed;
        }
    }
    kills
}

/// Returns the multiplier of the number of trials: nightly runs kill more often.
fn factor() -> u64 {
    std::env::var("WINDLASS_TEST_FACTOR").ok().and_then(|factor| factor.parse().ok()).unwrap_or(1)
}

/// Kills a random delay after the service has received a random number of requests.
fn kill_at_random_moments(service: &TestService, definition: &str, reference: &Reference, number: &mut u64) -> u64 {
    let mut kills = 0;
    for seed in 0..12 * factor() {
        let mut random = SeededRng(seed ^ *number << 8);
        let trial = Trial::new(service, definition, *number);
        *number += 1;
        let mut killed = kill_at_random_request(service, spawn_command(trial.run(&[])), &mut random);
        if killed > 0 {
            killed += kill_at_random_request(service, spawn_command(trial.resume(&[])), &mut random);
        }
        let result = trial.run_to_end();
        check(&format!("{definition} at random, seed {seed}"), reference, &trial, &result, killed);
        kills += killed;
    }
    kills
}

/// Returns 1 if the process was killed, 0 if it ended first.
fn kill_at_random_request(service: &TestService, mut child: std::process::Child, random: &mut SeededRng) -> u64 {
    let target = service.requests() + random.below(12);
    let mut more = random.below(60_000);
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            use std::os::unix::process::ExitStatusExt;
            return u64::from(status.signal() == Some(9));
        }
        if service.requests() >= target {
            match more.checked_sub(100) {
                Some(left) => more = left,
                None => break,
            }
        }
        std::thread::yield_now();
    }
    let killed = child.kill().is_ok();
    let status = child.wait().expect("a child can be waited for");
    use std::os::unix::process::ExitStatusExt;
    u64::from(killed && status.signal() == Some(9))
}
