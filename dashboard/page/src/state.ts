// State received so far, as far as it is shown.

import type { Curve, Group, Hello, Kind, Look, Objects, Play, Result } from "./messages";

/** Looks of the phase that runs; of more, the oldest go. */
const MAX_HISTORY = 1500;
const MAX_LINES = 200;
export const KINDS: Kind[] = ["drop", "trim", "mark", "pause"];

export class State {
  hello: Hello | null = null;
  play: Play | null = null;
  links: string[] | null = null;
  groups: Group[] = [];
  /** Replicas by phase of a scheme, and those of a store. */
  objects = new Map<string, Objects>();
  look: Look | null = null;
  looksHz: number | null = null;
  history: Look[] = [];
  totals: Record<Kind, number> = { drop: 0, trim: 0, mark: 0, pause: 0 };
  curves = new Map<string, Curve>();
  results = new Map<string, Result>();
  lines: string[] = [];

  /** Takes a message in. */
  take(event: string, data: unknown): void {
    switch (event) {
      case "hello":
        this.begin(data as Hello);
        break;
      case "play":
        this.played(data as Play);
        break;
      case "look":
        this.looked(data as Look);
        break;
      case "past":
        for (const look of (data as { looks: Look[] }).looks) this.remember(look);
        break;
      case "curve": {
        const curve = data as Curve;
        this.curves.set(key(curve), curve);
        break;
      }
      case "result": {
        const result = data as Result;
        this.results.set(key(result), result);
        break;
      }
      case "links":
        this.links = (data as { states: string[] }).states;
        break;
      case "groups":
        this.groups = (data as { groups: Group[] }).groups;
        break;
      case "objects": {
        const objects = data as Objects;
        this.objects.set(key({ scheme: objects.scheme ?? "", phase: objects.phase ?? "" }), objects);
        break;
      }
      case "pace":
        this.looksHz = (data as { looks_hz: number }).looks_hz;
        break;
      case "line":
        this.lines.push((data as { text: string }).text);
        if (this.lines.length > MAX_LINES) this.lines.shift();
        break;
    }
  }

  /** Phases that were played or have results, in order. */
  phases(): string[] {
    const all = [...this.results.values(), ...this.curves.values()].map((each) => each.phase);
    if (this.play !== null) all.push(this.play.phase);
    return [...new Set(all)];
  }

  private begin(hello: Hello): void {
    Object.assign(this, new State());
    this.hello = hello;
  }

  private played(play: Play): void {
    this.play = play;
    if (!play.running) return;
    this.forget();
    this.curves.set(key(play), { scheme: play.scheme, phase: play.phase, t_ns: [], bytes: [] });
  }

  private looked(look: Look): void {
    this.remember(look);
    const curve = this.play?.running ? this.curves.get(key(this.play)) : undefined;
    curve?.t_ns.push(look.at_ns);
    curve?.bytes.push(Math.max(0, ...look.queue));
  }

  /** What was counted and seen of the phase before. */
  private forget(): void {
    this.history = [];
    this.totals = { drop: 0, trim: 0, mark: 0, pause: 0 };
  }

  private remember(look: Look): void {
    const last = this.history.at(-1);
    if (last !== undefined && look.at_ns < last.at_ns) this.forget();
    this.history.push(look);
    if (this.history.length > MAX_HISTORY) this.history.shift();
    this.look = look;
    for (const [, kind, n] of look.events) this.totals[kind] += n;
  }
}

/** What tells a phase of a scheme from others. */
export function key(of: { scheme: string; phase: string }): string {
  return `${of.scheme}\n${of.phase}`;
}
