//! Non-fatal problems are reported while they happen and at the end.

use rustix::process::Signal;

use crate::support::{CommandOutput, TestDir};

const JUDGE: &str = "agents:\n  judge: {description: decides, resultSchema: {type: object, required: [done], properties: \
                     {done: {type: boolean}, reason: {type: string}}}}\n";

/// Name, rest of the workflow, script, further arguments, exit code, and texts that the output must contain.
type Case = (&'static str, String, &'static str, &'static [&'static str], i32, &'static [&'static str]);

fn cases() -> [Case; 10] {
    let repeat = |max_iterations: u32| {
        let each = format!("loop: {{maxIterations: {max_iterations}, untilAgent: judge}}");
        format!("{JUDGE}steps: [{{id: work, instructions: 'Work.', maxRetries: 0, {each}}}]")
    };
    let alone = |more: &str| format!("steps: [{{id: one, instructions: 'One.'{more}}}]");
    [
        (
            "cut-off",
            alone(""),
            "[{text: half, stop: length}]",
            &[],
            1,
            &[
                "the model's reply was cut off at its maximum length\n",
                "the model's answer was cut off at its maximum length, and 3 continuations did not complete it",
                "accept: [length]",
            ],
        ),
        (
            "cut-off-accepted",
            alone(", x-windlass: {accept: [length]}"),
            "[{text: half, stop: length}]",
            &[],
            0,
            &["stop: length"],
        ),
        (
            "coordinator",
            format!("x-windlass: {{coordinator: {{mode: on}}}}\n{}", alone("")),
            "[{when: {step: one}, text: ok}]",
            &[],
            0,
            &["the coordinator failed: ", "warning: the coordinator failed, and the steps continued without it: "],
        ),
        (
            "coordinator-refuses",
            format!("x-windlass: {{coordinator: {{mode: on}}}}\n{}", alone("")),
            "[{when: {step: one}, text: ok}, {when: {role: coordinator}, text: I will not., stop: refusal}]",
            &[],
            0,
            &[
                "the coordinator failed: the model refuses to answer: I will not.",
                "warning: the coordinator failed, and the steps continued without it: ",
            ],
        ),
        (
            "no-verdict",
            repeat(2),
            "[{when: {role: step}, text: ok}, {when: {step: 'work[0].judge'}, status: 500}, \
             {when: {role: judge}, calls: [{name: submit_result, arguments: {done: true, reason: 'it is fine'}}]}]",
            &[],
            0,
            &[
                "work started (loop)\n",
                "work: the judge gave no verdict: ",
                "work is judged done: it is fine",
                "warning: work: 1 of 2 iterations had no verdict",
            ],
        ),
        (
            "no-rule-for-the-judge",
            repeat(5),
            "[{when: {role: step}, text: ok}]",
            &[],
            1,
            &["[MockUnmatched]", "where: work[0].judge"],
        ),
        (
            "refused",
            alone(""),
            "[{when: {turn: 1}, calls: [{name: bash, arguments: {command: ls}}, {name: bash, arguments: {command: pwd}}]}, \
             {when: {turn: 2}, text: ok}]",
            &[],
            0,
            &[
                "one.act[0]: permission denied: tool `bash` needs approval",
                "warning: 2 tool calls were denied: tool `bash` needs approval, and this run has no terminal; pass \
                 --allow bash or --yolo",
            ],
        ),
        (
            "denied",
            alone(""),
            "[{when: {turn: 1}, calls: [{name: bash, arguments: {command: ls}}]}, {when: {turn: 2}, text: ok}]",
            &["--yolo", "--deny", "bash"],
            0,
            &["warning: 1 tool call was denied: tool `bash` is denied by --deny"],
        ),
        (
            "condition",
            alone(", condition: 'false'"),
            "[{text: ok}]",
            &[],
            0,
            &["one skipped: its condition is not met"],
        ),
        (
            "missing",
            "steps:\n  - {id: one, instructions: 'One.'}\n  - {id: two, dependsOn: [one], instructions: 'Two.', \
             condition: 'steps.one.result.a_field.with_a_rather_long_name.which_is_not_there.at_all == 1'}"
                .to_owned(),
            "[{text: ok}]",
            &[],
            0,
            &[
                "two skipped: its condition needs",
                "skipped    its condition needs",
                "`steps.one.result`, which is empty\n\n",
            ],
        ),
    ]
}

