"use strict";
// The bodies of a recorded episode, drawn on the replay's canvas: robots with their links, and the things around them.

function makeFilmPainter(film, size, context, project, stroke) {
  // Where the points (in the frame of a body) of a pose (x, y, z, w, x, y, z) are.
  const placed = (pose, points) => points.map(([x, y, z]) => {
    const [px, py, pz, w, a, b, c] = pose;
    const [u, v, s] = [2 * (b * z - c * y), 2 * (c * x - a * z), 2 * (a * y - b * x)];
    return [px + x + w * u + b * s - c * v, py + y + w * v + c * u - a * s, pz + z + w * s + a * v - b * u];
  });
  const STILL = [0, 0, 0, 1, 0, 0, 0];
  const poseOf = (now, body) => (body ? film.poses[now][body - 1] : STILL);

  // A shape is the convex hull of points, swollen by a radius: fill it, and let a thick round line do the swelling.
  function paint(points, radius, fill, edge, alpha) {
    const flat = points.map(project);
    const corners = hull(flat.map(([x, y]) => [x, y]));
    const thick = 2 * radius * flat.reduce((sum, q) => sum + q[3], 0) / flat.length;
    context.globalAlpha = alpha; context.lineJoin = context.lineCap = "round";
    for (const [colour, extra] of [[edge, 2], [fill, 0]]) {
      context.beginPath();
      corners.forEach(([x, y], k) => (k ? context.lineTo(x, y) : context.moveTo(x, y)));
      if (corners.length === 1) context.lineTo(corners[0][0] + 0.01, corners[0][1]);
      context.closePath(); context.fillStyle = context.strokeStyle = colour;
      if (corners.length > 2) context.fill();
      if (thick + extra > 0) { context.lineWidth = thick + extra; context.stroke(); }
    }
    context.globalAlpha = 1;
  }

  function bodies(now) {
    const seen = film.shapes.map((shape) => {
      const points = placed(poseOf(now, shape.body), shape.points);
      const depth = shape.slab ? 1e9 : points.reduce((sum, p) => sum + project(p)[2], 0) / points.length + shape.behind;
      return { shape, points, depth };
    }).sort((a, b) => b.depth - a.depth);
    for (const { shape, points } of seen) {
      const tint = shape.owner < 0 ? "#c9ced8" : robotColour(shape.owner);
      const alpha = shape.slab ? 0.55 * shape.alpha : shape.alpha;
      paint(points, shape.radius, mixed(shape.colour, tint, shape.owner < 0 ? 0.15 : 0.45), mixed("#11141b", tint, 0.35), alpha);
    }
    for (const cable of film.cables) stroke(cable.points.map((p, k) => placed(poseOf(now, cable.bodies[k]), [p])[0]), "#e9ecf2", 1.4, 0.8);
  }

  function markers(now) {
    for (const marker of film.markers) {
      const p = marker.pos[now], colour = marker.owner < 0 ? "#ffd08a" : robotColour(marker.owner), r = 0.035 * size;
      stroke([p, [p[0], p[1], 0]], colour, 1, 0.3);
      for (const [a, b] of [[0, 1], [0, 2], [1, 2]]) {
        const ring = Array.from({ length: 25 }, (_, k) => p.map((v, i) => v + r * (i === a ? Math.cos((k * Math.PI) / 12) : i === b ? Math.sin((k * Math.PI) / 12) : 0)));
        stroke(ring, colour, 1.3, 0.8);
      }
    }
  }

  return { bodies, markers };
}
