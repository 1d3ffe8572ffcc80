"""swarm-swap for a policy that is shown what its shield changed in the control period before.

cd examples && phalanx train shown_correction:SHOWN_SWAP --out runs/shown
"""

from dataclasses import replace

from sim.task import TaskCfg
from sim.tasks import load_task
from sim.terms import Term, observations

SWAP = load_task("swarm-swap")
SHOWN = {"correction": Term(observations.correction, {"scale": SWAP.group.action.scale})}
SEEN = replace(SWAP.group.observation, own={**SWAP.group.observation.own, **SHOWN})
SHOWN_SWAP: TaskCfg = replace(SWAP.changed(observation=SEEN), name="shown_correction:SHOWN_SWAP")
