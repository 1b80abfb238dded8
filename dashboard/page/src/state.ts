// State received so far, as far as it is shown.

import type { Curve, Group, Hello, Kind, Sample, Objects, Phase, Result } from "./messages";

/** Samples of the phase that runs; of more, the oldest go. */
const MAX_HISTORY = 1500;
const MAX_LINES = 200;
export const KINDS: Kind[] = ["drop", "trim", "mark", "pause"];

export class State {
  hello: Hello | null = null;
  phase: Phase | null = null;
  links: string[] | null = null;
  groups: Group[] = [];
  /** Replicas by phase of a scheme, and those of a store. */
  objects = new Map<string, Objects>();
  sample: Sample | null = null;
  samplesHz: number | null = null;
  history: Sample[] = [];
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
      case "phase":
        this.changed(data as Phase);
        break;
      case "sample":
        this.sampled(data as Sample);
        break;
      case "samples":
        for (const sample of (data as { samples: Sample[] }).samples) this.remember(sample);
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
        this.samplesHz = (data as { samples_hz: number }).samples_hz;
        break;
      case "line":
        this.lines.push((data as { text: string }).text);
        if (this.lines.length > MAX_LINES) this.lines.shift();
        break;
    }
  }

  /** Phases that ran or have results, in order. */
  phases(): string[] {
    const all = [...this.results.values(), ...this.curves.values()].map((each) => each.phase);
    if (this.phase !== null) all.push(this.phase.phase);
    return [...new Set(all)];
  }

  private begin(hello: Hello): void {
    Object.assign(this, new State());
    this.hello = hello;
  }

  private changed(phase: Phase): void {
    this.phase = phase;
    if (!phase.running) return;
    this.forget();
    this.curves.set(key(phase), { scheme: phase.scheme, phase: phase.phase, t_ns: [], bytes: [] });
  }

  private sampled(sample: Sample): void {
    this.remember(sample);
    const curve = this.phase?.running ? this.curves.get(key(this.phase)) : undefined;
    curve?.t_ns.push(sample.at_ns);
    curve?.bytes.push(Math.max(0, ...sample.queue));
  }

  /** What was counted and seen of the phase before. */
  private forget(): void {
    this.history = [];
    this.totals = { drop: 0, trim: 0, mark: 0, pause: 0 };
  }

  private remember(sample: Sample): void {
    const last = this.history.at(-1);
    if (last !== undefined && sample.at_ns < last.at_ns) this.forget();
    this.history.push(sample);
    if (this.history.length > MAX_HISTORY) this.history.shift();
    this.sample = sample;
    for (const [, kind, n] of sample.events) this.totals[kind] += n;
  }
}

/** What tells a phase of a scheme from others. */
export function key(of: { scheme: string; phase: string }): string {
  return `${of.scheme}\n${of.phase}`;
}
