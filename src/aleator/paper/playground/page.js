"use strict";
// The page replays trainings of the library. Python wrote two things into it: #facts (JSON: data sets, lams, epochs) and
// #runs (base64 of deflated numbers). Here they are only looked up, drawn, and compared by the formulas of section 6.

const facts = JSON.parse(document.getElementById("facts").textContent);
const state = { data: 0, coupling: 0, lam: 0, frame: 0, playing: false, standard: true };
const at = (id) => document.getElementById(id);

// ---------------------------------------------------------------- the numbers

async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

let curves, numbers; // Int16 (runs, frames, 2, points), in steps of facts.step; Float32 (runs, frames, facts.numbers)

async function load() {
  const buffer = await unpacked(at("runs").textContent);
  const [runs, frames, points] = [facts.n_runs, facts.epochs.length, facts.x.length];
  const size = runs * frames * 2 * points;
  curves = new Int16Array(buffer, 0, size);
  numbers = new Float32Array(buffer.slice(2 * size));
  // Stored are differences, which pack better: of neighbouring points twice, and of a stage from the one before.
  const row = 2 * points;
  for (let start = 0; start < size; start += points) {
    for (let times = 0; times < 2; times++)
      for (let i = start + 1; i < start + points; i++) curves[i] += curves[i - 1];
    if (Math.floor(start / row) % frames > 0)
      for (let i = start; i < start + points; i++) curves[i] += curves[i - row];
  }
}

// Which run: for every data set first the standard network, then coupling by coupling the lams.
const perData = () => 1 + facts.couplings.length * facts.lams.length;
const pairRun = () => state.data * perData() + 1 + state.coupling * facts.lams.length + state.lam;
const plainRun = () => state.data * perData();

function curve(run, which, frame) {
  const [n, frames] = [facts.x.length, facts.epochs.length];
  const low = Math.min(Math.floor(frame), frames - 1), high = Math.min(low + 1, frames - 1), part = frame - low;
  const from = ((run * frames + low) * 2 + which) * n, to = ((run * frames + high) * 2 + which) * n;
  // what did not fit into 16 bits is far outside the picture
  const value = (k) => (Math.abs(curves[k]) >= 32767 ? Math.sign(curves[k]) * (which ? 1e5 : 1e4) : facts.step * curves[k]);
  return facts.x.map((_, i) => (1 - part) * value(from + i) + part * value(to + i));
}

function numbersOf(run) {
  const n = facts.numbers.length, from = (run * facts.epochs.length + stage()) * n;
  return Object.fromEntries(facts.numbers.map((name, i) => [name, numbers[from + i]]));
}

const stage = () => Math.floor(state.frame + 1e-9);

// ---------------------------------------------------------------- section 6, as in aleator.theory

const speeds = {
  sigmoid: { regressor: (L, lam) => Math.log1p(lam / L), quantifier: (L, lam) => lam / (1 + lam / L) }, // eq. (6.4), (6.6)
  softplus: { regressor: (L, lam) => lam / L, quantifier: (L, lam) => ((L * L) / lam) * Math.expm1(-lam / L) ** 2 }, // eq. (6.11), (6.12)
};
const ratio = (network, lam, L1, L2) => { // R and Q, eq. (6.7), (6.8), (6.13), (6.14)
  const speed = speeds[facts.couplings[state.coupling]][network];
  return speed(L1, lam) / speed(L2, lam);
};

// ---------------------------------------------------------------- drawing

const make = (name, attributes, parent) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return parent.appendChild(element);
};
const put = (parent, x, y, text, extra = {}) => { make("text", { x, y, ...extra }, parent).textContent = text; };
const line = (xs, ys) => "M" + xs.map((x, i) => `${x.toFixed(1)} ${ys[i].toFixed(1)}`).join("L");

