// Requests to the API, and the stream of changes.

const KEY = "mooring.token";
const base = new URL("v1/", new URL(".", location.href.split("#")[0].split("?")[0]));

/** Move the token of the link into this origin's storage, so that it is not seen or shared. */
export function takeToken() {
  const url = new URL(location.href);
  const token = url.searchParams.get("token");
  if (token === null) return;
  localStorage.setItem(KEY, token);
  url.searchParams.delete("token");
  history.replaceState(null, "", url.pathname + url.search + url.hash);
}

export class HttpError extends Error {
  constructor(path, status, message) {
    super(message);
    this.path = path;
    this.status = status;
  }
}

function headers(more) {
  const token = localStorage.getItem(KEY);
  return token ? { authorization: `Bearer ${token}`, ...more } : { ...more };
}

async function failed(path, reply) {
  let message = reply.statusText;
  try { message = (await reply.json()).message ?? message; } catch { /* not a Status */ }
  return new HttpError(path, reply.status, message);
}

export async function get(path, signal) {
  const reply = await fetch(new URL(path, base), { headers: headers(), signal, cache: "no-store" });
  if (!reply.ok) throw await failed(path, reply);
  return reply.json();
}

export async function post(path, body) {
  const reply = await fetch(new URL(path, base), {
    method: "POST", headers: headers({ "content-type": "application/json" }), body: JSON.stringify(body),
  });
  if (!reply.ok) throw await failed(path, reply);
  return reply.json();
}

const SILENCE = 35_000;  // milliseconds; heartbeats come every 15 s
const HIDDEN = 30_000;

/** Follow the stream until the page is closed: on(event, data), status(state, error). */
export function follow(on, status) {
  let last = "", attempt = 0, abort = null, hiddenTimer = 0, waiting = 0;

  async function run() {
    abort = new AbortController();
    let watchdog = 0;
    const alive = () => { clearTimeout(watchdog); watchdog = setTimeout(() => abort.abort(), SILENCE); };
    try {
      alive();
      const path = `events${last ? `?after=${encodeURIComponent(last)}` : ""}`;
      const reply = await fetch(new URL(path, base), { headers: headers(), signal: abort.signal, cache: "no-store" });
      if (!reply.ok) throw await failed("events", reply);
      const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
      const parse = parser((event, data, id) => { if (id) last = id; if (event !== "bye") on(event, data, id); });
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        attempt = 0;
        alive();
        status("on");
        parse(value);
      }
      if (!document.hidden) again(0);
    } catch (error) {
      if (error.status === 401 || error.status === 403) { status("denied", error); return; }
      if (paused) return;
      status("off", error);
      again(Math.min(10_000, 500 * 2 ** attempt++) * (0.75 + Math.random() / 2));
    } finally {
      clearTimeout(watchdog);
    }
  }

  let paused = false;
  function again(delay) {
    clearTimeout(waiting);
    waiting = setTimeout(run, delay);
  }
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hiddenTimer);
    if (document.hidden) {
      hiddenTimer = setTimeout(() => { paused = true; clearTimeout(waiting); abort?.abort(); }, HIDDEN);
    } else if (paused) { paused = false; attempt = 0; run(); }
  });
  addEventListener("online", () => { if (!paused) { attempt = 0; abort?.abort(); } });
  run();
  return { retry() { attempt = 0; again(0); } };
}

/** Parse server-sent events from text that arrives in pieces. */
export function parser(emit) {
  let rest = "", event = "", data = [], id = "";
  return (text) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (line === "") {
        if (data.length) emit(event, JSON.parse(data.join("\n")), id);
        event = ""; data = []; id = "";
      } else if (!line.startsWith(":")) {
        const at = line.indexOf(": ");
        const name = line.slice(0, at), value = line.slice(at + 2);
        if (name === "event") event = value;
        else if (name === "data") data.push(value);
        else if (name === "id") id = value;
      }
    }
  };
}
