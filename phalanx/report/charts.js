"use strict";
// The figures. Each takes a host element and plain data, and follows the width of its host.

const MARGIN = { left: 46, right: 14, top: 18, bottom: 34 };
const ROW = 14; // height of a label
const ROWS = 4; // labels below one another at most: a mark that finds no room has none, the curve needs it

// Vertical marks [{x, label, kind, labelKind}] with their labels in rows below `top`, and where the plot can begin. A mark
// whose line would cut the label of an earlier one begins in the row below it.
function drawMarks(marks, x, width, top, bottom) {
  let body = "", rows = 0;
  const labels = [];
  for (const mark of [...marks].sort((a, b) => a.x - b.x)) {
    const at = x(mark.x), size = 12 + textWidth(mark.label), right = at + size > width;
    const [from, to] = right ? [at - size, at] : [at, at + size];
    const row = Math.max(-1, ...labels.filter((other) => other.from < (right ? to : at + 1) && from < other.to).map((other) => other.row)) + 1;
    if (row >= ROWS) {
      body += line(at, top + ROW * ROWS, at, bottom, mark.kind || "mark");
      continue;
    }
    labels.push({ from, to, row });
    rows = Math.max(rows, row + 1);
    body += line(at, top + ROW * row, at, bottom, mark.kind || "mark");
    body += text(at + (right ? -5 : 5), top + ROW * row + 10, mark.label, `label ${mark.labelKind || "mark-text"}`, right ? "end" : "start");
  }
  return { body, top: top + ROW * rows };
}

function frame(width, height, top, x, yRange, xRange, xLabel, yLabel) {
  const y = scale(yRange[0], yRange[1], height - MARGIN.bottom, top);
  let out = "";
  for (const tick of ticks(yRange[0], yRange[1], 4)) {
    out += line(MARGIN.left, y(tick), width - MARGIN.right, y(tick), "grid") + text(MARGIN.left - 8, y(tick) + 4, short(tick), "", "end");
  }
  for (const tick of ticks(xRange[0], xRange[1], width < 460 ? 4 : 7)) out += text(x(tick), height - MARGIN.bottom + 17, short(tick), "", "middle");
  out += line(MARGIN.left, y(yRange[0]), width - MARGIN.right, y(yRange[0]), "axis");
  out += text(width - MARGIN.right, height - 3, xLabel, "", "end") + text(0, 9, yLabel);
  return { y, out };
}

function extent(series, key, extra = []) {
  const values = series.flatMap((s) => s.points.map((p) => p[key])).filter((v) => v !== null).concat(extra);
  return [Math.min(...values), Math.max(...values)];
}

// options: xLabel, yLabel, yRange, height, limit {y, label}, marks [{x, label}], clock (shared cursor)
function lineChart(host, series, options) {
  const height = options.height || 220;
  const xRange = extent(series, 0);
  const found = extent(series, 1, options.limit ? [options.limit.y] : []);
  const pad = (found[1] - found[0] || 1) * 0.06;
  const yRange = options.yRange || [found[0] >= 0 ? 0 : found[0] - pad, found[1] + pad];
  responsive(host, (width) => {
    const x = scale(xRange[0], xRange[1], MARGIN.left, width - MARGIN.right);
    const marked = drawMarks(options.marks || [], x, width, MARGIN.top, height - MARGIN.bottom);
    const { y, out } = frame(width, height, marked.top, x, yRange, xRange, options.xLabel, options.yLabel);
    let body = out + marked.body;
    for (const s of series) body += path(s.points.filter((p) => p[1] !== null).map((p) => [x(p[0]), y(p[1])]), s.colour, 1.8, s.dashed ? 'stroke-dasharray="6 4"' : "");
    if (options.limit) {
      body += line(MARGIN.left, y(options.limit.y), width - MARGIN.right, y(options.limit.y), "limit");
      body += text(width - MARGIN.right, y(options.limit.y) - 5, options.limit.label, "label limit-text", "end");
    }
    host.innerHTML = `<svg height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-label="${escapeText(options.yLabel)}">${body}</svg>`;
    if (options.clock) attachCursor(host.firstChild, x, xRange, height, options.clock);
  });
}