// A picture with its scales: x and y turn values into places. Drawn anew each time: a few dozen elements.
function picture(id, [x0, x1], [y0, y1], { logX = false, logY = false, left = 38 } = {}) {
  const svg = at(id), { width, height } = svg.getBoundingClientRect();
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const box = { left, right: width - 6, top: 16, bottom: height - 24 };
  const scale = (log, from, to, low, high) => {
    const [a, b] = log ? [Math.log(from), Math.log(to)] : [from, to];
    return (v) => low + ((log ? Math.log(v) : v) - a) / (b - a) * (high - low);
  };
  const clamp = (f) => (v) => Math.max(-1e4, Math.min(1e4, f(v)));
  const clip = make("clipPath", { id: `${id}-box` }, svg);
  make("rect", { x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top }, clip);
  const inside = make("g", { "clip-path": `url(#${id}-box)` }, svg);
  return { svg, inside, box, x: clamp(scale(logX, x0, x1, box.left, box.right)), y: clamp(scale(logY, y0, y1, box.bottom, box.top)) };
}

function axes({ svg, inside, box, x, y }, xTicks, yTicks, name, unit = "") {
  for (const v of yTicks) {
    make("line", { x1: box.left, x2: box.right, y1: y(v), y2: y(v), class: "axis" }, svg);
    put(svg, box.left - 6, y(v) + 4, short(v) + unit, { "text-anchor": "end" });
  }
  for (const v of xTicks) put(svg, x(v), box.bottom + 16, short(v), { "text-anchor": v === xTicks[0] ? "start" : "middle" });
  if (name) put(svg, box.right, box.bottom + 16, name, { "text-anchor": "end", class: "strong" });
  svg.append(inside); // curves lie above the grid
}

const short = (v) => (v !== 0 && (Math.abs(v) >= 1e4 || Math.abs(v) < 1e-3) ? v.toExponential(0).replace("e+", "e") : `${+v.toPrecision(3)}`.replace("-", "−"));
const rounded = (v) => `${+v.toPrecision(v >= 100 ? 3 : 2)}`;

function regions(view, data) {
  const ends = [0, ...data.edges, 1];
  data.noisy.forEach((noisy, k) => {
    const [a, b] = [view.x(ends[k]), view.x(ends[k + 1])];
    if (noisy) make("rect", { x: a, width: b - a, y: view.box.top, height: view.box.bottom - view.box.top, class: "strip" }, view.svg);
    if (k) make("line", { x1: a, x2: a, y1: view.box.top, y2: view.box.bottom, class: "edge" }, view.svg);
  });
}

function drawFit(data) {
  const view = picture("fit", [0, 1], data.range);
  regions(view, data);
  axes(view, [0, 0.2, 0.4, 0.6, 0.8], data.ticks, "x");
  const xs = facts.x.map(view.x), mean = curve(pairRun(), 0, state.frame), std = curve(pairRun(), 1, state.frame);
  make("path", { class: "dots", d: data.samples.filter(([, b]) => b > data.range[0] && b < data.range[1]).map(([a, b]) => `M${view.x(a).toFixed(1)} ${view.y(b).toFixed(1)}h0`).join("") }, view.inside);
  const up = mean.map((m, i) => view.y(m + std[i])), down = mean.map((m, i) => view.y(m - std[i]));
  make("path", { class: "pair-band", d: line(xs, up) + "L" + line(xs.slice().reverse(), down.slice().reverse()).slice(1) + "Z" }, view.inside);
  make("path", { class: "true-line", d: line(xs, data.mean.map(view.y)) }, view.inside);
  if (state.standard) make("path", { class: "plain-line", d: line(xs, curve(plainRun(), 0, state.frame).map(view.y)) }, view.inside);
  make("path", { class: "pair-line", d: line(xs, mean.map(view.y)) }, view.inside);
}

function drawSpread(data) {
  const view = picture("spread", [0, 1], [0, data.most]);
  regions(view, data);
  axes(view, [0, 0.2, 0.4, 0.6, 0.8], data.spreadTicks, "x");
  const xs = facts.x.map(view.x);
  make("path", { class: "true-line", d: line(xs, data.std.map(view.y)) }, view.inside);
  const real = curve(pairRun(), 0, state.frame).map((mean, i) => view.y(Math.hypot(data.std[i], mean - data.mean[i])));
  make("path", { class: "real-line", d: line(xs, real) }, view.inside);
  make("path", { class: "std-line", d: line(xs, curve(pairRun(), 1, state.frame).map(view.y)) }, view.inside);
}

