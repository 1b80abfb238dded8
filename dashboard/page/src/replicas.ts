// Objects and their replicas: a table of what a phase writes, and one of a blob store with its servers.

import { fill, html } from "./dom";
import type { Objects, Replica } from "./messages";
import { bytes, count } from "./units";

/** What a state means, of a write and of a store. */
const STATES: Record<Replica["state"], string> = { whole: "complete", part: "under way", none: "to begin", lost: "failed" };
const OF_STORE: Record<Replica["state"], string> = { whole: "alive", part: "in part", none: "empty", lost: "silent" };

/** Shows them in a section, which is hidden without any. */
export function showReplicas(section: HTMLElement, all: Objects[]): void {
  section.hidden = all.length === 0;
  fill(section, ...all.map(table));
}

function table(told: Objects): HTMLElement {
  const states = told.phase === null ? OF_STORE : STATES;
  const caption = told.phase === null ? "blob store" : `replicas of ${told.scheme}: ${told.phase}`;
  const rows = told.objects.map((each) =>
    html(
      "tr",
      {},
      html("td", {}, each.name),
      html("td", {}, bytes(each.bytes)),
      html("td", { class: "hosts" }, ...each.replicas.map((of) => replica(of, states))),
      html("td", {}, each.note),
    ),
  );
  const all = told.objects.length + told.more;
  return html(
    "div",
    { class: "scroll" },
    html("h3", {}, caption, html("small", {}, all === 1 ? "one object" : `${count(all)} objects`)),
    html("p", { class: "servers" }, ...told.servers.map((server) => replica(server, states))),
    html("table", {}, html("tbody", {}, ...rows)),
    told.more > 0 ? html("p", { class: "hint" }, `(${told.more} more)`) : null,
  );
}

function replica(of: Replica, states: Record<Replica["state"], string>): HTMLElement {
  const note = [states[of.state], of.note].filter((text) => text !== "").join(", ");
  return html("span", { class: `replica ${of.state}`, "data-host": of.host }, of.host, html("small", {}, note));
}
