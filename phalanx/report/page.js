"use strict";
// Puts the page together from result.json and the recorded flight.

const { title, result, flight } = JSON.parse(document.getElementById("data").textContent);
const page = document.getElementById("page");

const number = (value, digits = 3) => (value === null || value === undefined ? "n/a" : short(+value.toPrecision(digits)));
const percent = (value) => (value === null || value === undefined ? "n/a" : `${+(100 * value).toFixed(1)} %`);
const seconds = (value) => (value >= 180 ? `${Math.floor(value / 60)}:${String(Math.floor(value % 60)).padStart(2, "0")} min` : `${number(value)} s`);

function card(heading, about, parent = page) {
  const element = html("section", { class: "card" }, `<header><h2>${heading}</h2>${about ? `<p>${about}</p>` : ""}</header>`);
  parent.append(element);
  return element;
}
function within(parent, kind = "div") { const element = document.createElement(kind); parent.append(element); return element; }

function head() {
  const failed = result.gates.filter((gate) => !gate.passed);
  const warned = result.gates.filter((gate) => gate.warning).length;
  const ran = result.started_utc ? `${result.started_utc.replace("T", " ").slice(0, 16)} UTC` : "";
  const facts = [result.task && `task ${result.task}`, result.kind, result.seed === undefined ? "" : `seed ${result.seed}`, ran];
  page.append(html("div", { class: "top" }, `<span class="brand">phalanx</span><span>${escapeText(facts.filter(Boolean).join(" · "))}</span>`));
  const outcome = result.outcome || (result.success ? `All ${result.gates.length} gates passed${warned ? `, ${warned} with a warning` : ""}` : `${failed.length} of ${result.gates.length} gates failed`);
  page.append(html("div", { class: `verdict ${result.success ? "pass" : "fail"}` }, escapeText(outcome)));
  page.append(html("h1", {}, escapeText(title)));
  if (failed.length) page.append(html("p", { class: "lead" }, `Not reached: ${failed.map((gate) => `${escapeText(gate.name)}${gate.wanted ? ` (${escapeText(gate.value)}; wanted ${escapeText(gate.wanted)})` : ""}`).join("; ")}.`));
  else if (result.about) page.append(html("p", { class: "lead" }, escapeText(result.about)));
}

function tiles() {
  if (result.tiles.length) page.append(html("div", { class: "tiles" }, result.tiles.map(([value, unit, label]) => `<div class="tile"><b>${escapeText(value)}<small>${escapeText(unit)}</small></b><span>${escapeText(label)}</span></div>`).join("")));
}

function replay() {
  const clock = new Clock(flight.t[0], flight.t[flight.t.length - 1]);
  const stage = html("section", { class: "stage" }, `
    <canvas aria-label="replay of the flight; drag to turn"></canvas>
    <div class="hud"><div class="who">${flight.names.map((name, k) => `<span style="--c:${robotColour(k)}">${escapeText(name)}<i></i></span>`).join("")}</div><div class="now"></div></div>
    <div class="controls"><button class="play">Play</button><div class="track"><input type="range" min="${clock.from}" max="${clock.to}" step="0.01" aria-label="time"></div>
    ${Object.keys(VIEWS).map((name) => `<button class="view" aria-pressed="${name === "3D"}">${name}</button>`).join("")}</div>`);
  page.append(stage);
  const view = makeReplay(stage.querySelector("canvas"), flight, clock);
  const [play, slider, now] = [".play", "input", ".now"].map((selector) => stage.querySelector(selector));
  const modes = [...stage.querySelectorAll(".who i")];
  for (const event of flight.events) {
    const share = (event.t - clock.from) / (clock.to - clock.from);
    stage.querySelector(".track").append(html("i", { class: "tick", style: `left:${(100 * share).toFixed(2)}%`, title: event.text }));
  }
  play.addEventListener("click", () => clock.toggle());
  slider.addEventListener("input", () => { clock.pause(); clock.seek(+slider.value); });
  for (const button of stage.querySelectorAll(".view")) {
    button.addEventListener("click", () => {
      view.look(button.textContent);
      for (const other of stage.querySelectorAll(".view")) other.setAttribute("aria-pressed", other === button);
    });
  }
  clock.listen((t) => {
    const k = index(flight.t, t);
    const gap = flight.separation[k];
    slider.value = t; play.textContent = clock.playing ? "Pause" : "Play";
    now.innerHTML = `<b>${t.toFixed(1)} s</b>${gap === undefined ? "" : `<br><span class="${gap < 1.6 * flight.limit ? "near" : ""}">closest pair ${gap.toFixed(2)} m</span>`}`;
    if (flight.modeNames.length) modes.forEach((slot, robot) => { const mode = flight.modeNames[flight.mode[k][robot]]; slot.textContent = mode.toLowerCase(); slot.style.color = modeColour(mode); slot.style.opacity = mode === "NOMINAL" ? 0.6 : 1; });
  });
  clock.seek(clock.from);
  if (!matchMedia("(prefers-reduced-motion: reduce)").matches) clock.toggle();
  return clock;
}

