// Sample definitions, one per dialect. A browser test checks that they are valid.

export const SAMPLES: { dialect: string; shows: string; text: string }[] = [
  {
    dialect: "Loom",
    shows: "a loop that runs until its condition is met",
    text: `{
  "name": "first-loop",
  "parameters": { "max": { "type": "Int", "defaultValue": 10 } },
  "actions": {
    "prepare": {
      "type": "InitializeVariable",
      "inputs": { "variables": [{ "name": "counter", "type": "integer", "value": 0 }] }
    },
    "count": {
      "type": "until",
      "condition": "@greaterOrEquals(variables('counter'), parameters('max'))",
      "actions": {
        "add": { "type": "IncrementVariable", "inputs": { "name": "counter", "value": 1 } }
      },
      "limit": { "count": 100, "timeout": "PT10M" },
      "delay": { "interval": { "count": 1, "unit": "second" } },
      "runAfter": { "prepare": ["Succeeded"] }
    }
  },
  "outputs": { "counter": { "type": "Int", "value": "@variables('counter')" } }
}
`,
  },
  {
    dialect: "NoETL",
    shows: "a loop over a list, max. four items in parallel",
    text: `apiVersion: noetl.io/v2
kind: Playbook
metadata:
  name: first-list
workload:
  cities: [Porto, Bergen, Riga, Gdynia, Cork]
workflow:
  - step: visit
    loop:
      spec: { mode: parallel, max_in_flight: 4 }
      in: "{{ workload.cities }}"
      iterator: city
    tool:
      kind: noop
      result: { city: "{{ iter.city }}", letters: "{{ iter.city | length }}" }
`,
  },
  {
    dialect: "zenflow",
    shows: "two agents, repeated until one approves",
    text: `name: first-agents
description: One agent writes a draft, another reviews it, until the review passes.

agents:
  writer:
    description: "Writes short, clear texts."
  reviewer:
    description: "Lists what is missing, or answers OK."

steps:
  - id: draft
    loop:
      maxIterations: 5
      until: "steps.review.content.contains('OK')"
      steps:
        - id: write
          agent: writer
          instructions: "Write or revise the draft."
        - id: review
          agent: reviewer
          dependsOn: [write]
          instructions: "Review the draft. Answer OK if nothing is missing."
`,
  },
];