function drawWeights(data, measured) {
  const view = picture("weights", [0, data.noisy.length], [0, 100], { left: 46 });
  axes(view, [], [0, 25, 50, 75, 100], "", " %");
  data.noisy.forEach((noisy, k) => {
    const middle = view.x(k + 0.5), width = (view.x(1) - view.x(0)) * 0.38;
    const bars = [["pair-bar", measured[`weight_${k + 1}`], state.standard ? -1 : -0.5], ...(state.standard ? [["plain-bar", data.shares[k], 0]] : [])];
    for (const [kind, share, side] of bars) {
      const top = view.y(100 * share);
      make("rect", { class: kind, x: middle + side * width, width, y: top, height: Math.max(0, view.box.bottom - top), rx: 2 }, view.svg);
      put(view.svg, middle + (side + 0.5) * width, top - 4, `${Math.round(100 * share)}`, { "text-anchor": "middle", class: "strong bar" });
    }
    put(view.svg, middle, view.box.bottom + 16, noisy ? "noisy" : "clean", { "text-anchor": "middle" });
  });
}

const decades = (from, to) => Array.from({ length: Math.round(Math.log10(to / from)) + 1 }, (_, k) => from * 10 ** k);
const manyLams = () => Array.from({ length: 120 }, (_, k) => facts.lams[0] * (facts.lams.at(-1) / facts.lams[0]) ** (k / 119));

function overLam(id, range, functions, reference) {
  const view = picture(id, [facts.lams[0], facts.lams.at(-1)], range, { logX: true, logY: true, left: 46 });
  axes(view, decades(facts.lams[0], facts.lams.at(-1)).slice(0, -1), decades(...range).filter((_, k, all) => all.length < 6 || k % 2 === 0), "λ");
  const lam = facts.lams[state.lam], lams = manyLams();
  if (reference) make("line", { x1: view.box.left, x2: view.box.right, y1: view.y(reference), y2: view.y(reference), class: "one" }, view.svg);
  make("line", { x1: view.x(lam), x2: view.x(lam), y1: view.box.top, y2: view.box.bottom, class: "now" }, view.svg);
  functions.forEach(([kind, label, value], k) => {
    make("path", { class: `${kind}-line`, d: line(lams.map(view.x), lams.map((v) => view.y(value(v)))) }, view.inside);
    make("circle", { class: `on-${kind}`, cx: view.x(lam), cy: view.y(value(lam)), r: 5 }, view.svg);
    put(view.svg, k ? view.box.right : view.box.left, 11, label, { class: "label", "text-anchor": k ? "end" : "start", style: `fill: var(--${kind})` });
  });
}

const power = (v, round) => 10 ** round(Math.log10(v));

function drawTheory({ L1, L2 }) {
  const all = manyLams();
  const most = Math.max(...all.map((lam) => ratio("regressor", lam, L1, L2)), 10), least = Math.min(...all.map((lam) => ratio("quantifier", lam, L1, L2)), 0.1);
  overLam("ratios", [power(least, Math.floor), power(most, Math.ceil)], [
    ["regressor", "R: for the prediction", (lam) => ratio("regressor", lam, L1, L2)],
    ["std", "Q: for the expected error", (lam) => ratio("quantifier", lam, L1, L2)],
  ], 1);
  const own = speeds[facts.couplings[state.coupling]];
  const both = all.flatMap((lam) => [own.regressor(L1, lam), own.quantifier(L1, lam)]);
  overLam("speeds", [power(Math.min(...both), Math.floor), power(Math.max(...both), Math.ceil)], [
    ["regressor", "the prediction", (lam) => own.regressor(L1, lam)],
    ["std", "the expected error", (lam) => own.quantifier(L1, lam)],
  ]);
}

const times = (v) => (v > 1000 ? "more than 1,000" : rounded(v));
const figure = (v) => (Number.isNaN(v) ? "diverged" : Math.abs(v) >= 1e4 || Math.abs(v) < 1e-3 ? v.toExponential(2) : v.toPrecision(3));