function flightFigures(clock) {
  const marks = flight.events.map((event) => ({ x: event.t, label: event.text }));
  if (flight.separation.length) {
    const least = Math.min(...flight.separation);
    const about = `The closest pair came within ${number(least)} m; below ${number(flight.limit)} m two robots touch. Click or drag to move the replay.`;
    lineChart(within(card("Separation", about)), [{ points: flight.t.map((t, k) => [t, flight.separation[k]]), colour: "var(--accent)" }],
      { xLabel: "time, s", yLabel: "centre distance of the closest pair, m", limit: { y: flight.limit, label: `collision ${number(flight.limit)} m` }, marks, clock });
  }
  if (flight.modeNames.length) {
    const shield = card("Shield", "One lane a robot. Colour is the mode of the shield, the line how far it changed the request of the policy.");
    const used = [...new Set(flight.mode.flat())].map((k) => flight.modeNames[k]);
    shield.append(html("div", { class: "legend" }, used.map((name) => `<span style="--c:${modeColour(name)}">${escapeText(name.toLowerCase())}</span>`).join("")));
    laneChart(within(shield), flight, clock);
  }
  for (const chart of flight.charts) {
    const box = card(chart.title, chart.about);
    const series = chart.lines.map((l) => ({ points: flight.t.map((t, k) => [t, l.values[k]]), colour: l.owner < 0 ? "var(--soft)" : robotColour(l.owner), dashed: l.dashed }));
    box.append(html("div", { class: "legend" }, chart.lines.map((l, k) => `<span style="--c:${series[k].colour}">${escapeText(l.name)}${l.dashed ? " (dashed)" : ""}</span>`).join("")));
    lineChart(within(box), series, { xLabel: "time, s", yLabel: chart.label, marks, clock });
  }
  const terms = flight.rewards.filter((c) => c.values.some((v) => v !== 0)).sort((a, b) => Math.abs(b.sum) - Math.abs(a.sum));
  if (terms.length) rewardRows(within(card("Reward", "Each term in each control step, mean over the robots, on a scale of its own; at the right its sum over the episode.")), terms, flight.t, clock);
}

function learning(parent) {
  const curve = result.train.return_curve;
  const box = card("Learning", `${number(result.train.agent_steps)} agent steps in ${seconds(result.train.wall_s)}, ${number(result.train.agent_steps_per_s)} agent steps/s with everything on.`, parent);
  if (curve.length > 1) lineChart(within(box), [{ points: curve.filter((row) => row.mean_return !== undefined).map((row) => [row.agent_steps, row.mean_return]), colour: "var(--accent)" }], { xLabel: "agent steps", yLabel: "mean return of an episode" });
}

function heldOut(parent) {
  const box = card("Held-out starts", "Starts that training never saw, with the randomisation on. Team size differs from training on purpose.", parent);
  const rows = Object.entries(result.verify.teams).map(([size, team]) => `<tr><td>${size}</td>
    <td class="whole"><span class="bar"><i style="width:${100 * team.shielded_success_rate}%"></i></span>${percent(team.shielded_success_rate)}</td><td class="num">${percent(team.success_rate)}</td>
    <td class="num">${percent(team.collision_rate)}</td><td class="num ${team.shielded_collision_rate > 0 ? "fail-mark" : "pass-mark"}">${percent(team.shielded_collision_rate)}</td>
    <td class="num">${number(team.shielded_min_separation_m)} m</td></tr>`).join("");
  box.append(html("div", { class: "scroll" }, `<table><tr><th>team</th><th>success</th><th class="num">without shield</th><th class="num">collisions without</th><th class="num">with shield</th><th class="num">closest</th></tr>${rows}</table>`));
}

function timing() {
  const two = within(page); two.className = "two";
  const period = flight.controlPeriodMs;
  histogramChart(within(card("Sensor to command", "From the moment of the measurement to the command that left the shield.", two)), flight.latency,
    { unit: "ms", xLabel: "latency, ms", limit: { x: period, label: "one control period" } });
  histogramChart(within(card("Period error", `How far each control period was from ${number(period)} ms. Counts on a square-root scale; the last bar holds the tail.`, two)), flight.period,
    { unit: "ms", xLabel: "absolute error, ms" });
}

