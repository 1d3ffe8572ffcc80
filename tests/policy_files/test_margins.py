"""How far a plant may be pushed: what is pushed, that the search finds where it falls, and what is advised."""

import json

import pytest
import torch
from bundle_fixture import export_onnx, make_contract, record_probes
from pd_bundle import PdPolicy
from places import ZOO

from deploy.bundle import load_bundle
from deploy.contract import TeamSpec
from phalanx.commands.verify import verify
from phalanx.console import out
from phalanx.verification.margins import show_margins, write_margins
from policies.evaluation import margins
from policies.evaluation import verify as verification
from policies.evaluation.flight_advice import advise, name_of
from policies.evaluation.margins import OTHER_PHYSICS, MarginCfg, Search, plan_margins, refuted
from policies.export.save import save_bundle
from sim import randomisation
from sim.conditions import Condition, Variant, under_conditions
from sim.envs.team_env import TeamEnv
from sim.perturbations import not_pushed, perturbations
from sim.tasks import load_task
from sim.terms import EventTerm

HOVER = load_task("hover")
OWN = dict(gates=[], complete=True, episodes=32, held=True, success=1.0, gate=0.9, only=[], corner=None, physics={})


class EagerPd(PdPolicy):
    """Turns three times as fast as its robot's loop can follow once a command comes late."""

    def forward(self, *inputs):
        target, *rest = super().forward(*inputs)
        faster = torch.cat([target[:, :1], 3.0 * target[:, 1:]], dim=-1)
        return torch.minimum(torch.maximum(faster, self.low), self.high), *rest


def contract_of_calm_hover():
    return make_contract(
        task="calm_hover:TASK", team=TeamSpec(trained_with=1, peer_range_m=5.0, max_peers=8), shield={}
    )


@pytest.fixture(scope="module")
def eager(tmp_path_factory):
    path, contract, policy = tmp_path_factory.mktemp("eager") / "eager.onnx", contract_of_calm_hover(), EagerPd()
    save_bundle(export_onnx(policy, contract), contract, record_probes(policy, contract), path)
    return path


def test_each_world_has_its_condition_and_all_else_is_as_the_task_says():
    owner = torch.tensor([0, 1, 2, 1, 0])
    conditions = [
        Condition(),
        Condition({"crazyflie": {"mass": EventTerm(randomisation.mass, {"scale": (2.0, 2.0)})}}),
        Condition({"crazyflie": {"push": EventTerm(randomisation.push, {"speed_m_s": (1.0, 1.0)}, (0.0, 0.0))}}),
    ]
    env = TeamEnv(under_conditions(HOVER, conditions, owner), 5, seed=0)
    base, nominal = env.world.scene.group.base_body[0], env.group.robot.mass_kg
    shares = [float(model.body_mass[base]) / nominal for model in env.world.physics.models]
    assert [shares[1], shares[3]] == pytest.approx([2.0, 2.0], rel=1e-5)
    assert all(0.95 <= shares[world] <= 1.05 for world in (0, 2, 4)) and len(set(shares)) == 4
    still = torch.zeros(5, 1, 4)
    for _ in range(3):
        before = env.group.now.state.base_lin_vel.clone()
        env.step({"crazyflie": still})
    jumps = (env.group.now.state.base_lin_vel - before).norm(dim=-1).squeeze(-1)
    assert jumps[2] > 0.7 and jumps[[0, 1, 3, 4]].max() < 0.5  # m/s in one control period


def test_other_physics_are_what_they_say():
    task = Variant(noise=3.0, integrator="RK4", substeps=2).of(load_task("reach"))
    env = TeamEnv(task, 1, seed=0)
    assert env.world.sim_dt == 0.002 and int(env.world.scene.model.opt.integrator) == 1
    assert int(env.world.scene.model.opt.cone) == 0
    other = TeamEnv(OTHER_PHYSICS["elliptic friction"].of(load_task("reach")), 1, seed=0).world
    option = other.scene.model.opt
    assert (other.sim_dt, int(option.integrator), int(option.cone), option.impratio) == (0.004, 3, 1, 10.0)
    assert task.group.noise.joint_pos_rad == pytest.approx(3 * load_task("reach").group.noise.joint_pos_rad)


