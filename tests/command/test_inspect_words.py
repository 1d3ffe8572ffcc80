"""What `phalanx inspect` says of the shield of each class of robot."""

import pytest
from command import phalanx
from places import ZOO


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        ("hover.onnx", "keeps 0.25 m between robots"),
        ("reach.onnx", "keeps its links 2 cm off one another, the floor and what stands around"),
        ("velocity.onnx", "takes a tilt beyond 46 deg, foreseen 250 ms ahead, or a base below 0.43 m for a fall"),
    ],
)
def test_the_shield_is_explained_in_sentences(file, sentence):
    done = phalanx("inspect", ZOO / file)
    said = " ".join(done.stdout.split())
    assert done.returncode == 0 and sentence in said
    assert "takes over when state or policy is silent for 5 periods (100 ms), sends NaN" in said
    assert "approach_gain" not in said
