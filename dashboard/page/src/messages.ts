// Messages of the stream, and answers to orders (docs/dashboard.md).

export interface Picture {
  name: string;
  /** Names of nodes by row, hosts first. */
  rows: string[][];
  hosts: string[];
  links: LinkDrawn[];
  /** Switch, port, index of the link, end of the link (0: a, 1: b). */
  ports: [string, number, number, 0 | 1][];
}

export interface LinkDrawn {
  a: string;
  b: string;
  nodes: [string, string];
  rate_bps: number | null;
  delay_ns: number | null;
}

export interface Hello {
  version: number;
  title: string;
  clock: "wall" | "virtual" | "finished";
  dilation: number;
  picture: Picture;
  schemes: { name: string; label: string }[];
  controls: string[];
}

/** A multicast group: its receivers, and the links of its tree. */
export interface Group {
  address: string;
  members: string[];
  links: number[];
}

/** A copy of an object at a host: complete, under way or in part, to begin, failed or silent. */
export interface Replica {
  host: string;
  state: "whole" | "part" | "none" | "lost";
  note: string;
}

/** Objects with several replicas: those that a phase writes, or those of a blob store (no scheme, no phase). */
export interface Objects {
  scheme: string | null;
  phase: string | null;
  objects: { name: string; bytes: number; note: string; replicas: Replica[] }[];
  /** Objects that are not told. */
  more: number;
  /** The servers of a store. */
  servers: Replica[];
}

export type Kind = "drop" | "trim" | "mark" | "pause";

export interface Sample {
  at_ns: number;
  /** Thousandths of the time in which a port sent, by port. */
  utilisation: number[];
  /** Bytes that wait at a port now. */
  queue: number[];
  /** Index of the port, what happened, how often. */
  events: [number, Kind, number][];
}

export interface Phase {
  scheme: string;
  phase: string;
  round: number;
  running: boolean;
}

export interface Curve {
  scheme: string;
  phase: string;
  t_ns: number[];
  bytes: number[];
}

export interface Result {
  scheme: string;
  phase: string;
  flows: number;
  fct_ns: number[];
  /** Median, 99th percentile, longest; null: no flow has ended. */
  percentiles_ns: [number, number, number] | null;
  drop: number;
  trim: number;
  mark: number;
  /** Of each tenant that is guaranteed something, the two VMs whose slowest packet took most of its bound. */
  tenants: { tenant: string; source: string; destination: string; longest_ns: number; bound_ns: number; conforms: boolean }[];
  utilisation: number[];
  queue: number[];
  dropped: number[];
}

export interface QueueTold {
  queue: number | string;
  depth_bytes: number;
  max_depth_bytes: number;
  average_delay_ns: number;
  max_delay_ns: number;
  sent: number;
  marked: number;
  refused: number;
  dropped: number;
  pauses: number | null;
}

export interface LinkTold {
  ports: { place: string; to: string; queues: QueueTold[] }[];
}

/** What a port sent in the time slots of a phase. */
export interface VolumeTold {
  place: string;
  scheme: string;
  phase: string;
  slot_ns: number;
  slots: number;
  /** Slots in which nothing was sent. */
  idle: number;
  t_ns: number[];
  bps: number[];
  /** Rates of the other slots, sorted, and the share that the fitted log-normal has below each; null: no fit. */
  busy_bps: number[];
  fit: number[] | null;
  mean_bps: number;
  /** Rate that a share `epsilon` of the slots exceeds, by the fit. */
  provisioned_bps: number | null;
  epsilon: number;
  /** The share that does. */
  exceeded: number | null;
}

export interface Entries {
  name: string;
  entries: string[];
  more: number;
}

export interface SwitchTold {
  tables: Entries[];
  others: Entries;
  counters: { name: string; index: number | string; packets: number; bytes: number }[];
}

export interface Visit {
  packet: number;
  at_ns: number;
  lines: string[];
}

/** A frame that a switch port received (`in`) or sent. */
export interface Frame {
  at_ns: number;
  direction: string;
  bytes: number;
  text: string;
}

export interface TraceTold {
  switch: string;
  visits: Visit[];
}
