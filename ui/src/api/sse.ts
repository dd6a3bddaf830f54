// An incremental parser for server-sent event streams.

export interface SseMessage {
  id: string | null;
  event: string;
  data: string;
}

/** Chunks may end anywhere, even between the CR and LF of a line ending. */
export class SseParser {
  private rest = "";
  private id: string | null = null;
  private event = "";
  private data: string[] = [];
  private afterReturn = false;

  push(chunk: string): SseMessage[] {
    let text = this.rest + chunk;
    if (this.afterReturn && text.startsWith("\n")) text = text.slice(1);
    this.afterReturn = false;
    const messages: SseMessage[] = [];
    let from = 0;
    for (;;) {
      const end = lineEnd(text, from);
      if (end === -1) break;
      const line = text.slice(from, end);
      from = end + 1;
      if (text[end] === "\r") {
        if (from === text.length) this.afterReturn = true;
        else if (text[from] === "\n") from += 1;
      }
      this.line(line, messages);
    }
    this.rest = text.slice(from);
    return messages;
  }

  private line(line: string, messages: SseMessage[]): void {
    if (line === "") {
      if (this.data.length > 0) {
        messages.push({ id: this.id, event: this.event || "message", data: this.data.join("\n") });
      }
      this.data = [];
      this.event = "";
      return;
    }
    const colon = line.indexOf(":");
    if (colon === 0) return; // a comment, such as the heartbeat
    const field = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "data") this.data.push(value);
    else if (field === "event") this.event = value;
    else if (field === "id" && !value.includes("\0")) this.id = value;
  }
}

function lineEnd(text: string, from: number): number {
  for (let at = from; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === 10 || code === 13) return at;
  }
  return -1;
}
