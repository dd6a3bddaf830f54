// JSON as a tree that is built only where it is open.

import { useContext, useState } from "react";
import { api, asProblem } from "../api";
import type { Json } from "../api/types";
import { brief, bytes, count } from "../lib/format";
import { Icon } from "./icons";
import { RunOf } from "./run-of";
import { Copy } from "./small";

const AT_ONCE = 100;
const STRING_MAX = 2000;

export function JsonBox({ value, open = 2 }: { value: Json | undefined; open?: number }) {
  if (value === undefined) return <p className="faint">nothing</p>;
  return (
    <div className="json-box">
      <Copy text={() => JSON.stringify(value, null, 2)} label="Copy as JSON" />
      <div className="json">
        <Value value={value} depth={0} open={open} />
      </div>
    </div>
  );
}

interface Reference {
  key: string;
  size?: number;
  checksum?: string;
  schema_hint?: string;
}

/** Large values travel as `{ref: {store, key, checksum, size, schema_hint}}`. */
export function reference(value: Json | undefined): Reference | null {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return null;
  const ref = value["ref"];
  if (Object.keys(value).length !== 1 || ref === null || typeof ref !== "object" || Array.isArray(ref)) return null;
  return typeof ref?.["key"] === "string" ? (ref as unknown as Reference) : null;
}

function Value({ value, depth, open }: { value: Json; depth: number; open: number }) {
  if (value === null) return <span className="word">null</span>;
  switch (typeof value) {
    case "string":
      return <Text value={value} />;
    case "number":
      return <span className="numeral">{String(value)}</span>;
    case "boolean":
      return <span className="word">{String(value)}</span>;
    default: {
      const stored = reference(value);
      if (stored) return <Stored value={stored} depth={depth} open={open} />;
      return <Branch value={value} depth={depth} open={open} />;
    }
  }
}

function Text({ value }: { value: string }) {
  const [whole, setWhole] = useState(false);
  if (value.length <= STRING_MAX || whole) return <span className="string">{JSON.stringify(value)}</span>;
  return (
    <>
      <span className="string">{JSON.stringify(value.slice(0, STRING_MAX))}</span>{" "}
      <button type="button" className="more" onClick={() => setWhole(true)}>
        … {count(value.length - STRING_MAX)} characters more
      </button>
    </>
  );
}

const LOADED_MAX = 8 * 1024 * 1024;

function Stored({ value, depth, open }: { value: Reference; depth: number; open: number }) {
  const run = useContext(RunOf);
  const [loaded, setLoaded] = useState<{ value: Json } | null>(null);
  const [said, setSaid] = useState<string | null>(null);
  if (loaded) return <Value value={loaded.value} depth={depth} open={open} />;
  const load = () => {
    setSaid("…");
    api.value(run ?? "", value.key).then((got) => setLoaded({ value: got }), (error: unknown) => setSaid(asProblem(error).detail));
  };
  const small = run !== null && (value.size ?? 0) <= LOADED_MAX;
  return (
    <>
      <Kept value={value} /> {said ?? (small ? <button type="button" className="more" onClick={load}>load it</button> : null)}
    </>
  );
}

function Kept({ value }: { value: Reference }) {
  return (
    <span className="tag" title={value.checksum ?? value.key}>
      {value.schema_hint ?? "value"} of {value.size === undefined ? "unknown size" : bytes(value.size)}, kept by reference {value.key.slice(0, 12)}…
    </span>
  );
}

function Branch({ value, depth, open }: { value: Json[] | { [key: string]: Json }; depth: number; open: number }) {
  const [shown, setShown] = useState(depth < open);
  const [most, setMost] = useState(AT_ONCE);
  const list = Array.isArray(value);
  const size = list ? value.length : Object.keys(value).length;
  const [start, end] = list ? ["[", "]"] : ["{", "}"];
  if (size === 0) return <span className="faint">{start + end}</span>;
  if (!shown) {
    return (
      <button type="button" className="fold" aria-expanded="false" onClick={() => setShown(true)}>
        <Icon name="right" size={11} />
        <span className="faint">
          {start} {brief(value, 60).slice(1)} <span className="small">({count(size)})</span>
        </span>
      </button>
    );
  }
  const entries: [string, Json][] = list ? value.slice(0, most).map((one, at) => [String(at), one]) : Object.entries(value).slice(0, most);
  return (
    <>
      <button type="button" className="fold" aria-expanded="true" onClick={() => setShown(false)}>
        <Icon name="down" size={11} />
        <span className="faint">{start}</span>
      </button>
      <ul>
        {entries.map(([key, one]) => (
          <li key={key}>
            <span className={list ? "faint" : "key"}>{list ? key : JSON.stringify(key)}</span>
            <span className="faint">: </span>
            <Value value={one} depth={depth + 1} open={open} />
          </li>
        ))}
        {size > most ? (
          <li>
            <button type="button" className="more" onClick={() => setMost(most + AT_ONCE * 5)}>
              … {count(size - most)} more
            </button>
          </li>
        ) : null}
      </ul>
      <span className="faint">{end}</span>
    </>
  );
}