@pytest.mark.parametrize("name", ["hover", "reach", "stand", "swarm-swap", "push", "perch", "payload-lift", "velocity"])
def test_all_that_a_task_varies_is_pushed_or_named_as_not_pushed(name):
    task = load_task(name)
    for group, cfg in task.groups.items():
        found = perturbations(task, group)
        assert len({each.name for each in found}) == len(found)
        pushed = {event for each in found for event in each.terms(cfg, each.nominal)}
        assert set(cfg.randomisation) - pushed == set(not_pushed(task, group)) <= {"terrain"}
        for each in found:
            up, down = each.grid(True, None), each.grid(False, None)
            assert up or (down and (up == sorted(up)) and down == sorted(down, reverse=True))


def test_every_value_that_may_be_pushed_can_be_set():
    for name in ("swarm-swap", "stand", "push"):
        task = load_task(name)
        (group,) = task.groups
        for loop in (False, True):
            ends = [
                Condition({group: each.terms(task.group, end)})
                for each in perturbations(task, group)
                for end in (each.low, each.high)
                if each.variant(end).rate_loop == loop
            ]
            if ends:
                changed = under_conditions(Variant(rate_loop=loop).of(task), ends, torch.arange(len(ends)))
                env = TeamEnv(changed, len(ends), seed=0)
                action = torch.zeros(len(ends), env.group.num_agents, env.group.action_dim)
                assert env.step({group: action}).reward[group].isfinite().all()


@pytest.mark.parametrize("limit", [0.0, 0.11, 0.35, 0.71, 1.0])
def test_the_search_ends_at_the_first_value_that_falls(limit):
    grid = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]
    search = Search({"nominal": 0.0}, grid, lambda value: [])
    flown = 0
    while (place := search.next) is not None:
        search.take(64 if grid[place] <= limit else 40, 64, 0.95)
        flown += 1
    assert flown <= 3
    assert (search.held, search.fell) == (sum(v <= limit for v in grid) - 1, sum(v <= limit for v in grid))


def test_a_nominal_value_of_another_plant_is_flown_first_and_nothing_beyond_it_where_it_falls():
    search = Search({"nominal": 1.0}, [1.0, 2.0, 3.0], lambda value: [])
    assert search.next == 0
    search.take(10, 64, 0.95)
    assert search.next is None and (search.held, search.fell) == (-1, 0)


def test_a_value_falls_where_its_episodes_refute_the_gate_and_not_for_one_failure():
    assert not refuted(63, 64, 0.99) and refuted(61, 64, 0.99)
    assert not refuted(64, 64, 0.99) and refuted(0, 64, 0.1)


def row(**changes):
    plain = dict(group="", parameter="mass", unit="x", direction="up", nominal=1.0, trained=1.05, field=1.1, held=1.2)
    return {**plain, "fell": 1.3, "found": True, "farthest": 2.0, "room": 4.0, "success": {}, **changes}


CORNER_ROW = row(parameter="worst corner", unit="x of training", nominal=0.0, trained=1.0, field=None)


@pytest.mark.parametrize(
    ("rows", "others", "advice", "says"),
    [
        ([row()], {}, "fly", None),
        ([row(fell=None, held=2.0)], {}, "fly", None),
        ([row(held=1.08, fell=1.1)], {}, "fly with care", "mass: falls at 1.1 x, hardware shows 1.1 x"),
        ([row(held=1.02, fell=1.05)], {}, "fly with care", "mass: falls at 1.05 x, trained for 1.05 x"),
        ([row(held=None, fell=1.0)], {}, "fly with care", "mass: falls already at 1 x, trained for 1.05 x"),
        (
            [row(unit="1", held=None, fell=0.0, trained=0.1)],
            {},
            "fly with care",
            "mass: falls already at 0, trained for 0.1",
        ),
        ([row(), row(direction="down", trained=0.95, held=0.97, fell=0.95)], {}, "fly with care", "mass, less: falls"),
        ([row(held=1.0, trained=None, field=None)], {}, "fly with care", "mass: falls at 1.3 x, the least that was"),
        ([row(held=1.05, trained=None)], {}, "fly with care", "mass: falls between 1.05 and 1.3 x, hardware shows 1.1"),
        ([row()], {"complete": False}, "fly with care", "margins: not all are known"),
        ([row()], {"only": ["mass"]}, "fly with care", "margins: only mass pushed"),
        ([row()], {"episodes": 8}, "fly with care", "margins: only 8 episodes for each value, 32 are wanted"),
        ([row()], {"corner": CORNER_ROW | {"held": 0.75, "fell": 1.0}}, "fly with care", "worst corner: falls at 1 x"),
        ([row()], {"corner": CORNER_ROW | {"held": 1.0, "fell": 1.25}}, "fly", None),
        ([row()], {"physics": {"half": 0.5}, "fell_under": ["half"]}, "fly with care", "half: success 0.5, must be"),
        ([row()], {"physics": {"half": 0.95}, "fell_under": []}, "fly", None),
        ([row()], {"held": False, "success": 0.5}, "do not fly", "success: 0.5, must be >= 0.9"),
    ],
)
def test_advice_names_its_reasons(rows, others, advice, says):
    found = advise([], {**OWN, "rows": rows, **others})
    assert found["advice"] == advice
    reasons = [f"{reason['name']}: {reason['why']}" for reason in found["reasons"]]
    assert reasons[0].startswith(says) if says else not reasons