// How much more a clean sample counts than a noisy one for the prediction, by the weights as they are now.
function advantage(data, pair) {
  const mean = (noisy) => {
    const sum = (values) => values.filter((_, k) => data.noisy[k] === noisy).reduce((a, b) => a + b, 0);
    return sum(data.shares.map((_, k) => pair[`weight_${k + 1}`])) / sum(data.shares);
  };
  return mean(false) / mean(true);
}

function sentences(data, pair, plain) {
  if (Number.isNaN(pair.error)) return ["Training has left the finite numbers: one step was too large. What you see is the last stage before."];
  if (pair.error > 3) return ["Training has broken down: one step was too large, and the networks are far off. With softplus the weight of a sample has no bound."];
  const strips = data.kind === "strips", more = advantage(data, pair), gain = plain.error / pair.error;
  const weight = more > 1.25 ? `a clean sample counts ${times(more)} times as much as a noisy one` : more < 0.8 ? `a noisy sample counts ${times(1 / more)} times as much as a clean one` : "clean and noisy samples count about the same";
  const sentences = [`With λ = ${facts.lams[state.lam]}, after ${facts.epochs[stage()].toLocaleString("en")} ${stage() ? "passes" : "pass"}, ${weight} for the prediction.`];
  const place = strips ? "in the clean regions" : "of the mean";
  const compared = gain > 1.15 ? `${times(gain)} times nearer the truth ${place} than the standard network`
    : gain < 0.87 ? `${times(1 / gain)} times further from the truth ${place} than the standard network`
      : `about as near the truth ${place} as the standard network`;
  if (state.standard) sentences.push(`The pair is ${compared}.`);
  if (stage() < facts.epochs.length / 2 && !state.playing) sentences.push("It is still learning: press play.");
  return sentences;
}

function tell(data, pair, plain) {
  const lam = facts.lams[state.lam], { L1, L2 } = pair, R = ratio("regressor", lam, L1, L2), Q = ratio("quantifier", lam, L1, L2);
  const place = data.kind === "strips" ? "in the clean regions" : "of the mean";
  const rows = [
    [`error ${place}, pair`, pair.error, "pair-error"], [`error ${place}, standard network`, plain.error, "plain-error"],
    ["loss L1 where it is clean, in variances of y", L1, "L1"], ["loss L2 where it is noisy", L2, "L2"],
    ["R by the formula of sec. 6", R, "R"], ["Q by the formula of sec. 6", Q, "Q"],
  ];
  at("numbers").tBodies[0].replaceChildren(...rows.map(([name, value, id]) => {
    const row = document.createElement("tr"), head = document.createElement("th"), cell = document.createElement("td");
    head.textContent = name, head.scope = "row", cell.textContent = figure(value), cell.id = id, cell.dataset.value = value;
    row.append(head, cell);
    return row;
  }));
  at("story").setAttribute("aria-live", state.playing ? "off" : "polite");
  at("story").textContent = sentences(data, pair, plain).join(" ");
  at("fit").setAttribute("aria-label", `Prediction over x. ${at("story").textContent}`);
  at("spread").setAttribute("aria-label", "Error of the prediction over x, expected and real.");
  at("weights").setAttribute("aria-label", "Share of the weight of each region: " + data.noisy.map((noisy, k) => `${noisy ? "noisy" : "clean"} ${Math.round(100 * pair[`weight_${k + 1}`])} %`).join(", "));
  at("ratios").setAttribute("aria-label", `At this lambda R is ${figure(R)} and Q is ${figure(Q)}.`);
  at("speeds").setAttribute("aria-label", "Learning speeds of both networks against lambda.");
}

function draw() {
  const data = facts.data[state.data], pair = numbersOf(pairRun()), plain = numbersOf(plainRun());
  drawFit(data);
  drawSpread(data);
  drawWeights(data, pair);
  drawTheory(pair);
  tell(data, pair, plain);
  at("share-value").textContent = data.kind === "strips" ? `${Math.round(100 * data.share)} %` : "";
  at("share").setAttribute("aria-valuetext", `${Math.round(100 * (data.share || 0))} percent`);
  at("lam-value").textContent = facts.lams[state.lam];
  at("lam").setAttribute("aria-valuetext", `${facts.lams[state.lam]}`);
  at("epoch-value").textContent = facts.epochs[stage()].toLocaleString("en");
  at("frame").setAttribute("aria-valuetext", `${facts.epochs[stage()]} passes`);
  at("frame").value = stage();
  at("share-field").hidden = data.kind !== "strips";
  at("play").textContent = state.playing ? "❚❚ pause" : "▶ play";
}

