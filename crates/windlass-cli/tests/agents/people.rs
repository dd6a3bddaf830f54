//! User interaction with agents: permissions for tools, and messages to steps.

use serde_json::{Value, json};

use crate::support::TestDir;
use crate::world::{AgentFixture, ModelAccess, example};

/// Command-line flags and their effect: lines that were written, and the number of denied calls.
const PERMISSIONS: [(&[&str], &[&str], usize); 7] = [
    (&[], &[], 4),
    (&["--yolo"], &["auth", "billing"], 0),
    (&["--sandbox"], &[], 4),
    (&["--allow", "bash"], &["auth", "billing"], 0),
    (&["--sandbox", "--allow", "bash"], &["auth", "billing"], 0),
    (&["--yolo", "--deny", "bash"], &[], 4),
    (&["--allow", "bash", "--deny", "bash(sort *)"], &["auth", "billing"], 2),
];

#[test]
fn agents_do_what_they_are_permitted_to() {
    for (words, lines, refused) in PERMISSIONS {
        let world = AgentFixture::new(&example("deploy-each.script.yaml"), ModelAccess::Scripted);
        let done = world.run_with_permissions(&example("deploy-each.yaml"), &[&["--id", "one", "-q"], words].concat());
        // A denial is a text for the model, which continues.
        assert_eq!(done.exits(0).json()["output"]["status"], "completed", "{words:?}");
        assert_eq!(world.lines("deployed.txt"), lines, "{words:?}");
        let events = world.events("one");
        let decisions =
            events.iter().filter(|event| event["type"] == "agent.permission" && event["decision"] == "denied");
        assert_eq!(decisions.count(), refused, "{words:?}");
    }
}

/// Permissions were granted to a process: the command that resumes the run must repeat them.
#[test]
fn permissions_end_with_the_process() {
    let world = AgentFixture::new(&example("deploy-each.script.yaml"), ModelAccess::OpenAi);
    let killed = world.run(&example("deploy-each.yaml"), &["--id", "one", "-q", "--crash-at", "after:2"]);
    assert_eq!(killed.code, None);
    let done = world.windlass(&["resume", "one", "--json", "-q"]);
    assert_eq!(done.exits(0).json()["output"]["status"], "completed");
    assert!(world.lines("deployed.txt").is_empty());
}

const SCRIPT: &str = r#"
mocks:
  - { when: { step: one }, text: "said" }
  - { when: { step: two, contains: "[user]: hurry" }, text: "I hurry." }
  - { when: { role: coordinator }, text: "Noted." }
"#;

/// Sends a message from outside to a step that has not started, while no process runs the workflow.
#[test]
fn a_user_can_send_messages_to_steps() {
    let place = TestDir::new();
    place.write("mail.script.yaml", SCRIPT);
    let steps = "steps:\n  - {id: one, instructions: 'One.'}\n  - {id: two, dependsOn: [one], instructions: 'Two.'}\n";
    place.write("mail.yaml", format!("name: mail\nx-windlass: {{coordinator: {{mode: on}}}}\n{steps}"));
    let words =
        ["run", "mail.yaml", "-q", "--id", "one", "--model", "scripted:mail.script.yaml", "--crash-at", "after:1"];
    assert_eq!(place.windlass(&words).code, None);
    for (to, text) in [("unknown", "hallo"), ("two", "hurry")] {
        let mail = json!({"to": to, "text": text}).to_string();
        place.windlass(&["signal", "one", "mail", "--data", &mail]).exits(0);
    }
    assert_eq!(place.json(&["resume", "one", "--json", "-q"])["output"]["steps"]["two"]["content"], "I hurry.");
    let output = place.windlass(&["events", "one", "--json"]).out;
    let events: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).expect("an event")).collect();
    let found = |kind: &str, to: &str| events.iter().any(|event| event["type"] == *kind && event["to"] == *to);
    assert!(found("message.dropped", "unknown") && found("message.delivered", "two"), "{events:#?}");
}
