// The selection: a link with its queues, a switch with its tables and counters, a packet with its trace.

import { byId, fill, html } from "./dom";
import type { Selection } from "./fabric";
import type { Entries, Frame, LinkTold, QueueTold, SwitchTold, TraceTold, Visit, VolumeTold } from "./messages";
import { ask, mayControl } from "./orders";
import { Plot } from "./plots";
import type { State } from "./state";
import { bytes, count, duration, rate } from "./units";
import { volumes } from "./volumes";

const RATES: [string, number][] = [["its own", 0], ["50 %", 0.5], ["25 %", 0.25], ["10 %", 0.1]];
const LOSSES: [string, number][] = [["none", 0], ["0.1 %", 0.001], ["1 %", 0.01], ["10 %", 0.1]];
const REFRESH_MS = 1000;

export class Panel {
  private selection: Selection = null;
  private plot: { show: () => void } | null = null;
  private queues: HTMLElement | null = null;
  private volumes: HTMLElement | null = null;
  /** Results that had come when volumes were asked for. */
  private results = -1;

  constructor(
    private readonly state: State,
    private readonly say: (text: string, failed?: boolean) => void,
  ) {
    setInterval(() => void this.refreshQueues(), REFRESH_MS);
  }

  /** Shows a link, a switch, or nothing. */
  select(selection: Selection): void {
    this.selection = selection;
    this.plot = null;
    this.queues = null;
    this.volumes = null;
    this.results = -1;
    const panel = byId("panel");
    if (selection === null) fill(panel, html("p", { class: "hint" }, "Choose a link or a switch in the picture."));
    else if ("link" in selection) fill(panel, ...this.link(selection.link));
    else fill(panel, ...this.switch(selection.switch));
    this.show();
    void this.refreshQueues();
  }

  /** Shows what has changed. */
  show(): void {
    this.plot?.show();
    void this.refreshVolumes();
    if (this.selection !== null && "link" in this.selection) {
      const state = byId("link-state");
      state.textContent = this.state.links?.[this.selection.link] ?? "";
    }
  }

  private can(order: string): boolean {
    return mayControl && (this.state.hello?.controls.includes(order) ?? false);
  }

  /** A button that has something done, and says what became of it. */
  private button(label: string, order: string, act: () => Promise<void>): HTMLElement | null {
    if (!this.can(order)) return null;
    const button = html("button", { click: () => void this.tried(button, act) }, label);
    return button;
  }

  private async tried(button: HTMLButtonElement, act: () => Promise<void>): Promise<void> {
    button.disabled = true;
    try {
      await act();
    } catch (error) {
      this.say(error instanceof Error ? error.message : String(error), true);
    } finally {
      button.disabled = false;
    }
  }

  private async ordered(order: Record<string, unknown>): Promise<void> {
    const answer = await ask(order);
    if (answer.text !== undefined) this.say(answer.text);
  }

  // -- a link -------------------------------------------------------------------------------

  private link(index: number): HTMLElement[] {
    const link = this.state.hello?.picture.links[index];
    if (link === undefined) return [];
    const about = [
      ...(link.rate_bps === null ? [] : [rate(link.rate_bps)]),
      ...(link.delay_ns === null ? [] : [duration(link.delay_ns)]),
    ];
    const place = html("div", { class: "plot" });
    this.plot = this.queuePlot(place, index);
    this.queues = html("div");
    this.volumes = html("div", { class: "volumes" });
    return [
      html("h2", {}, `${link.a} – ${link.b}`, html("small", {}, about.join(", "))),
      html("p", { id: "link-state", class: "state" }),
      ...this.linkControls(index, link.rate_bps),
      ...(this.state.hello?.clock === "finished"
        ? []
        : [html("h4", {}, "waiting, KB over ms: ", ...this.ends(index)), place]),
      this.volumes,
      this.queues,
    ];
  }

