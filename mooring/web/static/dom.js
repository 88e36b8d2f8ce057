// Elements from functions. Text reaches the page only as text nodes.

/** Make an element: h("a", {href, class, onclick, style: {width}}, ...children). */
export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, v] of Object.entries(value)) element.style.setProperty(key, v);
    else if (name === "value" || name === "checked" || name === "disabled") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  add(element, children);
  return element;
}

function add(element, children) {
  for (const child of children) {
    if (Array.isArray(child)) add(element, child);
    else if (child instanceof Node) element.append(child);
    else if (child !== undefined && child !== null && child !== false) element.append(String(child));
  }
}

export function replace(element, ...children) {
  element.replaceChildren();
  add(element, children);
  return element;
}

/** Call a function at most once per period, and once more at the end of it. */
export function throttled(period, run) {
  let timer = 0, again = false, last = -Infinity;
  const call = () => {
    const now = performance.now();
    if (timer) { again = true; return; }
    if (now - last >= period) { last = now; run(); } else {
      timer = setTimeout(() => { timer = 0; last = performance.now(); run(); if (again) { again = false; } }, period - (now - last));
    }
  };
  call.cancel = () => { clearTimeout(timer); timer = 0; };
  return call;
}

const announcer = () => document.getElementById("announce");
let spoken = 0;

/** Say something to screen readers, at most once per second. */
export const announce = (text) => {
  clearTimeout(spoken);
  spoken = setTimeout(() => { announcer().textContent = text; }, 250);
};
