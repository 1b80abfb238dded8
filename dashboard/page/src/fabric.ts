// The fabric as a picture: every half of a link shows what the switch at its end sends into it.

import { svg } from "./dom";
import type { Group, Kind, Picture, Replica } from "./messages";
import { KINDS } from "./state";

const CELL = 64;
const ROW = 118;
const MARGIN = 40;
/** Width of the picture by the height of a row at most, so that lines of a large fabric can be told apart. */
const FLATTEST = 16;
/** Pixels of the picture at least and at most, and of a node in its longest row. */
const NARROWEST = 620;
const WIDEST = 4000;
const LEGIBLE = 28;
const FULL = 1000;
/** How long a mark of what happened is seen. */
const SEEN_MS = 1200;
const SIGNS: Record<Kind, string> = { drop: "✕", trim: "▲", mark: "◆", pause: "‖" };

export type Selection = { link: number } | { switch: string } | null;

interface Point {
  x: number;
  y: number;
}

interface Half {
  line: SVGLineElement;
  queue: SVGCircleElement;
  /** Where marks are shown, by kind. */
  marks: Record<Kind, Point>;
}

export class FabricPicture {
  readonly element: SVGSVGElement;
  private readonly halves: Half[] = [];
  private readonly wires: SVGGElement[] = [];
  private readonly nodes = new Map<string, SVGGElement>();
  private readonly hosts = new Map<string, SVGGElement>();
  private readonly marks = new Map<string, { element: SVGTextElement; until: number }>();
  private readonly layer: SVGGElement;