// One lane a robot: coloured by shield mode, with the size of the intervention drawn inside.
function laneChart(host, flight, clock) {
  const laneHeight = 34, top = 8, bottom = 34, left = Math.max(MARGIN.left, 12 + Math.max(...flight.names.map(textWidth)));
  const height = top + flight.names.length * laneHeight + bottom;
  const xRange = [flight.t[0], flight.t[flight.t.length - 1]];
  const strongest = Math.max(1e-6, ...flight.intervention.flat());
  responsive(host, (width) => {
    const x = scale(xRange[0], xRange[1], left, width - MARGIN.right);
    let body = "";
    flight.names.forEach((name, robot) => {
      const low = top + robot * laneHeight, size = laneHeight - 8;
      body += text(left - 8, low + size / 2 + 4, name, "strong", "end");
      for (const part of runs(flight.mode.map((row) => row[robot]))) {
        const from = x(flight.t[part.from]), to = x(flight.t[Math.min(part.to, flight.t.length - 1)]);
        const mode = flight.modeNames[part.value];
        body += `<rect x="${from.toFixed(1)}" y="${low}" width="${Math.max(0.8, to - from).toFixed(1)}" height="${size}" fill="${modeColour(mode)}" opacity="${mode === "NOMINAL" ? 0.2 : 0.62}"><title>${escapeText(`${name}: ${mode}`)}</title></rect>`;
      }
      const bars = flight.t.map((t, k) => [x(t), low + size - (flight.intervention[k][robot] / strongest) * (size - 3)]);
      body += path(bars, "var(--ink)", 1.1, 'opacity=".75"');
    });
    for (const event of flight.events) body += line(x(event.t), top - 4, x(event.t), height - bottom + 2, "mark");
    for (const tick of ticks(xRange[0], xRange[1], width < 460 ? 4 : 7)) body += text(x(tick), height - bottom + 18, short(tick), "", "middle");
    body += text(width - MARGIN.right, height - 2, "time, s", "", "end");
    host.innerHTML = `<svg height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-label="shield modes">${body}</svg>`;
    attachCursor(host.firstChild, x, xRange, height, clock);
  });
}

// One lane a robot: who had it, from its events; also where no flight was recorded.
function stateChart(host, lanes) {
  const laneHeight = 24, top = 4, bottom = 34, left = Math.max(MARGIN.left, 12 + Math.max(...lanes.map((lane) => textWidth(lane.robot))));
  const height = top + lanes.length * laneHeight + bottom;
  const times = lanes.flatMap((lane) => lane.spans.flatMap(([from, to]) => [from, to]));
  const xRange = [Math.min(...times), Math.max(...times)];
  responsive(host, (width) => {
    const x = scale(xRange[0], xRange[1], left, width - MARGIN.right);
    let body = "";
    lanes.forEach(({ robot, spans }, row) => {
      const low = top + row * laneHeight, size = laneHeight - 6;
      body += text(left - 8, low + size / 2 + 4, robot, "strong", "end");
      for (const [from, to, state] of spans) body += `<rect class="state" x="${x(from).toFixed(1)}" y="${low}" width="${Math.max(0.8, x(to) - x(from)).toFixed(1)}" height="${size}" fill="${stateColour(state)}" opacity=".62"><title>${escapeText(`${robot}: ${state}, ${short(from)} to ${short(to)} s`)}</title></rect>`;
    });
    for (const tick of ticks(xRange[0], xRange[1], width < 460 ? 4 : 7)) body += text(x(tick), height - bottom + 18, short(tick), "", "middle");
    body += text(width - MARGIN.right, height - 2, "time, s", "", "end");
    host.innerHTML = `<svg height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-label="states of the robots">${body}</svg>`;
  });
}