#[test]
fn non_fatal_problems_are_reported() {
    for (name, workflow, script, more, code, expected) in cases() {
        let place = TestDir::new();
        place.write("flow.yaml", format!("name: {name}\n{workflow}\n"));
        place.write("flow.script.yaml", format!("mocks: {script}\n"));
        let forced = ["run", "flow.yaml", "--virtual-time", "--model", "scripted:flow.script.yaml"];
        let mut command = place.command(&[&forced[..], more].concat());
        let command_output = crate::support::command_output(command.output().expect("the program starts"));
        command_output.exits(code);
        let output = both(&command_output);
        for part in expected {
            assert!(output.contains(part), "{name}: `{part}` is not in\n{output}");
        }
    }
}

fn both(done: &CommandOutput) -> String {
    format!("{}{}", done.err, done.out)
}

/// The permissions were granted to the process that has ended.
#[test]
fn the_resume_hint_includes_the_permissions() {
    let place = TestDir::new();
    place.write("flow.yaml", "name: slow\nsteps: [{id: one, instructions: 'One.'}]\n");
    place.write("flow.script.yaml", "mocks: [{fault: hang}]\n");
    let words = ["--sandbox", "--allow", "bash(git *)", "--deny", "write"];
    let run = ["run", "flow.yaml", "--id", "one", "--model", "scripted:flow.script.yaml"];
    let mut running = place.start(&[&run[..], &words].concat());
    running.line_with("run one");
    running.signal(Signal::INT);
    let done = running.finish();
    assert!(done.err.contains("resume one --sandbox --allow 'bash(git *)' --deny write"), "{}", both(&done));
}

#[test]
fn tools_of_agents_are_listed() {
    let place = TestDir::new();
    place.write("windlass.toml", "[mcp.tracker]\ncommand = \"no-such-program\"\n");
    let listed = place.windlass(&["tools"]);
    listed.exits(0).has("tools that agents of a workflow may call").has("  tracker__*").has("  grep");
    assert!(!listed.out.contains("agent_model"), "{}", listed.out);
    place.windlass(&["tools", "bash"]).exits(0).has("bash as a tool of agents").has("command  string, required");
}

#[test]
fn the_mock_model_prints_its_base_urls() {
    let place = TestDir::new();
    place.write("flow.script.yaml", "mocks: [{text: ok}]\n");
    let mut service = place.start(&["mock", "flow.script.yaml", "--port", "0"]);
    let address = service.line_with("listening on ").replace("listening on ", "");
    service.signal(Signal::INT);
    service.finish().has(&format!("OPENAI_BASE_URL={address}/v1")).has(&format!("ANTHROPIC_BASE_URL={address}/v1"));
}

/// Parallel iterations end in any order.
#[test]
fn the_reason_a_loop_ended_is_printed_for_the_loop() {
    let place = TestDir::new();
    place.write("flow.yaml", "name: each\nsteps: [{id: all, instructions: 'All.', loop: {forEach: [1, 2]}}]\n");
    place.write("flow.script.yaml", "mocks: [{when: {step: 'all[0]'}, text: late, delay_ms: 50}, {text: ok}]\n");
    place.windlass(&["run", "flow.yaml", "-q", "--id", "one", "--model", "scripted:flow.script.yaml"]).exits(0);
    let output = place.windlass(&["iterations", "one", "all"]).out;
    assert_eq!(output.lines().last(), Some("ended by: items"), "{output}");
}