def test_drones_that_never_flew_by_their_firmware_are_to_be_flown_with_care_for_that():
    found = {name: load_bundle(ZOO / f"{name}.onnx").contract for name in ("hover", "swarm-swap", "reach")}
    advised = {name: advise([], {**OWN, "rows": [row()]}, [contract]) for name, contract in found.items()}
    assert advised["hover"]["advice"] == advised["reach"]["advice"] == "fly"
    assert advised["swarm-swap"]["advice"] == "fly with care"
    assert [reason["name"] for reason in advised["swarm-swap"]["reasons"]] == ["rate loop"]


@pytest.mark.parametrize(("share", "advice"), [(None, "fly"), (0.01, "fly"), (0.02, "fly with care")])
def test_more_torque_than_motors_give_at_their_speed_is_a_reason_for_care(share, advice):
    """None: a record from before torque-speed curves were known."""
    actuators = {} if share is None else {"beyond_curve_share": {"hip": 0.0, "knee": share}}
    for group in ("", "walker"):
        found = advise([], {**OWN, "rows": [row()]}, files={group: {"actuators": actuators}})
        assert found["advice"] == advice
        name = f"{group}: torque-speed curve" if group else "torque-speed curve"
        why = "knee is asked for more than its motor gives 2 % of the time, must be <= 1 %"
        assert found["reasons"] == ([{"name": name, "why": why}] if advice != "fly" else [])


def test_what_hardware_shows_is_among_what_is_flown():
    shown = {}
    for name in ("swarm-swap", "hover-x500", "stand", "push", "pick-place"):
        for each in perturbations(load_task(name), load_task(name).group_name):
            ends = [] if each.field is None else each.field
            for up, end in enumerate(ends):
                assert end == each.nominal or end in each.grid(bool(up), None), (name, each.name, end)
            shown[name, each.name] = each.field
    assert shown["swarm-swap", "wind"] == (0.0, pytest.approx(0.02149163 * 0.8, abs=1e-4))
    assert shown["hover-x500", "wind"] == (0.0, pytest.approx(0.24823918 * 5.4, abs=1e-4))
    assert shown["swarm-swap", "lost messages"] == (0.0, 0.1) and shown["hover-x500", "lost commands"] == (0.0, 0.02)
    assert shown["stand", "drive strength"] == (pytest.approx(111 / 139, abs=1e-4), 1.0)
    assert shown["push", "drive strength"] is None
    assert shown["stand", "push"] == (0.0, 0.5) and shown["pick-place", "sensor noise"] == (1.0, 5.0)


def test_a_number_is_named_with_its_group_only_where_there_are_several():
    corner = row(parameter="worst corner")
    drone, arm = row(group="drone"), row(group="arm", parameter="drive gains")
    assert [name_of(each, [drone, corner]) for each in (drone, corner)] == ["mass", "worst corner"]
    of_both = [name_of(each, [drone, arm, corner]) for each in (drone, arm, corner)]
    assert of_both == ["drone: mass", "arm: drive gains", "worst corner"]


