// Traffic volume of the ports of a link: over time with the rate to provision, and its distribution with the fit.

import { fill, html } from "./dom";
import type { VolumeTold } from "./messages";
import { type Line, Plot } from "./plots";
import { duration, rate } from "./units";

const OVER_TIME: Line[] = [{ label: "sent", colour: "busy", stepped: true }, { label: "provisioned", colour: "down" }];
const LAWS: Line[] = [{ label: "measured", colour: "busy", stepped: true }, { label: "log-normal", colour: "queue" }];

/** Shows each port, of each scheme and phase; the axes are the same. */
export function volumes(place: HTMLElement, series: VolumeTold[]): void {
  const highest = Math.max(0, ...series.flatMap((each) => [...each.bps, inSight(each) ?? 0])) / 1e6;
  const latest = Math.max(0, ...series.map((each) => each.t_ns.at(-1) ?? 0)) / 1e6;
  const plot = () => html("div", { class: "plot" });
  const shown = series.map((each) => ({ each, time: plot(), law: plot() }));
  fill(place, ...shown.flatMap(({ each, time, law }) => [
    html("h4", {}, `${each.place}, ${each.scheme} ${each.phase}: `, ...legend(each)),
    time,
    html("h4", {}, "share of the slots with traffic up to Mbit/s: ", ...laws(each)),
    law,
    html("p", { class: "hint" }, summary(each)),
  ]));
  for (const { each, time, law } of shown) {
    const times = each.t_ns.map((ns) => ns / 1e6);
    const provisioned = inSight(each);
    const line = provisioned === null ? null : mbps(provisioned);
    new Plot(time, OVER_TIME).show([times, each.bps.map(mbps), times.map(() => line)], highest, latest);
    const fit = each.fit ?? each.busy_bps.map(() => null);
    new Plot(law, LAWS).show([each.busy_bps.map(mbps), shares(each.busy_bps), fit], 1 / 1.05);
  }
}

/** The rate to provision, unless there is none, or it would dwarf all that was sent. */
function inSight(each: VolumeTold): number | null {
  const rate = each.provisioned_bps;
  return rate !== null && rate <= 2 * Math.max(...each.bps) ? rate : null;
}

function mbps(bps: number): number {
  return bps / 1e6;
}

/** The share of sorted values that are no larger than each. */
function shares(sorted: number[]): number[] {
  return sorted.map((_value, index) => (index + 1) / sorted.length);
}

function legend(each: VolumeTold): HTMLElement[] {
  return [
    html("span", { class: "sent" }, `Mbit/s per ${duration(each.slot_ns)}`),
    ...(each.provisioned_bps === null ? [] : [html("span", { class: "provisioned" }, ` to provision${above(each)}`)]),
  ];
}

function above(each: VolumeTold): string {
  return inSight(each) === null ? ", above the plot" : "";
}

function laws(each: VolumeTold): HTMLElement[] {
  const measured = html("span", { class: "sent" }, "measured");
  return each.fit === null ? [measured] : [measured, html("span", { class: "law" }, " log-normal")];
}

function summary(each: VolumeTold): string {
  const idle = each.idle > 0 ? `, ${each.idle} of ${each.slots} slots idle` : "";
  const mean = `mean ${rate(each.mean_bps)}${idle}`;
  if (each.provisioned_bps === null || each.exceeded === null) return `${mean}; too few slots with traffic for a fit`;
  const line = `provisioned ${rate(each.provisioned_bps)} = mean + ${rate(each.provisioned_bps - each.mean_bps)}`;
  return `${mean}; ${line}, exceeded in ${percent(each.exceeded)} of the slots (aim: ${percent(each.epsilon)})`;
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
}
