"""What the shields of peers say of themselves: whether they keep their distance to this robot, and how large it is."""

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite

import numpy as np

from deploy.shield.authority import AT_REST
from deploy.shield.types import Sharing
from hardware.types import Peers
from ros_nodes.lifecycle.lifecycle_node import ManagedNode
from ros_nodes.messages.diagnostics import ShieldMode
from ros_nodes.messages.shield_says import PeerStatus, listen_to_peer

SAID_S = 1.5  # a status that is older says nothing: one is due every half second
RESTS = {state.name for state in AT_REST}
FARTHEST_M = 1.5  # a peer that says it keeps more than this is not believed: it could push the robot anywhere


class PeersSay:
    """The newest status of every peer. One that says nothing, or whose status has two publishers, does not share."""

    def __init__(self, node: ManagedNode, robot: str, names: Sequence[str], silent_s: float):
        """`robot`: this one; `silent_s`: age of its messages at a peer from which on that one does not hear it."""
        self._logger = node.get_logger()
        self._robot, self._names, self._silent_s = robot, list(names), silent_s
        self._peers = [listen_to_peer(node, name) for name in names]
        self.sharing = Sharing(np.zeros(len(names), bool), np.zeros(len(names)))
        self._rest = np.zeros(len(names), bool)  # these said that they move no more
        self._any_rests = False

    def hear(self, now_s: float) -> None:
        """Take what has arrived; `now_s`: the time of the node."""
        for slot, peer in enumerate(self._peers):
            peer.look(now_s)
            if (said := peer.said) is None:
                continue
            why_not = self._why_not(peer, said, now_s)
            if self.sharing.shares[slot] and why_not and said.state not in RESTS:
                self._logger.warning(f"{self._names[slot]} does not keep its distance any more: {why_not}")
            self.sharing.shares[slot] = not why_not
            keeps = said.separation_m if isfinite(said.separation_m) else 0.0
            self.sharing.separation_m[slot] = keeps if 0.0 < keeps <= FARTHEST_M else 0.0
            self._rest[slot] = said.state in RESTS
        self._any_rests = bool(self._rest.any())

    def _why_not(self, peer: PeerStatus, said: ShieldMode, now_s: float) -> str:
        """Why a peer does not do its half, or an empty string."""
        if not peer.alone:
            return "a second shield speaks for it"
        if now_s - peer.heard_s > SAID_S:
            return "its shield is silent"
        if not said.shares:
            return f"it is {said.label}"
        age_s = said.peers.get(self._robot)
        return "" if age_s is not None and age_s <= self._silent_s else "it does not hear this robot"

    @property
    def names(self) -> list[str]:
        """Of those that share."""
        return [name for name, shares in zip(self._names, self.sharing.shares.tolist(), strict=True) if shares]

    def settle(self, peers: Peers) -> Peers:
        """`peers`, of which those stand where they were heard last that said that they rest, and are silent."""
        if not self._any_rests:
            return peers
        gone = self._rest & (peers.age > self._silent_s) & peers.valid
        if not gone.any():
            return peers
        still = np.where(gone[:, None], np.float32(0.0), peers.lin_vel)
        return replace(peers, lin_vel=still, age=np.where(gone, np.float32(0.0), peers.age))
