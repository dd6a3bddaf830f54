// Keyboard shortcuts. `?` shows the list.

import { useEffect, useRef } from "react";

export interface Keys {
  [sequence: string]: () => void;
}

const stack: { current: Keys }[] = [];
let pending = "";
let pendingTimer: ReturnType<typeof setTimeout> | undefined;

function isTextInput(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName));
}

function onKey(event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey || isTextInput(event.target)) return;
  if (document.querySelector("dialog[open]") !== null) return;
  const name = event.key;
  // Enter activates the focused control; a list's own Enter shortcut applies only when no control has the focus.
  if (name === "Enter" && event.target instanceof Element && event.target.closest("a, button, summary, [role=slider], .react-flow__node") !== null) return;
  const candidates = pending ? [`${pending} ${name}`, name] : [name];
  clearTimeout(pendingTimer);
  pending = "";
  for (const one of candidates) {
    for (let at = stack.length - 1; at >= 0; at -= 1) {
      const action = stack[at]?.current[one];
      if (action) {
        event.preventDefault();
        action();
        return;
      }
    }
  }
  if (stack.some((keys) => Object.keys(keys.current).some((one) => one.startsWith(`${name} `)))) {
    pending = name;
    pendingTimer = setTimeout(() => (pending = ""), 1000);
  }
}

let listening = false;

export function useKeys(keys: Keys): void {
  const current = useRef(keys);
  current.current = keys;
  useEffect(() => {
    if (!listening) {
      listening = true;
      document.addEventListener("keydown", onKey);
    }
    stack.push(current);
    return () => {
      stack.splice(stack.indexOf(current), 1);
    };
  }, []);
}
