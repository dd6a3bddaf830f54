// Small definitions to begin with, one of each dialect. A browser test holds that they are valid.

export const SAMPLES: { dialect: string; shows: string; text: string }[] = [
  {
    dialect: "Loom",
    shows: "a loop until its condition is met",
    text: `{
  "name": "first-loop",
  "parameters": { "most": { "type": "Int", "defaultValue": 10 } },
  "actions": {
    "prepare": {
      "type": "InitializeVariable",
      "inputs": { "variables": [{ "name": "counted", "type": "integer", "value": 0 }] }
    },
    "count": {
      "type": "until",
      "condition": "@greaterOrEquals(variables('counted'), parameters('most'))",
      "actions": {
        "add": { "type": "IncrementVariable", "inputs": { "name": "counted", "value": 1 } }
      },
      "limit": { "count": 100, "timeout": "PT10M" },
      "delay": { "interval": { "count": 1, "unit": "second" } },
      "runAfter": { "prepare": ["Succeeded"] }
    }
  },
  "outputs": { "counted": { "type": "Int", "value": "@variables('counted')" } }
}
`,
  },
  {
    dialect: "NoETL",
    shows: "a list, four items at a time",
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
    shows: "two agents, again until one is content",
    text: `name: first-agents
description: A draft is written and looked at until the reader is content.

agents:
  writer:
    description: "Writes short, clear texts."
  reader:
    description: "Says what is missing, or OK."

steps:
  - id: draft
    loop:
      maxIterations: 5
      until: "steps.read.content.contains('OK')"
      steps:
        - id: write
          agent: writer
          instructions: "Write or mend the draft."
        - id: read
          agent: reader
          dependsOn: [write]
          instructions: "Read the draft. Say OK if nothing is missing."
`,
  },
];
