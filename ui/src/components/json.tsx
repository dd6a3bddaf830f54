// A JSON tree that renders only expanded branches.

import { useContext, useState } from "react";
import { api, asProblem } from "../api";
import type { Json } from "../api/types";
import { brief, bytes, count } from "../lib/format";
import { Icon } from "./icons";
import { Copy } from "./common";
import { RunContext } from "./run-context";

const BATCH_SIZE = 100;
const MAX_STRING_CHARS = 2000;

export function JsonBox({ value, open = 2 }: { value: Json | undefined; open?: number }) {
  if (value === undefined) return <p className="faint">none</p>;
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
  schema_hint?: { type?: string; items?: number; keys?: string[]; more_keys?: number };
}

/** Returns the reference if the value is one. Large values are sent as `{ref: {store, key, checksum, size, schema_hint}}`. */
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
      if (stored) return <StoredValue value={stored} depth={depth} open={open} />;
      return <Branch value={value} depth={depth} open={open} />;
    }
  }
}

function Text({ value }: { value: string }) {
  const [whole, setWhole] = useState(false);
  if (value.length <= MAX_STRING_CHARS || whole) return <span className="string">{JSON.stringify(value)}</span>;
  return (
    <>
      <span className="string">{JSON.stringify(value.slice(0, MAX_STRING_CHARS))}</span>{" "}
      <button type="button" className="more" onClick={() => setWhole(true)}>
        … {count(value.length - MAX_STRING_CHARS)} more characters
      </button>
    </>
  );
}

const MAX_LOAD_BYTES = 8 * 1024 * 1024;

function StoredValue({ value, depth, open }: { value: Reference; depth: number; open: number }) {
  const run = useContext(RunContext);
  const [loaded, setLoaded] = useState<{ value: Json } | null>(null);
  const [note, setNote] = useState<string | null>(null);
  if (loaded) return <Value value={loaded.value} depth={depth} open={open} />;
  const load = () => {
    setNote("…");
    api.value(run ?? "", value.key).then((got) => setLoaded({ value: got }), (error: unknown) => setNote(asProblem(error).detail));
  };
  const small = run !== null && (value.size ?? 0) <= MAX_LOAD_BYTES;
  return (
    <>
      <ReferenceTag value={value} /> {note ?? (small ? <button type="button" className="more" onClick={load}>load</button> : null)}
    </>
  );
}

function ReferenceTag({ value }: { value: Reference }) {
  return (
    <span className="tag" title={value.checksum ?? value.key}>
      {value.schema_hint?.type ?? "value"} of {value.size === undefined ? "unknown size" : bytes(value.size)}, stored by reference {value.key.slice(0, 12)}…
    </span>
  );
}

function Branch({ value, depth, open }: { value: Json[] | { [key: string]: Json }; depth: number; open: number }) {
  const [shown, setShown] = useState(depth < open);
  const [visible, setVisible] = useState(BATCH_SIZE);
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
  const entries: [string, Json][] = list ? value.slice(0, visible).map((one, at) => [String(at), one]) : Object.entries(value).slice(0, visible);
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
        {size > visible ? (
          <li>
            <button type="button" className="more" onClick={() => setVisible(visible + BATCH_SIZE * 5)}>
              … {count(size - visible)} more
            </button>
          </li>
        ) : null}
      </ul>
      <span className="faint">{end}</span>
    </>
  );
}
