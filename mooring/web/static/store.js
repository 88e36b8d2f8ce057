// The cluster as the page knows it. Snapshots replace it, deltas change it; listeners hear of both.

export const NOT_READY = 1, CORDONED = 2, TAINTED = 4, FAILED = 8;

export const store = {
  loaded: false,
  resources: [],
  nodes: new Map(),
  labelKeys: new Set(),
  counts: null,
  state: {},
  version: 0,  // of nodes
  membership: 0,  // of the set of nodes and their labels
  asOf: 0,  // the time of the last event by the server's clock, in milliseconds
  heardAt: 0,  // that time by our clock
};

const listeners = new Set();

/** Call a function for every change: run({nodes, counts, decisions, state}). Returns how to stop. */
export function listen(run) {
  listeners.add(run);
  return () => listeners.delete(run);
}

function notify(what) {
  for (const run of [...listeners]) {
    try { run(what); } catch (error) { console.error(error); }  // one view must not stop the others
  }
}

/** The server's time; at a moment of a run, time stands still. */
export const now = () => (store.state.at === undefined ? store.asOf + (Date.now() - store.heardAt) * (store.state.speed ?? 1) : store.asOf);
const setClock = (text) => { if (text) { store.asOf = Date.parse(text); store.heardAt = Date.now(); } };

export function snapshot(body) {
  store.nodes.clear();
  store.labelKeys.clear();
  store.loaded = true;
  store.counts = body.cluster?.counts ?? null;
  store.state = { ...body.state, status: body.status };
  if (body.cluster) {
    setClock(body.cluster.asOf);
    putNodes(body.cluster.nodes);
  }
  store.membership++;
  notify({ nodes: true, counts: true, decisions: true, state: true, all: true });
}

export function delta(body) {
  setClock(body.asOf);
  if (body.gone) {
    for (const name of body.gone) store.nodes.delete(name);
    store.membership++;
  }
  if (body.nodes) putNodes(body.nodes);
  if (body.gone) store.version++;
  if (body.counts) store.counts = body.counts;
  if (body.state) store.state = body.state;
  notify({
    nodes: Boolean(body.nodes || body.gone), names: body.nodes?.names, counts: Boolean(body.counts),
    decisions: Boolean(body.decisions), state: Boolean(body.state),
  });
}

function putNodes(columns) {
  store.version++;
  store.resources = columns.resources;
  const { names, flags, podCounts, podsAllowed, allocatable, requested } = columns;
  const kinds = columns.kinds ?? [], pods = columns.pods ?? [];
  const labels = Object.entries(columns.labels ?? {});
  let at = 0;
  names.forEach((name, i) => {
    const before = store.nodes.get(name);
    const own = {};
    for (const [key, column] of labels) {
      const index = column.of[i];
      if (index >= 0) own[key] = column.values[index];
    }
    if (!before || !sameLabels(before.labels, own)) {
      for (const key in own) store.labelKeys.add(key);
      store.membership++;
    }
    const mine = new Array(podCounts[i]);
    for (let j = 0; j < mine.length; j++) mine[j] = kinds[pods[at++]];
    store.nodes.set(name, {
      name, flags: flags[i], allowed: podsAllowed[i], labels: own, pods: mine,
      allocatable: allocatable.map((column) => column[i]), requested: requested.map((column) => column[i]),
    });
  });
}

function sameLabels(a, b) {
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => a[key] === b[key]);
}

/** How much of a resource a node has given away: [used, total]. */
export function usage(node, resource) {
  if (resource === "pods") return [node.pods.length, node.allowed];
  const at = store.resources.indexOf(resource);
  return at < 0 ? [0, 0] : [node.requested[at] ?? 0, node.allocatable[at] ?? 0];
}
