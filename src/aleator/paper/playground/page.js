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
  return facts.x.map((_, i) => facts.step * ((1 - part) * curves[from + i] + part * curves[to + i]));
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
  const box = { left, right: width - 6, top: 8, bottom: height - 24 };
  const scale = (log, from, to, low, high) => {
    const [a, b] = log ? [Math.log(from), Math.log(to)] : [from, to];
    return (v) => low + ((log ? Math.log(v) : v) - a) / (b - a) * (high - low);
  };
  const clamp = (f) => (v) => Math.max(-1e4, Math.min(1e4, f(v)));
  return { svg, box, x: clamp(scale(logX, x0, x1, box.left, box.right)), y: clamp(scale(logY, y0, y1, box.bottom, box.top)) };
}

function axes({ svg, box, x, y }, xTicks, yTicks, name, unit = "") {
  for (const v of yTicks) {
    make("line", { x1: box.left, x2: box.right, y1: y(v), y2: y(v), class: "axis" }, svg);
    put(svg, box.left - 6, y(v) + 4, short(v) + unit, { "text-anchor": "end" });
  }
  for (const v of xTicks) put(svg, x(v), box.bottom + 16, short(v), { "text-anchor": v === xTicks[0] ? "start" : "middle" });
  if (name) put(svg, box.right, box.bottom + 16, name, { "text-anchor": "end", class: "strong" });
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
  make("path", { class: "dots", d: data.samples.filter(([, b]) => b > data.range[0] && b < data.range[1]).map(([a, b]) => `M${view.x(a).toFixed(1)} ${view.y(b).toFixed(1)}h0`).join("") }, view.svg);
  const up = mean.map((m, i) => view.y(m + std[i])), down = mean.map((m, i) => view.y(m - std[i]));
  make("path", { class: "pair-band", d: line(xs, up) + "L" + line(xs.slice().reverse(), down.slice().reverse()).slice(1) + "Z" }, view.svg);
  make("path", { class: "true-line", d: line(xs, data.mean.map(view.y)) }, view.svg);
  if (state.standard) make("path", { class: "plain-line", d: line(xs, curve(plainRun(), 0, state.frame).map(view.y)) }, view.svg);
  make("path", { class: "pair-line", d: line(xs, mean.map(view.y)) }, view.svg);
}

function drawSpread(data) {
  const view = picture("spread", [0, 1], [0, data.most]);
  regions(view, data);
  axes(view, [0, 0.2, 0.4, 0.6, 0.8], data.spreadTicks, "x");
  const xs = facts.x.map(view.x);
  make("path", { class: "true-line", d: line(xs, data.std.map(view.y)) }, view.svg);
  const real = curve(pairRun(), 0, state.frame).map((mean, i) => view.y(Math.hypot(data.std[i], mean - data.mean[i])));
  make("path", { class: "real-line", d: line(xs, real) }, view.svg);
  make("path", { class: "std-line", d: line(xs, curve(pairRun(), 1, state.frame).map(view.y)) }, view.svg);
}