const mark = (gate) => (!gate.passed ? "fail" : gate.warning ? "warn" : "pass");

// What a mission failed by, and every time that a shield took over: which robot, when, from which mode to which, why.
function incidents() {
  const { failures = [] } = result.ros, { takeovers = [] } = result.shield, { events = [] } = result;
  if (!failures.length && !takeovers.length && !events.length) return;
  const row = (robot, t, what, why) => `<tr><td>${escapeText(robot)}</td><td class="num">${number(t)} s</td><td>${escapeText(what)}</td><td>${escapeText(why)}</td></tr>`;
  const ended = (hold) => (hold.until_s !== null ? `policy again at ${number(hold.until_s)} s` : hold.latched ? "latched" : "until the end");
  card("Incidents", "Failures, and times at which a robot changed hands.").append(html("div", { class: "scroll" }, `<table><tr><th>robot</th><th class="num">when</th><th>what</th><th>reason</th></tr>${
    failures.map((f) => row(f.robot, f.t_s, "failure", f.why)).join("")}${
    takeovers.map((hold) => row(hold.robot, hold.t_s, `${hold.from_mode} to ${hold.to_mode}, ${ended(hold)}`, hold.reason)).join("")}${
    events.map((e) => row(e.robot, e.t_s, e.what, e.why)).join("")}</table>`));
}

function states() {
  if (!result.states.length) return;
  const box = card("States", "One lane a robot: what its shield said of who had it, and where a late process took it from the policy.");
  const used = [...new Set(result.states.flatMap((lane) => lane.spans.map((span) => span[2])))];
  box.append(html("div", { class: "legend" }, used.map((name) => `<span style="--c:${stateColour(name)}">${escapeText(name.toLowerCase())}</span>`).join("")));
  stateChart(within(box), result.states);
}

function attacks() {
  const { columns, rows } = result.attack;
  const cells = (row, tag) => row.map((cell, k) => `<${tag}${k > 1 && k < 7 ? ' class="num"' : ""}>${escapeText(cell)}</${tag}>`).join("");
  card("Faults and attackers", "Robot-steps and what came of them. Violations under faults beyond the stated bounds are in brackets: they are reported, not counted.").append(html("div", { class: "scroll" }, `<table><tr>${cells(columns, "th")}</tr>${rows.map((row) => `<tr>${cells(row, "td")}</tr>`).join("")}</table>`));
}

function ending() {
  const gates = card("Gates", "What this run had to reach. The command exits non-zero and names the gate when one is missed.");
  gates.append(html("div", { class: "scroll" }, `<table><tr><th style="width:64px"></th><th>gate</th><th class="num">measured</th><th class="num">wanted</th></tr>${result.gates.map((gate) =>
    `<tr><td class="${mark(gate)}-mark">${mark(gate)}</td><td>${escapeText(gate.name)}${gate.cause ? `<br><span class="soft">${escapeText(gate.cause)}</span>` : ""}</td><td class="num ${gate.value.length > 40 ? "long" : ""}">${escapeText(gate.value)}</td><td class="num">${escapeText(gate.wanted)}</td></tr>`).join("")}</table>`));
  const facts = { ...(result.seed === undefined ? {} : { seed: result.seed }), ...(result.wall_s ? { "whole run": seconds(result.wall_s) } : {}), ...(result.machine || {}), ...(result.files || {}) };
  if (!Object.keys(facts).length) return;
  const run = card("This run", "");
  const table = (values) => `<div class="scroll"><table>${Object.entries(values).map(([name, value]) => `<tr><td class="soft">${escapeText(name)}</td><td><code>${escapeText(value)}</code></td></tr>`).join("")}</table></div>`;
  run.append(html("div", {}, table(facts)));
  if (result.versions) run.append(html("details", {}, `<summary>Versions</summary>${table(result.versions)}`));
  if (result.command) run.append(html("p", { class: "soft", style: "margin-top:10px" }, `The same run again: <code>${escapeText(result.command)}</code>`));
}

head();
tiles();
if (flight) flightFigures(replay());
const two = within(page);
two.className = "two";
if (result.train) learning(two);
if (result.verify) heldOut(two);
if (flight && flight.latency.counts.length) timing();
states();
if (result.ros) incidents();
if (result.attack) attacks();
if (result.gates.length) ending();
