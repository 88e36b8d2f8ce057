// Explanations in Chinese, built from the fields of the record. In English, the sentences are the server's.

import { number } from "./format.js";
import { has, language, t } from "./i18n.js";

const inEnglish = () => language() === "en";
const some = (names, most = 3) => names.slice(0, most).join("、") + (names.length > most ? t("say.more", { count: number(names.length - most) }) : "");

/** Why the pod is where it is, in one sentence. */
export function headline(explanation) {
  if (inEnglish()) return explanation.summary;
  const say = STATES[explanation.state];
  return say ? `${explanation.pod} ${say(explanation)}` : explanation.summary;
}

/** What to do, for a change of a known kind; its other parts are in the command and the examples. */
export function advice(change) {
  if (inEnglish()) return change.text;
  if (change.kind === "pair") return change.parts.map(advice).join(t("say.and"));
  const key = `advice.${change.kind}`, field = change.field ?? "";
  if (!has(key)) return change.text;
  return t(key, { key: /\[([^\]*]+)\]$/.exec(field)?.[1] ?? field, field, node: change.examples?.[0] ?? "" });
}

/** The event that brings a pod back. */
export function awaited(event) {
  if (inEnglish()) return event.text;
  const key = `awaited.${event.resource}`;
  return has(key) ? t(key) : t("awaited.other", { kind: event.resource.split("/").pop() });
}

/** What a group of pods waits for. */
export function groupLine(group) {
  const key = `group.${group.state}`;
  return inEnglish() || !has(key) ? group.summary : t(key, { group: group.group });
}

const STATES = {
  gone: ({ attempts }) => { const last = attempts.at(-1).decision; return t("say.gone", { what: last.node ? t("say.goneOn", { node: last.node }) : last.message }); },
  scheduled: ({ node, attempts = [], now }) => {
    const last = attempts.map((each) => each.decision).filter((each) => each.node === node).at(-1);
    return t("say.on", { node, why: last ? chosen(last) : now ? t("say.again", { fit: fitting(now) }) : t("say.notRecorded") });
  },
  binding: ({ node }) => t("say.binding", { node }),
  waiting: ({ node, waiting }) => t("say.held", { node, plugins: some(waiting.heldBy.map((each) => (each.message ? `${each.plugin}（${each.message}）` : each.plugin))) }),
  finished: ({ phase }) => t(phase === "Failed" ? "say.failed" : "say.completed"),
  terminating: () => t("say.terminating"),
  gated: ({ waiting, now }) => t("say.gated", { plugin: waiting.gatedBy, gate: waiting.gate ?? "" }) + (now && !now.error ? t("say.otherwise", { fit: fitting(now) }) : ""),
  pending,
};

function pending(explanation) {
  const { waiting, group, now, attempts = [] } = explanation, last = attempts.at(-1)?.decision;
  if (waiting?.nominatedNode && waiting.victims?.length) return t("say.nominated", { node: waiting.nominatedNode, pods: some(waiting.victims) });
  if (group && has(`group.${group.state}`)) return t("say.group", { text: groupLine(group) });
  if (!now) return t("say.noProfile", { profile: explanation.profile ?? "", profiles: some(explanation.profiles ?? []) });
  if (last && (last.triedNode || last.result === "error")) return t("say.attemptFailed", { message: last.message ?? "" });
  const text = t("say.pending", { fit: fitting(now) });
  if (now.feasible) return text;
  if (now.preemption?.helps) return text + t("say.evicting", { pods: some(now.preemption.victims ?? []), node: now.preemption.node });
  return now.changes?.length ? text + t("say.helps", { advice: advice(now.changes[0]), count: number(now.changes[0].nodes) }) : text;
}

function fitting(now) {
  if (now.error) return t("say.error", { message: now.error });
  if (!now.nodes) return t("say.noNodes");
  if (!now.feasible) return t(now.nodes > 1 ? "say.noneFits" : "say.onlyDoesNotFit", { nodes: number(now.nodes) });
  return t("say.fit", { feasible: number(now.feasible), nodes: number(now.nodes) }) + (now.ranking?.length ? t("say.best", { node: now.ranking[0].node }) : "");
}

/** Why a node was chosen. */
function chosen(decision) {
  if (decision.nominated) return t("say.wasNominated");
  const { feasibleNodes: feasible = 0, nodes = 0, bestNodes = 0, ranking = [], scoredBy = [] } = decision;
  if (feasible === 1) return t(nodes === 1 ? "say.onlyNode" : "say.onlyFit", { nodes: number(nodes) });
  const [mine, other] = ranking;
  if (!mine) return t("say.notRecorded");
  if (bestNodes > 1 || !other) return t("say.oneOfBest", { best: number(bestNodes), feasible: number(feasible), total: number(mine.total) });
  const gains = scoredBy.map((name, i) => [mine.scores[i] - other.scores[i], name]).filter(([gain]) => gain).sort((a, b) => b[0] - a[0]);
  return t("say.bestOf", { feasible: number(feasible), total: number(mine.total), margin: number(mine.total - other.total), other: other.node })
    + (gains.length ? `（${gains.map(([gain, name]) => `${name} ${gain > 0 ? "+" : ""}${gain}`).join("，")}）` : "");
}
