import type { Json, Run } from "../../api";
import { Status } from "../../components/common";
import { JsonBox } from "../../components/json";
import { brief } from "../../lib/format";
import { stopOf, stopText } from "../../lib/stop";

export function RunData({ run }: { run: Run }) {
  const steps = Object.entries(run.steps ?? {});
  return (
    <div className="stack scrolls">
      <section className="stack tight">
        <h2>Input</h2>
        <JsonBox value={run.input} />
      </section>
      <section className="stack tight">
        <h2>Output</h2>
        {run.output === undefined || run.output === null ? <p className="faint">{run.error ? "None: the run failed." : "None yet."}</p> : <JsonBox value={run.output} />}
      </section>
      {run.reply ? (
        <section className="stack tight">
          <h2>Reply</h2>
          <p className="muted small">Sent {run.reply.success ? "" : "as a failure "}before the run ended.</p>
          <JsonBox value={run.reply.value} />
        </section>
      ) : null}
      {run.usage ? (
        <section className="stack tight">
          <h2>Usage</h2>
          <JsonBox value={run.usage as Json} />
        </section>
      ) : null}
      {steps.length > 0 ? (
        <section className="stack tight">
          <h2>Steps</h2>
          <div className="panel">
            {steps.map(([name, step]) => (
              <details key={name} className="fold-row">
                <summary>
                  <Status status={step.status} />
                  <strong>{name}</strong>
                  <Stop output={step.output} />
                  <span className="faint mono small cut">{step.error ? step.error.message : brief(step.output, 160)}</span>
                </summary>
                <div className="fold-in">
                  <JsonBox value={(step.error ? { error: step.error as unknown as Json, output: step.output ?? null } : step.output) ?? null} />
                </div>
              </details>
            ))}
          </div>
        </section>
      ) : null}
    </div>
  );
}

/** Marks a step whose agent gave no complete answer. */
function Stop({ output }: { output: Json | undefined | null }) {
  const stop = stopOf(output);
  return stop === null ? null : <span className="tag" title={`The answer is ${stopText(stop)}.`}>{stop}</span>;
}