function drawWeights(data, said) {
  const view = picture("weights", [0, data.noisy.length], [0, 100], { left: 46 });
  axes(view, [], [0, 25, 50, 75, 100], "", " %");
  data.noisy.forEach((noisy, k) => {
    const middle = view.x(k + 0.5), width = (view.x(1) - view.x(0)) * 0.38;
    const bars = [["pair-bar", said[`weight_${k + 1}`], state.standard ? -1 : -0.5], ...(state.standard ? [["plain-bar", data.shares[k], 0]] : [])];
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

function overLam(id, range, functions, name, reference) {
  const view = picture(id, [facts.lams[0], facts.lams.at(-1)], range, { logX: true, logY: true, left: 46 });
  axes(view, decades(facts.lams[0], facts.lams.at(-1)).slice(0, -1), decades(...range).filter((_, k, all) => all.length < 6 || k % 2 === 0), "λ");
  const lam = facts.lams[state.lam], lams = manyLams();
  if (reference) make("line", { x1: view.box.left, x2: view.box.right, y1: view.y(reference), y2: view.y(reference), class: "one" }, view.svg);
  make("line", { x1: view.x(lam), x2: view.x(lam), y1: view.box.top, y2: view.box.bottom, class: "now" }, view.svg);
  functions.forEach(([kind, label, value], k) => {
    make("path", { class: `${kind}-line`, d: line(lams.map(view.x), lams.map((v) => view.y(value(v)))) }, view.svg);
    make("circle", { class: `on-${kind}`, cx: view.x(lam), cy: view.y(value(lam)), r: 5 }, view.svg);
    put(view.svg, view.box.left + 6, view.box.top + 12 + 16 * k, label, { class: "label", style: `fill: var(--${kind})` });
  });
}

const power = (v, round) => 10 ** round(Math.log10(v));

function drawTheory({ L1, L2 }) {
  const all = manyLams();
  const most = Math.max(...all.map((lam) => ratio("regressor", lam, L1, L2)), 10), least = Math.min(...all.map((lam) => ratio("quantifier", lam, L1, L2)), 0.1);
  overLam("ratios", [power(least, Math.floor), power(most, Math.ceil)], [
    ["regressor", "for the prediction, R", (lam) => ratio("regressor", lam, L1, L2)],
    ["std", "for the expected error, Q", (lam) => ratio("quantifier", lam, L1, L2)],
  ], "R, Q", 1);
  const own = speeds[facts.couplings[state.coupling]];
  const both = all.flatMap((lam) => [own.regressor(L1, lam), own.quantifier(L1, lam)]);
  overLam("speeds", [power(Math.min(...both), Math.floor), power(Math.max(...both), Math.ceil)], [
    ["regressor", "the prediction", (lam) => own.regressor(L1, lam)],
    ["std", "the expected error", (lam) => own.quantifier(L1, lam)],
  ], "speed");
}

function tell(data, pair, plain) {
  const lam = facts.lams[state.lam], { L1, L2 } = pair, R = ratio("regressor", lam, L1, L2), Q = ratio("quantifier", lam, L1, L2);
  const strips = data.kind === "strips", place = strips ? "in the clean regions" : "of the mean";
  const rows = [
    [`error ${place}, pair`, pair.error, "pair-error"], [`error ${place}, standard network`, plain.error, "plain-error"],
    ["loss where it is clean, L1", L1, "L1"], ["loss where it is noisy, L2", L2, "L2"],
    ["R, clean over noisy, prediction", R, "R"], ["Q, the same, expected error", Q, "Q"],
  ];
  at("numbers").tBodies[0].replaceChildren(...rows.map(([name, value, id]) => {
    const row = document.createElement("tr"), head = document.createElement("th"), cell = document.createElement("td");
    head.textContent = name, head.scope = "row", cell.textContent = Number.isNaN(value) ? "diverged" : value.toPrecision(3), cell.id = id, cell.dataset.value = value;
    row.append(head, cell);
    return row;
  }));
  const diverged = Number.isNaN(pair.error);
  const gain = plain.error / pair.error, early = stage() < facts.epochs.length / 2;
  const listens = R > 1.5 ? `a clean sample counts ${rounded(R)} times as much as a noisy one` : "clean and noisy samples count about the same";
  const outcome = gain > 1.15 ? `${rounded(gain)} times nearer the truth ${place} than the standard network`
    : gain < 0.87 ? `${rounded(1 / gain)} times further from the truth ${place} than the standard network`
      : `about as near the truth ${place} as the standard network`;
  const told = strips
    ? `With λ = ${lam}, ${listens} for the prediction now${Q < 0.5 ? `, while for the expected error a noisy one counts ${rounded(1 / Q)} times as much as a clean one` : ""}. `
    : `Mean and noise change slowly here, and λ matters little: move it and see. `;
  const ended = "Here training has left the finite numbers: with softplus the weight λ / L grows without bound where the loss is small, and the steps become too large. What you see is the last stage before.";
  at("story").textContent = diverged ? ended : `${told}After ${facts.epochs[stage()].toLocaleString("en")} passes the pair is ${outcome}.${early ? " It is still learning: press play." : ""}`;
  at("fit").setAttribute("aria-label", `Prediction over x after ${facts.epochs[stage()]} passes. ${at("story").textContent}`);
  at("spread").setAttribute("aria-label", "Error of the prediction over x, expected and real.");
  at("weights").setAttribute("aria-label", "Share of the weight of each region: " + data.noisy.map((noisy, k) => `${noisy ? "noisy" : "clean"} ${Math.round(100 * pair[`weight_${k + 1}`])} %`).join(", "));
  at("ratios").setAttribute("aria-label", `At this lambda R is ${R.toPrecision(3)} and Q is ${Q.toPrecision(3)}.`);
  at("speeds").setAttribute("aria-label", "Learning speeds of both networks against lambda.");
}

function draw() {
  const start = performance.now(), data = facts.data[state.data], pair = numbersOf(pairRun()), plain = numbersOf(plainRun());
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
  document.body.dataset.drawn = (performance.now() - start).toFixed(2);
}

// ---------------------------------------------------------------- controls

const shares = facts.data.map((data, k) => ({ ...data, k })).filter((data) => data.kind === "strips");
const SECONDS = 9; // from the first pass to the last

function play(on) {
  const last = facts.epochs.length - 1;
  if (on && state.frame >= last) state.frame = 0;
  state.playing = on;
  if (on) requestAnimationFrame((start) => tick(start, state.frame));
  draw();
}

function tick(start, first) {
  requestAnimationFrame((now) => {
    if (!state.playing) return;
    const last = facts.epochs.length - 1;
    state.frame = Math.min(last, first + (Math.max(0, now - start) / 1000) * (last / SECONDS));
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) state.frame = stage();
    if (state.frame >= last) state.playing = false;
    draw();
    if (state.playing) tick(start, first);
  });
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
  const [name, coupling, lam] = decodeURIComponent(location.hash.slice(1)).split(",");
  const known = facts.data.some((data) => data.name === name) && facts.couplings.includes(coupling) && facts.lams.includes(+lam);
  if (known) show(name, coupling, +lam);
  else show("strips-80", "sigmoid", 0.05);
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
  state.frame = facts.epochs.length - 1;
  for (const input of document.querySelectorAll("#controls input:not(#frame)")) input.addEventListener("input", changed);
  at("frame").addEventListener("input", () => { state.frame = +at("frame").value; state.playing = false; draw(); });
  at("play").addEventListener("click", () => play(!state.playing));
  for (const button of document.querySelectorAll("[data-preset]"))
    button.addEventListener("click", () => { const [name, coupling, lam] = button.dataset.preset.split(" "); show(name, coupling, +lam); remember(); play(true); });
  addEventListener("keydown", (event) => {
    if (event.key !== " " || event.target.closest("input, button")) return;
    event.preventDefault();
    play(!state.playing);
  });
  addEventListener("hashchange", () => { recall(); draw(); });
  new ResizeObserver(draw).observe(document.querySelector(".pictures"));
  draw();
  document.body.dataset.ready = "yes";
}

begin().catch((error) => { at("story").textContent = `This browser cannot show the page: ${error.message}`; });
