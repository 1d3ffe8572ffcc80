"use strict";
// The flight, replayed: a small orbit camera on a canvas and one clock that all figures share.

class Clock {
  constructor(from, to) { Object.assign(this, { from, to, t: from, playing: false, speed: 1, listeners: [] }); }
  listen(callback) { this.listeners.push(callback); callback(this.t); }
  seek(t) { this.t = Math.min(this.to, Math.max(this.from, t)); for (const callback of this.listeners) callback(this.t); }
  pause() { this.playing = false; this.seek(this.t); }
  toggle() {
    if (this.t >= this.to) this.t = this.from;
    this.playing = !this.playing;
    if (this.playing) { this.stamp = performance.now(); requestAnimationFrame((now) => this.tick(now)); }
    this.seek(this.t);
  }
  tick(now) {
    if (!this.playing) return;
    this.t += (this.speed * (now - this.stamp)) / 1000;
    this.stamp = now;
    if (this.t >= this.to) this.playing = false;
    this.seek(this.t);
    if (this.playing) requestAnimationFrame((next) => this.tick(next));
  }
}

const VIEWS = { "3D": { yaw: -0.62, tilt: 0.46 }, Top: { yaw: -Math.PI / 2, tilt: Math.PI / 2 - 0.001 }, Side: { yaw: -Math.PI / 2, tilt: 0.06 } };
const TRAIL_S = 3;

function index(times, t) {
  let low = 0, high = times.length - 1;
  while (low < high) { const middle = (low + high + 1) >> 1; if (times[middle] <= t) low = middle; else high = middle - 1; }
  return low;
}

function makeReplay(canvas, flight, clock) {
  const size = flight.size;
  let centre = flight.centre[0];
  const camera = { ...VIEWS["3D"] };
  const context = canvas.getContext("2d");
  let width = 0, height = 0;

  const project = (p) => {
    const [x, y, z] = [p[0] - centre[0], p[1] - centre[1], p[2] - centre[2]];
    const right = -Math.sin(camera.yaw) * x + Math.cos(camera.yaw) * y;
    const away = -Math.cos(camera.yaw) * x - Math.sin(camera.yaw) * y;
    const up = Math.cos(camera.tilt) * z + Math.sin(camera.tilt) * away;
    const depth = 2.6 * size + Math.cos(camera.tilt) * away - Math.sin(camera.tilt) * z;
    const zoom = (Math.min(width, 1.62 * height) * 1.62) / depth;
    return [width / 2 + zoom * right, height * 0.52 - zoom * up, depth, zoom];
  };
  const stroke = (line, colour, thick, alpha = 1) => {
    context.globalAlpha = alpha; context.strokeStyle = colour; context.lineWidth = thick;
    context.beginPath(); line.forEach((p, k) => { const q = project(p); k ? context.lineTo(q[0], q[1]) : context.moveTo(q[0], q[1]); }); context.stroke();
    context.globalAlpha = 1;
  };
  const circle = (p, radius) => Array.from({ length: 33 }, (_, k) => [p[0] + radius * Math.cos((k * Math.PI) / 16), p[1] + radius * Math.sin((k * Math.PI) / 16), p[2]]);

  const film = flight.film && makeFilmPainter(flight.film, size, context, project, stroke);

  function ground() {
    const step = size > 8 ? 2 : size > 3.2 ? 1 : 0.5;
    const edge = Math.ceil((0.62 * size) / step) * step;
    const cx = Math.round(centre[0] / step) * step, cy = Math.round(centre[1] / step) * step;
    for (let k = -edge; k <= edge + 1e-9; k += step) {
      stroke([[cx + k, cy - edge, 0], [cx + k, cy + edge, 0]], "#ffffff", 1, 0.09);
      stroke([[cx - edge, cy + k, 0], [cx + edge, cy + k, 0]], "#ffffff", 1, 0.09);
    }
  }

  function label(p, content, colour, level) {
    const [x, y] = project(p);
    context.font = "600 12px system-ui, sans-serif"; context.fillStyle = colour; context.textAlign = x > 0.75 * width ? "right" : "left";
    context.fillText(content, x + (x > 0.75 * width ? -12 : 12), y - 10 - 15 * level);
  }

  function draw(t) {
    const ratio = window.devicePixelRatio || 1;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const now = index(flight.t, t), tail = index(flight.t, t - TRAIL_S);
    centre = flight.centre[now];
    ground();
    const near = new Set();
    if (flight.limit) flight.pos[now].forEach((a, i) => flight.pos[now].forEach((b, j) => { if (i !== j && Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]) < 1.6 * flight.limit) near.add(i); }));
    flight.names.forEach((name, k) => {
      const colour = robotColour(k), whole = flight.pos.map((row) => row[k]);
      stroke(circle(whole[0], 0.05), colour, 1.5, 0.5);
      stroke(whole, colour, 1, 0.16); stroke(whole.slice(0, now + 1), colour, 1.2, 0.34);
      if (now > tail) stroke(whole.slice(tail, now + 1), colour, 2.4, 0.95);
      if (flight.limit) stroke(circle([whole[now][0], whole[now][1], 0], flight.radius), "#ffffff", 1.5, 0.28);
      if (flight.limit) stroke(circle(whole[now], flight.limit / 2), near.has(k) ? "#ff6b5e" : colour, near.has(k) ? 2 : 1, near.has(k) ? 0.95 : 0.45);
    });
    if (film) { film.markers(now); film.bodies(now); }
    let level = 0;
    for (const event of flight.events) {
      const k = flight.names.indexOf(event.robot);
      if (k < 0 || event.t > t) continue;
      const spot = flight.pos[index(flight.t, event.t)][k], [x, y] = project(spot);
      const fresh = t - event.t < 2.5;
      context.strokeStyle = event.kind === "kill" ? "#ff6b5e" : "#ffd08a"; context.lineWidth = 2; context.globalAlpha = fresh ? 1 : 0.55;
      context.beginPath(); context.moveTo(x - 5, y - 5); context.lineTo(x + 5, y + 5); context.moveTo(x + 5, y - 5); context.lineTo(x - 5, y + 5); context.stroke();
      context.globalAlpha = 1;
      if (fresh) label(spot, event.text, context.strokeStyle, level++);
    }
  }

  responsive(canvas, (wide) => {
    width = wide; height = Math.round(wide < 620 ? wide * 0.95 : wide * 0.52);
    const ratio = window.devicePixelRatio || 1;
    canvas.style.height = `${height}px`; canvas.width = width * ratio; canvas.height = height * ratio;
    draw(clock.t);
  });
  clock.listen((t) => { if (width) draw(t); });
  canvas.addEventListener("pointerdown", (event) => canvas.setPointerCapture(event.pointerId));
  canvas.addEventListener("pointermove", (event) => {
    if (!event.buttons) return;
    camera.yaw -= event.movementX * 0.008;
    camera.tilt = Math.min(Math.PI / 2 - 0.001, Math.max(0.02, camera.tilt + event.movementY * 0.006));
    draw(clock.t);
  });
  return { look(name) { Object.assign(camera, VIEWS[name]); draw(clock.t); } };
}
