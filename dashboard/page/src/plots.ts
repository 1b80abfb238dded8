// Plots over time and distributions, with uPlot, in the colours of the page.

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

export interface Line {
  label: string;
  /** Name of the colour among the variables of page.css. */
  colour: string;
  stepped?: boolean;
}

const HEIGHT = 120;

/** A plot that is as wide as its place. */
export class Plot {
  readonly element: HTMLElement;
  private plot: uPlot | null = null;
  private data: uPlot.AlignedData;
  private top = 0;
  private end = 0;

  constructor(
    element: HTMLElement,
    private readonly lines: Line[],
  ) {
    this.element = element;
    this.data = [[], ...lines.map(() => [])];
    new ResizeObserver(() => this.resize()).observe(element);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.rebuild());
  }

  /** Shows other values. `top`, `end`: what the axes reach at least, so that plots compare. */
  show(data: (number | null)[][], top = 0, end = 0): void {
    this.data = data as unknown as uPlot.AlignedData;
    this.top = top;
    this.end = end;
    if (this.plot === null) this.rebuild();
    else this.plot.setData(this.data);
  }

  private resize(): void {
    if (this.plot === null) this.rebuild();
    else if (this.element.clientWidth > 0) this.plot.setSize({ width: this.element.clientWidth, height: HEIGHT });
  }

  private rebuild(): void {
    this.plot?.destroy();
    this.plot = null;
    if (this.element.clientWidth === 0) return;
    const style = getComputedStyle(document.documentElement);
    const colour = (name: string) => style.getPropertyValue(`--${name}`).trim();
    const axis = { stroke: colour("faint"), grid: { stroke: colour("grid"), width: 1 }, ticks: { show: false } };
    const font = "11px system-ui, sans-serif";
    this.plot = new uPlot(
      {
        width: this.element.clientWidth,
        height: HEIGHT,
        legend: { show: false },
        cursor: { show: false },
        scales: {
          x: { time: false, range: (_plot, _low, high) => [0, Math.max(high ?? 0, this.end) || 1] },
          y: { range: (_plot, _low, high) => [0, (Math.max(high ?? 0, this.top) || 1) * 1.05] },
        },
        axes: [
          { ...axis, font, size: 26 },
          { ...axis, font, size: 40 },
        ],
        series: [
          {},
          ...this.lines.map((line) => ({
            label: line.label,
            stroke: colour(line.colour),
            width: 1.5,
            points: { show: false },
            ...(line.stepped && uPlot.paths.stepped !== undefined ? { paths: uPlot.paths.stepped({ align: 1 }) } : {}),
          })),
        ],
      },
      this.data,
      this.element,
    );
  }
}

/** The distribution of sorted values as points, up to `end`: value and share of those that are no larger. */
export function distribution(sorted: number[], end: number): [number[], number[]] {
  const [first] = sorted;
  if (first === undefined) return [[], []];
  return [
    [first, ...sorted, Math.max(end, sorted.at(-1) ?? 0)],
    [0, ...sorted.map((_value, index) => (index + 1) / sorted.length), 1],
  ];
}
