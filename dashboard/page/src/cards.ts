// A card per scheme, side by side: its longest queue over time, and how long its flows took.

import { byId, fill, html } from "./dom";
import type { Result } from "./messages";
import { Plot, distribution } from "./plots";
import { type State, key } from "./state";
import { bytes, count, duration } from "./units";

interface Card {
  element: HTMLElement;
  /** The plot of the queue with its heading, where queues were looked at. */
  curve: HTMLElement;
  queue: Plot;
  times: Plot;
  numbers: HTMLElement;
}

export class Cards {
  private readonly cards = new Map<string, Card>();
  private chosen: string | null = null;

  constructor(private readonly state: State) {}

  /** The phase that is shown: the chosen one, or else the one that runs or ran last. */
  get phase(): string | null {
    const phases = this.state.phases();
    if (this.chosen !== null && phases.includes(this.chosen)) return this.chosen;
    return this.state.phase?.phase ?? phases[0] ?? null;
  }

  /** Begins anew: other schemes. */
  reset(): void {
    this.cards.clear();
    this.chosen = null;
    fill(byId("cards"), ...(this.state.hello?.schemes ?? []).map((scheme) => this.card(scheme.name, scheme.label)));
    this.show();
  }

  /** Shows what is known of the phase. */
  show(): void {
    this.showPhases();
    const { phase } = this;
    if (phase === null) return;
    const names = [...this.cards.keys()];
    const curves = names.map((scheme) => this.state.curves.get(key({ scheme, phase })));
    const results = names.map((scheme) => this.state.results.get(key({ scheme, phase })));
    const highest = Math.max(0, ...curves.flatMap((curve) => curve?.bytes.reduce((a, b) => Math.max(a, b), 0) ?? 0));
    const latest = Math.max(0, ...curves.map((curve) => curve?.t_ns.at(-1) ?? 0));
    const slowest = Math.max(0, ...results.map((result) => result?.fct_ns.at(-1) ?? 0));
    names.forEach((name, index) => {
      const card = this.cards.get(name);
      if (card === undefined) return;
      const [curve, result] = [curves[index], results[index]];
      card.element.classList.toggle("running", this.state.phase?.running === true && this.state.phase.scheme === name);
      card.curve.hidden = latest === 0;
      card.queue.show(
        [(curve?.t_ns ?? []).map((ns) => ns / 1e6), (curve?.bytes ?? []).map((size) => size / 1e3)],
        highest / 1e3,
        latest / 1e6,
      );
      const [times, shares] = distribution((result?.fct_ns ?? []).map((ns) => ns / 1e6), slowest / 1e6);
      card.times.show([times, shares], 1 / 1.05, slowest / 1e6);
      fill(card.numbers, ...numbers(result, curve?.bytes));
    });
  }

  private showPhases(): void {
    const phases = this.state.phases();
    const shown = phases.length > 1 ? phases : [];
    fill(
      byId("phases"),
      ...shown.map((phase) =>
        html("button", { "aria-pressed": String(phase === this.phase), click: () => this.choose(phase) }, phase),
      ),
    );
  }

  private choose(phase: string): void {
    this.chosen = phase;
    this.show();
    document.dispatchEvent(new Event("phase"));
  }

  private card(name: string, label: string): HTMLElement {
    const [queue, times] = [html("div", { class: "plot" }), html("div", { class: "plot" })];
    const curve = html("div", {}, html("h4", {}, "longest queue, KB over ms"), queue);
    const list = html("dl", { class: "numbers" });
    const element = html(
      "article",
      { class: "card", "data-scheme": name },
      html("h3", {}, name, html("small", {}, label === name ? "" : label)),
      curve,
      html("h4", {}, "flows completed within ms, share"),
      times,
      list,
    );
    this.cards.set(name, {
      element,
      curve,
      queue: new Plot(queue, [{ label: "longest queue", colour: "queue" }]),
      times: new Plot(times, [{ label: "share of flows", colour: "busy", stepped: true }]),
      numbers: list,
    });
    return element;
  }
}

function numbers(
  result: Result | undefined,
  queue: number[] | undefined,
): HTMLElement[] {
  const rows: [string, string][] = [];
  if (result?.percentiles_ns) {
    const [median, late, longest] = result.percentiles_ns;
    rows.push(["FCT p50", duration(median)], ["p99", duration(late)], ["max", duration(longest)]);
  }
  if (result !== undefined) {
    rows.push(["flows", count(result.flows)], ["drops", count(result.drop)]);
    rows.push(["trims", count(result.trim)], ["CE marks", count(result.mark)]);
  } else if (queue !== undefined && queue.length > 0) {
    rows.push(["queue now", bytes(queue.at(-1) ?? 0)]);
  }
  const shown = rows.map(([name, value]) => html("div", {}, html("dt", {}, name), html("dd", {}, value)));
  return [...shown, ...(result?.tenants ?? []).map(tenant)];
}

/** How long the slowest packet of a tenant took, and the bound of one that conforms. */
function tenant(told: Result["tenants"][number]): HTMLElement {
  const late = told.conforms && told.longest_ns > told.bound_ns ? "late" : "";
  const bound = told.conforms ? `bound ${duration(told.bound_ns)}` : "does not conform";
  return html(
    "div",
    { class: late, title: `${told.source} to ${told.destination}` },
    html("dt", {}, `slowest packet of ${told.tenant}`),
    html("dd", {}, `${duration(told.longest_ns)}, ${bound}`),
  );
}
