// The page: takes the stream in and shows it.

import "./page.css";
import { Cards } from "./cards";
import { byId, fill, html } from "./dom";
import { FabricPicture, type Selection } from "./fabric";
import type { Sample } from "./messages";
import { ask, mayControl } from "./orders";
import { Panel } from "./panel";
import { showReplicas } from "./replicas";
import { KINDS, State, key } from "./state";
import { bytes, count, duration } from "./units";

const EVENTS = ["hello", "phase", "sample", "samples", "curve", "result", "links", "groups", "objects", "pace", "line"];
const PACES = [1, 5, 10, 30, 100];
/** A queue of so many bytes is drawn largest, unless there is a longer one. */
const LONG_QUEUE = 30_000;
const SAID_MS = 6000;

const state = new State();
const cards = new Cards(state);
const panel = new Panel(state, say);
let picture: FabricPicture | null = null;
let longest = LONG_QUEUE;
let due = false;

function select(selection: Selection): void {
  picture?.selected(selection);
  panel.select(selection);
}

function begin(): void {
  const { hello } = state;
  if (hello === null) return;
  document.title = `${hello.title} – Ebb`;
  byId("title").textContent = hello.title;
  const slowed = hello.dilation === 1 ? "" : `, slowed by ${hello.dilation}`;
  const clocks = { wall: "live", virtual: "simulation", finished: "results of a run" };
  byId("about").textContent = `${hello.picture.name}, ${clocks[hello.clock]}${slowed}`;
  longest = LONG_QUEUE;
  picture = new FabricPicture(hello.picture, select);
  fill(byId("fabric"), picture.element);
  select(null);
  cards.reset();
  showControls();
}

function showControls(): void {
  const controls = state.hello?.controls ?? [];
  const can = (order: string) => mayControl && controls.includes(order);
  const order = (what: Record<string, unknown>) => () =>
    void ask(what).then((answer) => say(answer.text ?? "done")).catch((error: Error) => say(error.message, true));
  const choice = html(
    "select",
    { "aria-label": "scheme" },
    ...(state.hello?.schemes ?? []).map((scheme) => html("option", { value: scheme.name }, scheme.name)),
  );
  fill(
    byId("controls"),
    can("reroute") ? html("button", { click: order({ do: "reroute" }) }, "Reroute") : null,
    ...(can("scheme")
      ? [choice, html("button", { click: () => order({ do: "scheme", scheme: choice.value })() }, "Run scheme")]
      : []),
    ...(can("pace") ? pace(order) : []),
    !mayControl && state.hello?.clock !== "finished"
      ? html("span", { class: "hint" }, "only to look at: the address that was printed has controls")
      : null,
  );
}

/** The choice of the multicast groups whose trees are drawn; all, until one is chosen. */
function showGroups(): void {
  const { groups } = state;
  const draw = (address: string) =>
    picture?.groups(groups.filter((group) => address === "" || group.address === address));
  const choice = html(
    "select",
    { "aria-label": "multicast group", change: () => draw(choice.value) },
    html("option", { value: "" }, groups.length === 1 ? "the multicast group" : `all ${groups.length} multicast groups`),
    ...groups.map((group) => html("option", { value: group.address }, `${group.address}: ${group.members.join(" ")}`)),
  );
  fill(byId("groups"), ...(groups.length > 0 ? [choice] : []));
  draw("");
}

/** The replicas of what the phase that is shown writes, and of a store. */
function showObjects(): void {
  const scheme = state.hello?.clock === "finished" ? shownScheme() : (state.phase?.scheme ?? "");
  const written = state.objects.get(key({ scheme, phase: cards.phase ?? "" }));
  const store = state.objects.get(key({ scheme: "", phase: "" }));
  showReplicas(byId("replicas"), [written, store].filter((each) => each !== undefined));
  picture?.gone(store?.servers ?? []);
}

function pace(order: (what: Record<string, unknown>) => () => void): HTMLElement[] {
  const choice = html(
    "select",
    { "aria-label": "samples per second", change: () => order({ do: "pace", samples_hz: Number(choice.value) })() },
    ...PACES.map((hz) => html("option", { value: hz, selected: hz === state.samplesHz }, `${hz} samples/s`)),
  );
  const halt = html("button", { click: order({ do: "pace", samples_hz: 0 }) }, "Halt");
  const go = html("button", { click: () => order({ do: "pace", samples_hz: Number(choice.value) })() }, "Go");
  return [halt, go, choice];
}

