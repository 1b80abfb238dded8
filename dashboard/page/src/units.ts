// Numbers as people read them.

export function bytes(value: number): string {
  if (value >= 1e6) return `${digits(value / 1e6)} MB`;
  return value >= 1e3 ? `${digits(value / 1e3)} KB` : `${Math.round(value)} B`;
}

export function duration(ns: number): string {
  if (ns >= 1e9) return `${digits(ns / 1e9)} s`;
  return ns >= 1e6 ? `${digits(ns / 1e6)} ms` : `${digits(ns / 1e3)} us`;
}

export function rate(bps: number): string {
  return bps >= 1e9 ? `${digits(bps / 1e9)} Gbit/s` : `${digits(bps / 1e6)} Mbit/s`;
}

export function count(value: number): string {
  return value.toLocaleString("en");
}

/** Three digits. */
function digits(value: number): string {
  if (value >= 100 || value === 0) return value.toFixed(0);
  return value >= 10 ? value.toFixed(1) : value.toFixed(2);
}
