// All loops of a run and their progress.

import { useEffect, useState } from "react";
import { api, asProblem, type Loop, type Problem } from "../../api";
import { useLoad } from "../../api/hooks";
import { Button, Empty, Loading, ProblemBox } from "../../components/common";
import { ProgressStrip } from "../../components/strip";
import { count } from "../../lib/format";
import { endReasonText } from "../../lib/loops";
import { Link, to } from "../../lib/router";

const MAX_STRIPS = 30;

export default function LoopsTab({ id, round }: { id: string; round: number }) {
  const loops = useLoad(`loops ${id}`, (signal) => api.loops(id, { limit: 100 }, signal));
  const [more, setMore] = useState<Loop[]>([]);
  const [next, setNext] = useState<number | string | null | undefined>(undefined);
  const [problem, setProblem] = useState<Problem | null>(null);
  useEffect(() => {
    if (round > 0) loops.reload();
  }, [round, loops.reload]);
  if (!loops.value) return loops.problem ? <ProblemBox problem={loops.problem} onRetry={loops.reload} /> : <Loading lines={5} />;
  const first = loops.value.items;
  const known = new Set(first.map((loop) => loop.loop));
  const all = [...first, ...more.filter((loop) => !known.has(loop.loop))];
  const rest = next === undefined ? loops.value.next : next;
  if (all.length === 0) return <Empty title="No loop has started" />;
  const loadMore = () => {
    api.loops(id, { limit: 100, after: rest }).then(
      (page) => {
        setMore((old) => [...old, ...page.items]);
        setNext(page.next ?? null);
      },
      (error: unknown) => setProblem(asProblem(error)),
    );
  };
  return (
    <div className="scrolls stack">
      <div className="panel">
        {all.map((loop, at) => (
          <LoopRow key={loop.loop} id={id} loop={loop} withStrip={at < MAX_STRIPS} />
        ))}
      </div>
      {problem ? <ProblemBox problem={problem} /> : null}
      {rest !== null && rest !== undefined ? <Button onClick={loadMore}>More loops</Button> : null}
    </div>
  );
}

function LoopRow({ id, loop, withStrip }: { id: string; loop: Loop; withStrip: boolean }) {
  const iterations = loop.live?.ended ?? loop.iterations;
  const strip = useLoad(withStrip && iterations > 0 ? `strip ${id} ${loop.loop} ${iterations}` : null, (signal) => api.strip(id, loop.loop, 120, signal));
  const failed = loop.live?.failed ?? loop.failed;
  return (
    <Link className="loop-row" to={to(["runs", id, "loop"], { path: loop.loop })}>
      <span className="grow">
        <strong className="mono wrap">{loop.loop}</strong> {loop.kind ? <span className="tag">{loop.kind}</span> : null}
        <span className="row small muted number">
          {count(iterations)}{loop.live?.max_iterations ? ` of ${count(loop.live.max_iterations)}` : ""} iterations
          {failed ? <span className="bad-text">{count(failed)} failed</span> : null}
          <span>{loop.reason ? `ended by ${endReasonText(loop.reason)}` : "in progress"}</span>
        </span>
      </span>
      <span className="loop-strip">{strip.value ? <ProgressStrip strip={strip.value} max={loop.live?.max_iterations ?? null} open={!loop.reason} mini /> : null}</span>
    </Link>
  );
}