/** Shows everything that has changed since it was last shown. */
function show(): void {
  due = false;
  const { phase, sample } = state;
  const label = phase === null ? "" : `${phase.scheme}: ${phase.phase}${phase.round > 0 ? ` ${phase.round + 1}` : ""}`;
  byId("phase").textContent = phase?.running ? label : phase === null ? "" : `${label}, ended`;
  byId("time").textContent = sample === null ? "" : duration(sample.at_ns);
  fill(byId("totals"), ...legend());
  showPicture(sample);
  cards.show();
  panel.show();
  showObjects();
  fill(byId("lines"), ...state.lines.slice(-8).reverse().map((text) => html("li", {}, text)));
}

function showPicture(sample: Sample | null): void {
  if (picture === null) return;
  if (state.links !== null) picture.states(state.links);
  const { hello } = state;
  const phase = cards.phase;
  const result = phase === null ? undefined : state.results.get(key({ scheme: shownScheme(), phase }));
  const of = hello?.clock === "finished" ? result : (sample ?? result);
  if (of === undefined) return;
  longest = Math.max(longest, ...of.queue);
  picture.show(of.utilisation, of.queue, longest);
  if (hello?.clock === "finished" && result !== undefined) {
    const lost = result.dropped.map((n, port): [number, "drop", number] => [port, "drop", n]);
    picture.happened(lost.filter(([, , n]) => n > 0));
  }
  byId("legend").textContent =
    hello?.clock === "finished"
      ? `${shownScheme()}: mean utilisation, and the longest queue of each port`
      : `● a queue, the largest of ${bytes(longest)}; width and colour of a link: utilisation`;
}

/** Which scheme the picture of a run that has ended shows. */
function shownScheme(): string {
  const asked = document.querySelector<HTMLSelectElement>("#shown");
  return asked?.value ?? state.hello?.schemes[0]?.name ?? "";
}

function legend(): HTMLElement[] {
  if (state.hello?.clock === "finished") return [shownChoice()];
  const names = { drop: "✕ drops", trim: "▲ did not fit", mark: "◆ sent with CE", pause: "‖ pauses" };
  return KINDS.map((kind) =>
    html("span", { class: `total ${kind}` }, html("i", {}, names[kind].slice(0, 1)), names[kind].slice(1), " ", html("b", {}, count(state.totals[kind]))),
  );
}

function shownChoice(): HTMLElement {
  const now = shownScheme();
  const choice = html(
    "select",
    { id: "shown", "aria-label": "scheme in the picture", change: () => later() },
    ...(state.hello?.schemes ?? []).map((scheme) =>
      html("option", { value: scheme.name, selected: scheme.name === now }, scheme.name),
    ),
  );
  return choice;
}

/** Says what became of something that was asked for. */
function say(text: string, failed = false): void {
  const said = byId("said");
  said.textContent = text;
  said.className = failed ? "failed" : "";
  said.hidden = false;
  setTimeout(() => {
    if (said.textContent === text) said.hidden = true;
  }, SAID_MS);
}

function later(): void {
  if (due) return;
  due = true;
  requestAnimationFrame(show);
}

function connect(): void {
  const stream = new EventSource("/stream");
  stream.onopen = () => byId("connection").classList.add("open");
  stream.onerror = () => byId("connection").classList.remove("open");
  for (const event of EVENTS) {
    stream.addEventListener(event, (message) => {
      const data: unknown = JSON.parse((message as MessageEvent<string>).data);
      state.take(event, data);
      if (event === "hello") begin();
      if (event === "sample") picture?.happened((data as Sample).events);
      if (event === "pace" || event === "hello") showControls();
      if (event === "groups" || event === "hello") showGroups();
      document.body.dataset["samples"] = String(Number(document.body.dataset["samples"] ?? 0) + Number(event === "sample"));
      later();
    });
  }
}

document.addEventListener("phase", later);
connect();
