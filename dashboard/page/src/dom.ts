// Elements are made of text only: nothing that was told ever becomes HTML.

type Child = Node | string | number | null | undefined;
type Properties = Record<string, string | number | boolean | ((event: Event) => void) | undefined>;

/** An HTML element. Properties that are functions listen to the event of that name. */
export function html<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  properties: Properties = {},
  ...children: Child[]
): HTMLElementTagNameMap[Tag] {
  return filled(document.createElement(tag), properties, children);
}

/** An SVG element, likewise. */
export function svg<Tag extends keyof SVGElementTagNameMap>(
  tag: Tag,
  properties: Properties = {},
  ...children: Child[]
): SVGElementTagNameMap[Tag] {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), properties, children);
}

function filled<Made extends Element>(element: Made, properties: Properties, children: Child[]): Made {
  for (const [name, value] of Object.entries(properties)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== undefined && value !== false) element.setAttribute(name, String(value));
  }
  element.append(...present(children));
  return element;
}

function present(children: Child[]): (Node | string)[] {
  return children
    .filter((child): child is Node | string | number => child !== null && child !== undefined)
    .map((child) => (child instanceof Node ? child : String(child)));
}

/** Puts other children in place of those that an element has. */
export function fill(element: Element, ...children: Child[]): void {
  element.replaceChildren(...present(children));
}

/** The element of the page with this id. */
export function byId(id: string): HTMLElement {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no #${id}`);
  return found;
}