// ---------------------------------------------------------------- controls

const shares = facts.data.map((data, k) => ({ ...data, k })).filter((data) => data.kind === "strips");
const SECONDS = 9; // from the first pass to the last

let played = 0; // which press of play: an older one ends when a newer one begins

function play(on) {
  const last = facts.epochs.length - 1, mine = ++played;
  if (on && state.frame >= last) state.frame = 0;
  state.playing = on;
  draw();
  if (!on) return;
  const first = state.frame, still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  let start;
  const step = (now) => {
    if (mine !== played) return;
    start ??= now;
    state.frame = Math.min(last, first + ((now - start) / 1000) * (last / SECONDS));
    if (still) state.frame = stage();
    state.playing = state.frame < last;
    draw();
    if (state.playing) requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
}

function show(name, coupling, lam) {
  state.data = facts.data.findIndex((data) => data.name === name);
  state.coupling = facts.couplings.indexOf(coupling);
  state.lam = facts.lams.indexOf(lam);
  const data = facts.data[state.data];
  document.querySelector(`[name=kind][value=${data.kind}]`).checked = true;
  document.querySelector(`[name=coupling][value=${coupling}]`).checked = true;
  if (data.kind === "strips") at("share").value = shares.findIndex(({ k }) => k === state.data);
  at("lam").value = state.lam;
}

function remember() {
  const data = facts.data[state.data];
  const hash = `#${data.name},${facts.couplings[state.coupling]},${facts.lams[state.lam]}`;
  try { history.replaceState(null, "", hash); } catch { /* some browsers forbid it for files */ }
}

function recall() {
  const [name, coupling, lam] = location.hash.slice(1).split(",");
  const known = facts.data.some((data) => data.name === name) && facts.couplings.includes(coupling) && facts.lams.includes(+lam);
  if (known) show(name, coupling, +lam);
  else show("strips-20", "sigmoid", 0.05);
  if (!known && location.hash) remember();
}

function changed() {
  const kind = document.querySelector("[name=kind]:checked").value;
  state.data = kind === "smooth" ? facts.data.findIndex((data) => data.kind === "smooth") : shares[+at("share").value].k;
  state.coupling = facts.couplings.indexOf(document.querySelector("[name=coupling]:checked").value);
  state.lam = +at("lam").value;
  state.standard = at("standard").checked;
  remember();
  draw();
}

async function begin() {
  await load();
  at("share").max = shares.length - 1;
  at("lam").max = facts.lams.length - 1;
  at("frame").max = facts.epochs.length - 1;
  recall();
  state.standard = at("standard").checked; // a browser may remember it
  state.frame = facts.epochs.length - 1;
  for (const input of document.querySelectorAll("#controls input:not(#frame)")) input.addEventListener("input", changed);
  at("frame").addEventListener("input", () => { state.frame = +at("frame").value; play(false); });
  at("play").addEventListener("click", () => play(!state.playing));
  for (const button of document.querySelectorAll("[data-preset]"))
    button.addEventListener("click", () => { const [name, coupling, lam] = button.dataset.preset.split(" "); show(name, coupling, +lam); remember(); state.frame = 0; play(true); });
  addEventListener("keydown", (event) => {
    if (event.key !== " " || event.target.closest("button, summary, [type=radio], [type=checkbox]")) return;
    event.preventDefault();
    play(!state.playing);
  });
  addEventListener("hashchange", () => { recall(); draw(); });
  new ResizeObserver(draw).observe(document.body);
  draw();
  document.body.dataset.ready = "yes";
}

begin().catch((error) => { at("story").textContent = `This browser cannot show the page: ${error.message}`; });
