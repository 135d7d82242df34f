"""PPO that averages its gradients by hand; each rank plays a tiny game of its own."""

from pathlib import Path

from tests.real.recipe import Recipe

RECIPE = Recipe(
    repository="vwxyzjn/cleanrl",
    commit="fe8d8a03c41a7ef5b523e2e354bd01c363e786bb",
    script="cleanrl/ppo_atari_multigpu.py",
    kind="rl",
    # its rank is the local rank
    nodes=1,
    arguments=(
        "--env-id=tiny_game:Tiny-v0",
        "--local-num-envs=1",
        "--num-steps=16",
        "--num-minibatches=2",
        "--update-epochs=2",
        "--total-timesteps=128",
    ),
    variables=(("PYTHONPATH", "{data}:."),),
    install=("gymnasium==0.29.1", "numpy<2", "opencv-python-headless<4.11", "tyro", "rich", "tensorboard"),
)

_GAME = """
import gymnasium, numpy

class Game(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 255, (96, 96, 3), numpy.uint8)
    action_space = gymnasium.spaces.Discrete(3)
    metadata = {"render_modes": []}
    ale = property(lambda self: self)

    def lives(self):
        return 1

    def get_action_meanings(self):
        return ["NOOP", "LEFT", "RIGHT"]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 40
        return self.observation_space.sample(), {}

    def step(self, action):
        self.left -= 1
        return self.observation_space.sample(), float(action), self.left == 0, False, {}

gymnasium.register("Tiny-v0", Game)
"""


def make_data(folder: Path) -> None:
    (folder / "tiny_game.py").write_text(_GAME)
