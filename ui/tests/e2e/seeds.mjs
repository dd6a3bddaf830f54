// Definitions that the browser tests run. They only compute and wait: a server reaches nothing by itself.

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
    after: { type: "Compose", inputs: { said: HOSTILE }, runAfter: { rows: ["Succeeded"] } },
    alarm: { type: "Compose", inputs: "failed", runAfter: { rows: ["Failed"] } },
  }, { parameters: { who: { type: "String", defaultValue: "nobody" }, times: { type: "Int", defaultValue: 3 } }, outputs: { said: { type: "Object", value: "@outputs('after')" } } }),

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

  // Every third turn fails: more than one page of them, and of the others.
  uneven: plain("uneven", {
    thirds: {
      type: "foreach",
      foreach: "@range(0, 320)",
      operationOptions: "Sequential",
      actions: { part: { type: "Compose", inputs: "@div(1, mod(item(), 3))" } },
    },
  }),

  // Two of the turns are held until somebody says that they may go on: 5 fails then, 9 goes well. Of the rest each seventh fails.
  held: plain("held", {
    turns: {
      type: "foreach",
      foreach: "@range(0, 90)",
      runtimeConfiguration: { concurrency: { repetitions: 3 } },
      actions: {
        ...Object.fromEntries([5, 9].map((turn) => [`held${turn}`, { type: "If", expression: `@equals(item(), ${turn})`, actions: { [`stay${turn}`]: { type: "wait", inputs: { signal: { name: `go${turn}` } } } } }])),
        part: { type: "Compose", inputs: "@div(1, if(equals(item(), 5), 0, mod(item(), 7)))", runAfter: { held5: ["Succeeded"], held9: ["Succeeded"] } },
      },
    },
  }),

  // Turns side by side end in another order than they begin: the first is the last.
  beside: plain("beside", {
    visit: {
      type: "foreach",
      foreach: [3, 1, 1, 1, 1, 1],
      runtimeConfiguration: { concurrency: { repetitions: 3 } },
      actions: { stay: { type: "wait", inputs: { interval: { count: "@item()", unit: "second" } } } },
    },
  }),

  // Agents, and turns that are written with dots.
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

  // A server does not run programs by itself: it waits for a worker.
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

/** What models say to the agents of `drafts`. */
export const SCRIPT = `model:
  - { when: { step: "cycle.*.write" }, reply: "A draft.", usage: { inputTokens: 1000, outputTokens: 200 } }
  - when: { step: "cycle.0.judge" }
    calls: [{ name: submit_result, arguments: { done: false, reason: "It has no end." } }]
    usage: { inputTokens: 400, outputTokens: 25 }
  - when: { step: "cycle.1.judge" }
    calls: [{ name: submit_result, arguments: { done: true, reason: "It is good." } }]
    usage: { inputTokens: 400, outputTokens: 25 }
`;

export { HOSTILE };
