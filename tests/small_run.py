"""A configuration of a short training run from flat keywords, each put where it belongs."""

from dataclasses import fields

from policies.algorithms import load_algorithm
from policies.networks.trunk import NetworkCfg
from policies.training.config import CollectionCfg, MachineCfg, TrainCfg


def train_cfg(**values) -> TrainCfg:
    """A TrainCfg; `hidden`, `num_envs`, `engine`, `gamma` and the like go into its parts."""
    algorithm = load_algorithm(values.get("algo", "ppo")).Cfg
    parts = {"collection": CollectionCfg, "machine": MachineCfg, "network": NetworkCfg, "algorithm": algorithm}
    given = {}
    for part, cls in parts.items():
        names = {field.name for field in fields(cls)} & values.keys()
        given[part] = {name: values.pop(name) for name in names}
    collection, machine = CollectionCfg(**given.pop("collection")), MachineCfg(**given.pop("machine"))
    return TrainCfg(collection=collection, machine=machine, **given, **values)