  private linkControls(index: number, own: number | null): HTMLElement[] {
    if (!this.can("link")) return [];
    const set = (change: Record<string, unknown>) => this.ordered({ do: "link", link: index, ...change });
    const choice = (name: string, options: [string, number][], change: (share: number) => Record<string, unknown>) =>
      html(
        "label",
        {},
        name,
        html(
          "select",
          {
            "aria-label": name,
            change: (event: Event) => {
              const share = Number((event.target as HTMLSelectElement).value);
              void set(change(share)).catch((error: Error) => this.say(error.message, true));
            },
          },
          ...options.map(([label, share]) => html("option", { value: share }, label)),
        ),
      );
    return [
      html(
        "div",
        { class: "controls" },
        this.button("Take down", "link", () => set({ up: false })),
        this.button("Bring up", "link", () => set({ up: true })),
        own === null ? null : choice("rate", RATES, (share) => ({ rate_bps: Math.round(share * own) })),
        choice("loss", LOSSES, (share) => ({ loss: share })),
      ),
      ...this.captures(index),
    ];
  }

  private captures(index: number): HTMLElement[] {
    if (!this.can("capture")) return [];
    const places = this.state.hello?.picture.ports.filter(([, , link]) => link === index) ?? [];
    const files = html("p", { class: "files" });
    const frames = html("div");
    const buttons = places.map(([name, port]) => {
      let on = false;
      const button = html("button", {}, `Capture at ${name}:${port}`);
      button.addEventListener("click", () => {
        void this.tried(button, async () => {
          const answer = await ask<{ text: string; files?: string[]; frames?: Frame[] }>({
            do: "capture", switch: name, port, on: !on,
          });
          on = !on;
          button.textContent = `${on ? "End capture" : "Capture"} at ${name}:${port}`;
          if (answer.files !== undefined) files.textContent = answer.files.join("\n");
          fill(frames, answer.frames === undefined ? null : frameTable(answer.frames));
          this.say(answer.text);
        });
      });
      return button;
    });
    return [html("div", { class: "controls" }, ...buttons), files, frames];
  }

  /** The names of the ends that are switch ports, in the colours of their lines. */
  private ends(link: number): HTMLElement[] {
    return this.ports(link).map((port, n) => html("span", { class: `line${n}` }, `${port.name} `));
  }

  private ports(link: number): { name: string; index: number }[] {
    return (this.state.hello?.picture.ports ?? [])
      .map(([name, port, of], index) => ({ name: `${name}:${port}`, of, index }))
      .filter((port) => port.of === link);
  }

  private queuePlot(place: HTMLElement, link: number): { show: () => void } {
    const ports = this.ports(link);
    const colours = ["queue", "busy"];
    const lines = ports.map((port, n) => ({ label: port.name, colour: colours[n] ?? "busy" }));
    const plot = new Plot(place, lines);
    place.dataset["points"] = "0";
    return {
      show: () => {
        const samples = this.state.history;
        place.dataset["points"] = String(samples.length);
        plot.show([
          samples.map((sample) => sample.at_ns / 1e6),
          ...ports.map((port) => samples.map((sample) => (sample.queue[port.index] ?? 0) / 1e3)),
        ]);
      },
    };
  }

  private async refreshQueues(): Promise<void> {
    const place = this.queues;
    if (place === null || this.selection === null || !("link" in this.selection) || !this.can("queues")) return;
    try {
      const told = await ask<LinkTold>({ do: "queues", link: this.selection.link });
      if (place === this.queues) fill(place, ...told.ports.map(queueTable));
    } catch (error) {
      if (place === this.queues) fill(place, html("p", { class: "hint" }, (error as Error).message));
    }
  }

  /** Asks for volumes when a phase has ended: they come with its results. */
  private async refreshVolumes(): Promise<void> {
    const place = this.volumes;
    const ended = this.state.results.size;
    if (place === null || this.selection === null || !("link" in this.selection)) return;
    if (!this.can("volume") || ended === this.results) return;
    this.results = ended;
    try {
      const told = await ask<{ series: VolumeTold[] }>({ do: "volume", link: this.selection.link });
      if (place === this.volumes) volumes(place, told.series);
    } catch (error) {
      if (place === this.volumes) fill(place, html("p", { class: "hint" }, (error as Error).message));
    }
  }

