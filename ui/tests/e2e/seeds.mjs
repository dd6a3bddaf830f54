// Definitions that the browser tests run. They only compute and wait, because a server may not access the network by default.

const HOSTILE = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>";

const plain = (name, actions, more = {}) => JSON.stringify({ name, ...more, actions }, null, 2);

const counter = { type: "InitializeVariable", inputs: { variables: [{ name: "n", type: "integer", value: 0 }] } };
const add = { type: "IncrementVariable", inputs: { name: "n", value: 1 } };

export const DEFINITIONS = {
  rows: plain("rows", {
    prepare: counter,
    rows: {
      type: "until",
      condition: "@greaterOrEquals(variables('n'), 3)",
      actions: {
        add,
        columns: { type: "foreach", foreach: ["a", "b", "c"], operationOptions: "Sequential", actions: { keep: { type: "Compose", inputs: "@item()" } }, runAfter: { add: ["Succeeded"] } },
      },
      limit: { count: 10 },
      runAfter: { prepare: ["Succeeded"] },
    },
    after: { type: "Compose", inputs: { message: HOSTILE }, runAfter: { rows: ["Succeeded"] } },
    alarm: { type: "Compose", inputs: "failed", runAfter: { rows: ["Failed"] } },
  }, { parameters: { customer: { type: "String", defaultValue: "none" }, times: { type: "Int", defaultValue: 3 } }, outputs: { message: { type: "Object", value: "@outputs('after')" } } }),

  slow: plain("slow", {
    prepare: counter,
    ticking: {
      type: "until",
      condition: "@greaterOrEquals(variables('n'), 5000)",
      actions: { add },
      limit: { count: 5000, timeout: "PT2H" },
      delay: { interval: { count: 1, unit: "second" } },
      runAfter: { prepare: ["Succeeded"] },
    },
  }),

  many: plain("many", {
    prepare: counter,
    count: {
      type: "until",
      condition: "@greaterOrEquals(variables('n'), 100000)",
      actions: { add },
      limit: { count: 100000, timeout: "PT1H" },
      runAfter: { prepare: ["Succeeded"] },
    },
  }),

  flaky: plain("flaky", {
    numbers: {
      type: "foreach",
      foreach: ["1", "2", "x", "4", "y", "6"],
      operationOptions: "Sequential",
      actions: { read: { type: "Compose", inputs: "@int(item())" } },
    },
    sum: { type: "Compose", inputs: "done", runAfter: { numbers: ["Succeeded"] } },
  }),

  // Every third iteration fails: more than one page of failed iterations, and of others.
  uneven: plain("uneven", {
    thirds: {
      type: "foreach",
      foreach: "@range(0, 320)",
      operationOptions: "Sequential",
      actions: { part: { type: "Compose", inputs: "@div(1, mod(item(), 3))" } },
    },
  }),

  // Iterations 5 and 9 wait for a signal; then 5 fails and 9 succeeds. Of the rest every seventh fails.
  blocked: plain("blocked", {
    rounds: {
      type: "foreach",
      foreach: "@range(0, 90)",
      runtimeConfiguration: { concurrency: { repetitions: 3 } },
      actions: {
        ...Object.fromEntries([5, 9].map((item) => [`gate${item}`, { type: "If", expression: `@equals(item(), ${item})`, actions: { [`stay${item}`]: { type: "wait", inputs: { signal: { name: `go${item}` } } } } }])),
        part: { type: "Compose", inputs: "@div(1, if(equals(item(), 5), 0, mod(item(), 7)))", runAfter: { gate5: ["Succeeded"], gate9: ["Succeeded"] } },
      },
    },
  }),

  // Concurrent iterations end in another order than they start: the first ends last.
  parallel: plain("parallel", {
    visit: {
      type: "foreach",
      foreach: [3, 1, 1, 1, 1, 1],
      runtimeConfiguration: { concurrency: { repetitions: 3 } },
      actions: { stay: { type: "wait", inputs: { interval: { count: "@item()", unit: "second" } } } },
    },
  }),

  // Agents and a judge.
  drafts: `name: drafts
agents:
  writer: { description: "Writes." }
  judge:
    description: "Decides."
    resultSchema:
      type: object
      required: [done]
      properties: { done: { type: boolean }, reason: { type: string } }
steps:
  - id: cycle
    loop:
      maxIterations: 5
      untilAgent: judge
      steps:
        - { id: write, agent: writer, instructions: "Write." }
`,

  // The server does not execute programs itself by default; the task waits for a worker.
  pressed: `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: pressed }
workflow:
  - step: press
    tool: { kind: python, args: {}, code: "return 1" }
    next: [{ step: pack }]
  - step: pack
    tool: { kind: noop }
`,

  signalled: plain("signalled", { paid: { type: "wait", inputs: { signal: { name: "paid" } } } }),

  called: plain("called", { keep: { type: "Compose", inputs: "called" } }, { triggers: { call: { type: "request" } } }),

  payment: plain("payment", {
    ask: {
      type: "approval",
      inputs: {
        title: "Pay the invoice?",
        message: `It is ${HOSTILE} due.`,
        schema: {
          type: "object",
          required: ["decision", "centre"],
          properties: {
            decision: { type: "string", title: "Decision", enum: ["pay", "hold"] },
            centre: { type: "string", title: "Cost centre", maxLength: 8 },
            amount: { type: "number", title: "Amount", default: 12.5, minimum: 0 },
            tags: { type: "array", title: "Tags", items: { type: "string" } },
          },
        },
      },
      limit: { timeout: "PT1H" },
    },
  }),
};

/** The scripted model replies for the agents of `drafts`. */
export const SCRIPT = `mocks:
  - { when: { step: "cycle.*.write" }, text: "A draft.", usage: { input_tokens: 1000, output_tokens: 200 } }
  - when: { step: "cycle[0].judge" }
    calls: [{ name: submit_result, arguments: { done: false, reason: "It has no end." } }]
    usage: { input_tokens: 400, output_tokens: 25 }
  - when: { step: "cycle[1].judge" }
    calls: [{ name: submit_result, arguments: { done: true, reason: "It is good." } }]
    usage: { input_tokens: 400, output_tokens: 25 }
`;

export { HOSTILE };
