"""Whether shields that know nothing of each other keep drones apart together: `python -m deploy.shield.check`.

Two drones on one line: the gap g m between their centres, their closing speed p m/s (the rows see the two speeds by
their sum, and may be stricter where one has more of it), dg/dt = -p, dp/dt = a + b, with a and b m/s^2 what each does
towards the other. Above each other all lengths are divided by `downwash_ratio`, as in `peer_rows`. The line is cut into
cells of g and h = braking_curve(g - reach) - p, the barrier of those rows; once for each mode of the peer and age of
its message.

The deployed rows, called at the corners of a cell and rounded outward, say what a robot may do: anything up to their
bound; none is counted on to brake harder than its limits of tilt, climb and descent. A robot assumes of the other one
what the other's rows allow. Its safe cells are the greatest set that no allowed motion leaves, in continuous time:
wherever the flow leads through the face of a cell, with all errors at their bounds, the next cell is in the set, and no
gap is below `separation_m`. The check passes where every cell with h >= 0 is safe, and no mutant of the rows passes.

Proven by that, for double integrators: two robots that start with h >= 0 keep their distance whatever is requested, if
- they close in at no more than twice `max_speed`, and rows act on states predicted over latency and age;
- the predicted gap is at most `cells.GAP_M`, the closing speed at most `cells.NOISE_M_S` better than they are (three
  sigma of both robots together), and that again by `cells.UNSEEN_M_S`, by which the peer sped up since its message.
Not proven: what a peer may do unseen beyond that (the check prints how much would do), motion off the line, attitude
and rotors beyond a latency, errors of thrust, fences, more than two robots: of three on a line the middle one cannot
brake for both sides at once. One drone above another is proven only up to the closing speed that is printed: the rows
count on more vertical braking than there is.
"""