def test_a_margin_that_was_not_searched_to_its_end_has_no_room(capsys):
    measured = {"physics": {}, "not_pushed": {}, "episodes": 64, "gate": 0.9, "corner": None}
    show_margins(measured | {"rows": [row(), row(parameter="drag", found=False, fell=None, room=None)]})
    rows = {line.split()[0]: line.split()[-3:] for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert rows["mass"] == ["1.2", "1.3", "x4.0"] and rows["drag"] == ["unknown"] * 3


def test_no_word_of_the_margins_is_broken_in_a_terminal_of_80_columns(capsys, monkeypatch):
    monkeypatch.setattr(out, "width", 80)
    measured = json.loads((ZOO / "swarm-swap.json").read_text())["margins"]
    show_margins(measured)
    table = capsys.readouterr().out.partition("half the time step")[0]
    assert max(map(len, table.splitlines())) <= 80
    names = {word for row in measured["rows"] for word in row["parameter"].split()}
    assert names | {"hardware", "trained", "training", "beyond"} <= set(table.replace(",", "").split())


def test_a_failed_gate_is_a_reason_not_to_fly():
    gate = {"name": "probes", "value": 1.0, "sign": "<=", "limit": 1e-5, "passed": False}
    found = advise([gate], {**OWN, "rows": [row(held=1.02, fell=1.05)]})
    assert found == {"advice": "do not fly", "reasons": [{"name": "probes", "why": "1, must be <= 1e-05"}]}


@pytest.mark.slow
def test_a_policy_that_knows_no_delay_is_to_be_flown_with_care_because_of_delay(eager):
    found = plan_margins([eager], MarginCfg(episodes=16, only=("total delay", "mass")))(None)
    by_name = {name_of(each, found["rows"]): each for each in found["rows"]}
    assert found["complete"] and found["held"], found
    delay = by_name["total delay"]
    assert delay["fell"] is not None and delay["held"] < delay["field"] == 0.04 and delay["trained"] is None
    flight = advise([], found)
    assert flight["advice"] == "fly with care" and "total delay" in [reason["name"] for reason in flight["reasons"]]


@pytest.mark.slow
def test_ctrl_c_leaves_what_is_known(eager, monkeypatch):
    flown, whole = [], margins.fly_plants

    def pressed_in_the_second_round(*given):
        flown.append(given)
        if len(flown) > 1:
            raise KeyboardInterrupt
        return whole(*given)

    monkeypatch.setattr(margins, "fly_plants", pressed_in_the_second_round)
    found = plan_margins([eager], MarginCfg(episodes=4, only=("total delay",)))(None)
    (delay,) = found["rows"]
    assert not found["complete"] and not delay["found"] and found["success"] is not None
    assert len(delay["success"]) == 1  # of the value in the middle, from which it is known which half holds
    assert advise([], found)["reasons"][-1]["name"] == "margins"


@pytest.mark.slow
def test_other_physics_can_be_flown_alone(eager):
    found = plan_margins([eager], MarginCfg(episodes=4, only=("elliptic friction",)))(None)
    assert list(found["physics"]) == ["elliptic friction"] and found["rows"] == [] and found["complete"]
    assert found["success"] is not None
    assert advise([], found)["reasons"][-1]["why"] == "only elliptic friction pushed"


def test_a_number_that_nothing_pushes_is_refused_by_name(eager):
    with pytest.raises(ValueError, match=r"only 'weather': of calm_hover:TASK these can be pushed: .*total delay"):
        plan_margins([eager], MarginCfg(only=("weather",)))
    with pytest.raises(ValueError, match=r"^only 'totl delay'; did you mean 'total delay'\?$"):
        plan_margins([eager], MarginCfg(only=("totl delay",)))


def test_verify_refuses_a_name_that_cannot_be_pushed_before_it_flies(eager, monkeypatch):
    monkeypatch.setattr(verification, "verify", lambda *_: pytest.fail("flown before the name was read"))
    with pytest.raises(ValueError, match=r"only 'weather': .*total delay"):
        verify((eager,), margins=True, only=("weather",))


def test_the_document_lists_what_the_records_beside_it_say(tmp_path):
    measured = {**OWN, "episodes": 64, "physics": {}, "corner": None, "rows": [row(fell=None, held=2.0)]}
    record = {"task": "hover", "fingerprint": "0", "gates": [], "margins": measured, "flight": advise([], measured)}
    (tmp_path / "hover.json").write_text(json.dumps(record), encoding="utf-8")
    (tmp_path / "old.json").write_text(json.dumps({"verdict": "verified"}), encoding="utf-8")
    text = write_margins(tmp_path / "README.md", "margins")
    assert "| `hover` | **fly with care** | margins: rate loop gains" in text and "jitter" in text
    assert "not pushed: the record is older" in text
    assert "| mass (x) | 2 and beyond, trained to 1.05 |" in text
    assert "`old`" not in text