  // -- a switch -----------------------------------------------------------------------------

  private switch(name: string): HTMLElement[] {
    const held = html("div");
    const packets = html("div");
    const read = async () => {
      fill(held, ...tables(await ask<SwitchTold>({ do: "switch", switch: name })));
    };
    const trace = async () => {
      fill(packets, html("p", { class: "hint" }, "waits for packets that come in"));
      try {
        fill(packets, ...visits(await ask<TraceTold>({ do: "trace", switch: name, packets: 5 })));
      } catch (error) {
        fill(packets);
        throw error;
      }
    };
    const restart = () => this.ordered({ do: "restart", switch: name });
    if (this.can("switch")) void read().catch((error: Error) => this.say(error.message, true));
    return [
      html("h2", {}, name),
      html(
        "div",
        { class: "controls" },
        this.button("Trace 5 packets", "trace", trace),
        this.button("Read again", "switch", read),
        this.button("Restart", "restart", restart),
      ),
      packets,
      held,
    ];
  }
}

function queueTable(port: { place: string; to: string; queues: QueueTold[] }): HTMLElement {
  const columns: [string, (queue: QueueTold) => string][] = [
    ["queue", (queue) => String(queue.queue)],
    ["now", (queue) => bytes(queue.depth_bytes)],
    ["max", (queue) => bytes(queue.max_depth_bytes)],
    ["max delay", (queue) => duration(queue.max_delay_ns)],
    ["sent", (queue) => count(queue.sent)],
    ["CE", (queue) => count(queue.marked)],
    ["refused", (queue) => count(queue.refused)],
    ["dropped", (queue) => count(queue.dropped)],
    ["pauses", (queue) => (queue.pauses === null ? "" : count(queue.pauses))],
  ];
  return table(
    `${port.place} to ${port.to}`,
    columns.map(([name]) => name),
    port.queues.map((queue) => columns.map(([, show]) => show(queue))),
  );
}

function frameTable(frames: Frame[]): HTMLElement {
  const first = frames[0]?.at_ns ?? 0;
  return table(
    `the first ${frames.length} frames`,
    ["frame", "bytes", "us", ""],
    frames.map((frame) => [
      frame.text, count(frame.bytes), ((frame.at_ns - first) / 1e3).toFixed(1), frame.direction,
    ]),
  );
}

function tables(told: SwitchTold): HTMLElement[] {
  const cells = told.counters.map((cell) => [cell.name, String(cell.index), count(cell.packets), count(cell.bytes)]);
  return [
    table("counters that are not zero", ["counter", "of", "packets", "bytes"], cells),
    ...[...told.tables, told.others].filter((each) => each.entries.length > 0).map(entries),
  ];
}

function entries(told: Entries): HTMLElement {
  return html(
    "details",
    {},
    html("summary", {}, told.name, html("small", {}, count(told.entries.length + told.more))),
    html("pre", {}, told.entries.join("\n") + (told.more > 0 ? `\n(${told.more} more)` : "")),
  );
}

function visits(told: TraceTold): HTMLElement[] {
  if (told.visits.length === 0) return [html("p", { class: "hint" }, "no packet came in within 5 s")];
  const packets = new Map<number, Visit[]>();
  for (const visit of told.visits) packets.set(visit.packet, [...(packets.get(visit.packet) ?? []), visit]);
  return [...packets].map(([packet, parts]) =>
    html(
      "details",
      { class: "packet" },
      html("summary", {}, `packet ${packet}`, html("small", {}, parts[0]?.lines[0]?.slice(0, 60))),
      ...parts.map((visit) => html("pre", {}, visit.lines.join("\n"))),
    ),
  );
}

function table(caption: string, head: string[], rows: string[][]): HTMLElement {
  return html(
    "div",
    { class: "scroll" },
    html(
      "table",
      {},
      html("caption", {}, caption),
      html("thead", {}, html("tr", {}, ...head.map((name) => html("th", { scope: "col" }, name)))),
      html("tbody", {}, ...rows.map((row) => html("tr", {}, ...row.map((cell) => html("td", {}, cell))))),
    ),
  );
}