  constructor(
    private readonly picture: Picture,
    select: (selection: Selection) => void,
  ) {
    const places = placed(picture.rows);
    const width = Math.max(...[...places.values()].map((at) => at.x)) + MARGIN;
    const height = Math.max(...[...places.values()].map((at) => at.y)) + MARGIN;
    this.layer = svg("g", { class: "marks" });
    const links = svg("g");
    const nodes = svg("g");
    picture.links.forEach((link, index) => links.append(this.wire(index, places, select, link.nodes)));
    picture.ports.forEach(([, , link, end]) => this.halves.push(this.half(link, end, places)));
    for (const [name, at] of places) nodes.append(this.node(name, at, select));
    this.element = svg(
      "svg",
      { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": `topology ${picture.name}` },
      links,
      nodes,
      this.layer,
    );
    // A large fabric is scrolled rather than shrunk beyond reading.
    const widest = Math.max(...picture.rows.map((row) => row.length));
    this.element.style.minWidth = `${Math.min(WIDEST, Math.max(NARROWEST, widest * LEGIBLE))}px`;
    setInterval(() => this.fade(), 200);
  }

  /** Colours the links; `longest`: bytes of a queue that is drawn largest. */
  show(utilisation: number[], queue: number[], longest: number): void {
    this.halves.forEach((half, port) => {
      const share = (utilisation[port] ?? 0) / FULL;
      const bytes = queue[port] ?? 0;
      half.line.style.setProperty("--share", share.toFixed(3));
      half.queue.setAttribute("r", bytes === 0 ? "0" : (2.5 + 7.5 * Math.sqrt(bytes / longest)).toFixed(1));
      half.queue.style.setProperty("--share", Math.min(1, bytes / longest).toFixed(3));
      half.queue.dataset["bytes"] = String(bytes);
    });
  }

  /** Shows what has just happened at ports. */
  happened(events: [number, Kind, number][]): void {
    const until = performance.now() + SEEN_MS;
    for (const [port, kind, n] of events) {
      const at = this.halves[port]?.marks[kind];
      if (at === undefined) continue;
      const known = this.marks.get(`${port} ${kind}`);
      const element = known?.element ?? svg("text", { class: `sign ${kind}`, x: at.x, y: at.y });
      element.textContent = n > 1 ? `${SIGNS[kind]}${n}` : SIGNS[kind];
      if (known === undefined) this.layer.append(element);
      this.marks.set(`${port} ${kind}`, { element, until });
    }
  }

  /** Shows the states of the links. */
  states(states: string[]): void {
    this.wires.forEach((wire, index) => {
      const state = states[index] ?? "up";
      wire.classList.toggle("down", state === "down");
      wire.classList.toggle("faulty", state !== "down" && state !== "up");
      wire.dataset["state"] = state;
    });
  }

  /** Shows which hosts are servers of a store that are silent. */
  gone(servers: Replica[]): void {
    const lost = new Set(servers.filter((server) => server.state === "lost").map((server) => server.host));
    for (const [name, host] of this.hosts) host.classList.toggle("gone", lost.has(name));
  }

  /** Shows which links are of trees of multicast groups, and which hosts are members. */
  groups(groups: Group[]): void {
    const links = new Set(groups.flatMap((group) => group.links));
    const members = new Set(groups.flatMap((group) => group.members));
    this.wires.forEach((wire, index) => wire.classList.toggle("tree", links.has(index)));
    for (const [name, host] of this.hosts) host.classList.toggle("member", members.has(name));
  }

  /** Shows what is selected. */
  selected(selection: Selection): void {
    this.wires.forEach((wire, index) => {
      wire.classList.toggle("chosen", selection !== null && "link" in selection && selection.link === index);
    });
    for (const [name, node] of this.nodes) {
      node.classList.toggle("chosen", selection !== null && "switch" in selection && selection.switch === name);
    }
  }

  private fade(): void {
    const now = performance.now();
    for (const [name, mark] of this.marks) {
      if (mark.until > now) continue;
      mark.element.remove();
      this.marks.delete(name);
    }
  }

  private wire(
    index: number,
    places: Map<string, Point>,
    select: (selection: Selection) => void,
    nodes: [string, string],
  ): SVGGElement {
    const [a, b] = nodes.map((node) => places.get(node) ?? { x: 0, y: 0 }) as [Point, Point];
    const ends = { x1: a.x, y1: a.y, x2: b.x, y2: b.y };
    const choose = () => select({ link: index });
    const group = svg(
      "g",
      {
        class: "wire",
        "data-link": index,
        tabindex: 0,
        role: "button",
        "aria-label": `link ${nodes[0]} - ${nodes[1]}`,
        click: choose,
        keydown: onEnter(choose),
      },
      svg("line", { class: "reach", ...ends }),
      svg("line", { class: "base", ...ends }),
    );
    this.wires.push(group);
    return group;
  }

  private half(link: number, end: 0 | 1, places: Map<string, Point>): Half {
    const nodes = this.picture.links[link]?.nodes ?? ["", ""];
    const near = places.get(nodes[end]) ?? { x: 0, y: 0 };
    const far = places.get(nodes[1 - end] ?? "") ?? { x: 0, y: 0 };
    const at = (share: number): Point => ({
      x: near.x + (far.x - near.x) * share,
      y: near.y + (far.y - near.y) * share,
    });
    const [middle, queue] = [at(0.5), at(0.2)];
    const line = svg("line", { class: "half", x1: near.x, y1: near.y, x2: middle.x, y2: middle.y });
    const circle = svg("circle", { class: "queue", cx: queue.x, cy: queue.y, r: 0 });
    this.wires[link]?.append(line, circle);
    const marks = Object.fromEntries(KINDS.map((kind, index) => [kind, at(0.28 + 0.06 * index)]));
    return { line, queue: circle, marks: marks as Record<Kind, Point> };
  }

  private node(name: string, at: Point, select: (selection: Selection) => void): SVGGElement {
    const isHost = this.picture.hosts.includes(name);
    const label = svg("text", { x: at.x, y: at.y + 4 }, name);
    if (isHost) {
      const host = svg("g", { class: "host", "data-host": name }, svg("circle", { cx: at.x, cy: at.y, r: 15 }), label);
      this.hosts.set(name, host);
      return host;
    }
    const choose = () => select({ switch: name });
    const group = svg(
      "g",
      {
        class: "switch",
        "data-switch": name,
        tabindex: 0,
        role: "button",
        "aria-label": `switch ${name}`,
        click: choose,
        keydown: onEnter(choose),
      },
      svg("rect", { x: at.x - 25, y: at.y - 14, width: 50, height: 28, rx: 6 }),
      label,
    );
    this.nodes.set(name, group);
    return group;
  }
}

function onEnter(action: () => void): (event: Event) => void {
  return (event) => {
    if ((event as KeyboardEvent).key === "Enter") action();
  };
}

/** Places of nodes: the first row is at the bottom, rows are centred. */
function placed(rows: string[][]): Map<string, Point> {
  const width = Math.max(...rows.map((row) => row.length)) * CELL;
  const height = Math.max(ROW, width / FLATTEST);
  const places = new Map<string, Point>();
  rows.forEach((row, level) => {
    row.forEach((name, index) => {
      const x = MARGIN / 2 + (width * (index + 0.5)) / row.length;
      places.set(name, { x, y: MARGIN + (rows.length - 1 - level) * height });
    });
  });
  return places;
}