// One row a term, largest sum first, each on a scale of its own: any number of terms can be distinguished.
function rewardRows(host, terms, times, clock) {
  const rowHeight = 30, bottom = 34, right = 74, left = Math.max(150, 16 + Math.max(...terms.map((term) => textWidth(term.name))));
  const height = terms.length * rowHeight + bottom;
  const xRange = [times[0], times[times.length - 1]];
  responsive(host, (width) => {
    const x = scale(xRange[0], xRange[1], left, width - right);
    let body = "";
    terms.forEach(({ name, values, sum }, row) => {
      const sorted = [0, ...values].sort((a, b) => a - b);
      const [least, most] = [0.005, 0.995].map((share) => sorted[Math.round(share * (sorted.length - 1))]); // a fall is cut short
      const y = scale(Math.min(0, least), Math.max(0, most), row * rowHeight + rowHeight - 5, row * rowHeight + 5);
      const cut = (v) => y(Math.min(Math.max(0, most), Math.max(Math.min(0, least), v)));
      body += text(left - 10, row * rowHeight + 19, name, "", "end") + line(left, y(0), width - right, y(0), "axis");
      body += path(values.map((v, k) => [x(times[k]), cut(v)]), sum < 0 ? "var(--bad)" : "var(--accent)", 1.4);
      body += text(width, row * rowHeight + 19, `${sum > 0 ? "+" : ""}${short(+sum.toPrecision(3))}`, "strong", "end");
    });
    for (const tick of ticks(xRange[0], xRange[1], width < 460 ? 4 : 7)) body += text(x(tick), height - bottom + 18, short(tick), "", "middle");
    body += text(width - right, height - 2, "time, s", "", "end") + text(width, height - bottom + 18, "sum", "", "end");
    host.innerHTML = `<svg height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-label="reward terms">${body}</svg>`;
    attachCursor(host.firstChild, x, xRange, height, clock);
  });
}

function runs(values) {
  const out = [];
  values.forEach((value, index) => {
    const last = out[out.length - 1];
    if (last && last.value === value) last.to = index + 1;
    else out.push({ value, from: index, to: index + 1 });
  });
  return out;
}

// options: unit, xLabel, limit {x, label}. Counts are on a square-root scale, so that single late cycles stay visible.
function histogramChart(host, data, options) {
  const height = 200;
  if (!data.counts.length) { host.innerHTML = '<p class="faint">not measured in this run</p>'; return; }
  const high = data.edges[data.edges.length - 1];
  const peak = Math.sqrt(Math.max(...data.counts));
  responsive(host, (width) => {
    const marks = [["p50", data.p50], ["p99", data.p99]].map(([name, value]) => ({ x: value, label: `${name} ${short(+value.toPrecision(3))} ${options.unit}`, labelKind: "strong" }));
    if (options.limit && options.limit.x <= high * 1.001) marks.push({ ...options.limit, kind: "limit", labelKind: "limit-text" });
    const x = scale(0, high, 8, width - 14), marked = drawMarks(marks, x, width, 0, height - MARGIN.bottom);
    const y = scale(0, peak, height - MARGIN.bottom, marked.top + 6);
    let body = "";
    data.counts.forEach((count, k) => {
      if (!count) return;
      const from = x(data.edges[k]), to = x(data.edges[k + 1]);
      const tall = Math.max(2, height - MARGIN.bottom - y(Math.sqrt(count)));
      body += `<rect x="${from.toFixed(1)}" y="${(height - MARGIN.bottom - tall).toFixed(1)}" width="${Math.max(1, to - from - 1).toFixed(1)}" height="${tall.toFixed(1)}" rx="1.5" fill="var(--accent)" opacity=".8"><title>${short(data.edges[k])} to ${short(data.edges[k + 1])} ${options.unit}: ${count}</title></rect>`;
    });
    body += line(8, height - MARGIN.bottom, width - 14, height - MARGIN.bottom, "axis");
    for (const tick of ticks(0, high, 6)) body += text(x(tick), height - MARGIN.bottom + 17, short(tick), "", "middle");
    body += text(width - 14, height - 3, options.xLabel, "", "end");
    body += marked.body;
    host.innerHTML = `<svg height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-label="${escapeText(options.xLabel)}">${body}</svg>`;
  });
}

// A vertical line that follows the replay's clock; a click or drag moves the clock.
function attachCursor(svg, x, range, height, clock) {
  svg.classList.add("seek");
  svg.insertAdjacentHTML("beforeend", line(x(range[0]), MARGIN.top - 4, x(range[0]), height - MARGIN.bottom, "cursor"));
  const cursor = svg.lastChild;
  clock.listen((t) => { cursor.setAttribute("x1", x(t)); cursor.setAttribute("x2", x(t)); });
  const seek = (event) => {
    const part = (event.clientX - svg.getBoundingClientRect().left - x(range[0])) / (x(range[1]) - x(range[0]));
    clock.seek(range[0] + Math.min(1, Math.max(0, part)) * (range[1] - range[0]));
  };
  svg.addEventListener("pointerdown", (event) => { clock.pause(); seek(event); });
  svg.addEventListener("pointermove", (event) => { if (event.buttons) seek(event); });
}
